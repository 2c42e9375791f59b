"""Packed images in stores: only the rows that a crop needs are asked for, and give what the whole file gives."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import archives
import core_jobs
import corpus
import numpy as np
import pytest
import torch

import fastpipe
from fastpipe import core, readers
from fastpipe import transforms as T
from fastpipe.core.packed import LONGEST_HEAD, pack, rows_of, segments_of
from fastpipe.core.structs import Status
from fastpipe.errors import DatasetError, DecodeError, StoreError
from fastpipe.readers.partial import PartialFile, fetch_images
from fastpipe.sources import ByteSource, Entry, RemoteSource
from fastpipe.types import Box, RemoteFile

if not core.available():
    pytest.skip(core.why_not(), allow_module_level=True)

CROP = T.Compose([T.RandomCrop((40, 300)), T.RandomHorizontalFlip(), T.ToTensor()])
KINDS = ("420", "444", "gray", "440")
FILES = {
    f"class{number % 2}/{number}.fpj": pack(corpus.jpeg(560 + 9 * number, 720 - 7 * number, kind, number, quality=96))
    for number, kind in enumerate(KINDS)
}


class Store(ByteSource):
    """Files in memory; counts what is asked for, and spoils answers.

    Args:
        files: by key.
        answer: from a key, an offset, a length and the right bytes to those that come instead.
    """

    ranges_from = 0

    def __init__(self, files: dict[str, bytes], answer: Callable[[str, int, int, bytes], bytes] | None = None) -> None:
        self.files, self.answer = files, answer
        self.asked: list[tuple[str, int, int]] = []
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return "counted://store"

    def list(self) -> Iterable[Entry]:
        return [Entry(key, len(data), str(hash(data))) for key, data in self.files.items()]

    def read(self, key: str, offset: int = 0, length: int = -1) -> bytes:
        data = self.files[key]
        right = data[offset:] if length < 0 else data[offset : offset + length]
        found = right if self.answer is None else self.answer(key, offset, length, right)
        with self._lock:
            self.asked.append((key, offset, len(found)))
        return found

    @property
    def bytes(self) -> int:
        return sum(length for _, _, length in self.asked)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed") / "train"
    assert all(len(data) > 2 * LONGEST_HEAD for data in FILES.values())
    return corpus.write(folder, FILES)


def samples(dataset: fastpipe.ImageFolder) -> list[torch.Tensor]:
    return [dataset[index][0] for index in range(len(dataset))]


def assert_same(one: Iterable[torch.Tensor], other: Iterable[torch.Tensor]) -> None:
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


class TestWhatIsAskedFor:
    def test_the_beginning_then_a_crops_rows_and_the_metadata(self, folder: Path) -> None:
        store = Store(FILES)
        dataset, local = (fastpipe.ImageFolder(root, CROP, seed=1) for root in (store, folder))
        store.asked.clear()
        batches = [next(iter(fastpipe.DataLoader(one, 4))) for one in (dataset, local)]
        assert torch.equal(batches[0][0], batches[1][0])
        assert len(store.asked) == 3 * len(FILES)
        assert [length for _, offset, length in store.asked if not offset] == [LONGEST_HEAD] * len(FILES)
        # 40 of 560 rows and more, and two rows of MCUs at the edges.
        rows = sum(len(data) for data in FILES.values()) * (40 + 2 * 16 + 2 * 2) / 560
        assert store.bytes < len(FILES) * LONGEST_HEAD + 1.3 * rows < 0.6 * sum(map(len, FILES.values()))

    @pytest.mark.parametrize("options", [{"threads": 2}, {"num_workers": 2}], ids=str)
    def test_threads_and_workers(self, folder: Path, options: dict[str, int]) -> None:
        made = []
        for root in (Store(FILES), folder):
            dataset = fastpipe.ImageFolder(root, CROP, seed=1)
            made.append([images for images, _ in fastpipe.DataLoader(dataset, 2, **options)])  # type: ignore[arg-type]
        assert_same(*made)

    def test_one_sample_after_the_other(self, folder: Path) -> None:
        store = Store(FILES)
        dataset = fastpipe.ImageFolder(store, CROP, seed=1)
        store.asked.clear()
        assert_same(samples(dataset), samples(fastpipe.ImageFolder(folder, CROP, seed=1)))
        assert len(store.asked) == 3 * len(FILES)

    @pytest.mark.parametrize("number", [None, 4 << 20])
    def test_small_files_and_those_that_are_to_be_whole_by_one(self, folder: Path, number: int | None) -> None:
        store = Store(FILES)
        store.ranges_from = number
        dataset = fastpipe.ImageFolder(store, CROP, seed=1)
        store.asked.clear()
        assert_same(samples(dataset), samples(fastpipe.ImageFolder(folder, CROP, seed=1)))
        assert sorted(store.asked) == sorted((key, 0, len(data)) for key, data in FILES.items())

    def test_rows_in_the_beginning_are_here_already(self) -> None:
        key = "class0/0.fpj"
        partial = PartialFile(Store(FILES).file(Entry(key, len(FILES[key]))), FILES[key][:LONGEST_HEAD])
        begin, end = segments_of(FILES[key])
        (metadata,) = partial.missing(Box(0, 0, 20, 700))
        assert (metadata.offset, metadata.length) == (begin, end - begin)
        (part,) = partial.missing(Box(0, 0, 560, 10))  # in one with the metadata, which stand behind the last row
        assert (part.offset, part.offset + part.length) == (LONGEST_HEAD, end)

    def test_a_cache_has_whole_files(self, folder: Path, tmp_path: Path) -> None:
        store, local = Store(FILES), samples(fastpipe.ImageFolder(folder, CROP, seed=1))
        dataset = fastpipe.ImageFolder(store, CROP, seed=1, cache=fastpipe.Cache(tmp_path / "cache", 1 << 30))
        store.asked.clear()
        for _ in range(2):
            assert_same(samples(dataset), local)
        assert store.bytes == sum(map(len, FILES.values()))

    def test_the_users_own_code_gets_whole_files(self, folder: Path) -> None:
        store = Store(FILES)
        dataset, local = (fastpipe.ImageFolder(root, lambda image: np.asarray(image)) for root in (store, folder))
        store.asked.clear()
        for index in range(len(FILES)):
            np.testing.assert_array_equal(dataset[index][0], local[index][0])
        assert len(store.asked) == len(FILES)

    def test_members_of_archives(self, folder: Path, tmp_path: Path) -> None:
        fsspec = pytest.importorskip("fsspec", reason="stores are read by fsspec")
        system = fsspec.filesystem("memory")
        expected = samples(fastpipe.ImageFolder(folder, CROP, seed=1))
        for archive in (archives.zipped(folder, tmp_path / "a.zip"), archives.tarred(folder, tmp_path / "a.tar")):
            assert_same(samples(fastpipe.ImageFolder(archive, CROP, seed=1)), expected)
            system.put(str(archive), f"/bucket/{archive.name}")
            asked: list[int] = []

            class Counted(RemoteSource):
                def read_file(self, file: RemoteFile) -> bytes:
                    data = super().read_file(file)
                    asked.append(len(data))  # noqa: B023
                    return data

            source = Counted("memory://bucket", ranges_from=0)
            dataset = fastpipe.ImageFolder(f"memory://bucket/{archive.name}", CROP, seed=1)
            paths = [
                RemoteFile(path, source, path.key, path.offset, path.length, 0, False) for path, _ in dataset.samples
            ]
            listed = fastpipe.ImageList((paths, [target for _, target in dataset.samples]), CROP, seed=1)
            asked.clear()
            assert_same(samples(listed), expected)
            assert len(asked) == 3 * len(FILES)
            assert sum(asked) < 0.6 * sum(map(len, FILES.values()))
        system.rm("/bucket", recursive=True)


class TestStoresThatFail:
    def expected(self, folder: Path) -> list[torch.Tensor]:
        return samples(fastpipe.ImageFolder(folder, CROP, seed=1))

    def test_rows_that_cannot_be_read_make_it_the_whole_file(self, folder: Path) -> None:
        def answer(key: str, offset: int, length: int, right: bytes) -> bytes:
            if offset:
                raise ConnectionError("broken")
            return right

        store = Store(FILES, answer)
        assert_same(samples(fastpipe.ImageFolder(store, CROP, seed=1)), self.expected(folder))

    @pytest.mark.parametrize("beginning", [True, False])
    def test_parts_that_are_cut_off_make_it_the_whole_file(self, folder: Path, beginning: bool) -> None:
        def answer(key: str, offset: int, length: int, right: bytes) -> bytes:
            return right[:-9] if length >= 0 and (offset == 0) == beginning and length != len(FILES[key]) else right

        store = Store(FILES, answer)
        assert_same(samples(fastpipe.ImageFolder(store, CROP, seed=1)), self.expected(folder))

    def test_a_store_without_ranges(self, folder: Path) -> None:
        store = Store(FILES, lambda key, offset, length, right: FILES[key])
        assert_same(samples(fastpipe.ImageFolder(store, CROP, seed=1)), self.expected(folder))

    def test_a_store_that_is_gone_names_the_file(self) -> None:
        def answer(key: str, offset: int, length: int, right: bytes) -> bytes:
            if key.endswith("2.fpj"):
                raise ConnectionError("gone")
            return right

        dataset = fastpipe.ImageFolder(Store(FILES, answer), CROP, seed=1)
        position = next(i for i, (path, _) in enumerate(dataset.samples) if path.endswith("2.fpj"))
        with pytest.raises(ConnectionError):
            dataset[position]
        forgiving = fastpipe.ImageFolder(Store(FILES, answer), CROP, on_error="skip", max_bad_fraction=1.0)
        images, _ = next(iter(fastpipe.DataLoader(forgiving, 4)))
        assert len(images) == len(FILES) - 1

    def test_a_cut_file_is_an_error_that_names_it(self) -> None:
        cut = {key: data[:-200] if key.endswith("1.fpj") else data for key, data in FILES.items()}
        dataset = fastpipe.ImageFolder(Store(cut), CROP, seed=1)
        position = next(i for i, (path, _) in enumerate(dataset.samples) if path.endswith("1.fpj"))
        with pytest.raises(DecodeError, match=r"counted://store/class1/1\.fpj.*ends early"):
            dataset[position]

    def test_a_file_that_changed_since_it_was_listed(self) -> None:
        store = Store(dict(FILES))
        dataset = fastpipe.ImageFolder(store, CROP, seed=1)
        store.files["class0/0.fpj"] = FILES["class1/1.fpj"]
        with pytest.raises((DecodeError, StoreError), match=r"class0/0\.fpj"):
            dataset[0]

    def test_a_damaged_row_is_an_error_that_names_file_and_row(self) -> None:
        key = "class0/0.fpj"
        damaged = bytearray(FILES[key])
        start, end = rows_of(FILES[key], Box(330, 0, 4, 100))
        damaged[(start + end) // 2] ^= 4
        transform = T.Compose([T.CenterCrop((100, 200)), T.ToTensor()])
        dataset = fastpipe.ImageFolder(Store({**FILES, key: bytes(damaged)}), transform)
        height = struct.unpack_from("<I", damaged, 12)[0]
        with pytest.raises(DecodeError, match=r"counted://store/class0/0\.fpj.*row \d+ of its MCUs"):
            dataset[0]
        # And one that doesn't reach it never hears of it.
        assert height // 2 + 20 < 330
        small = T.Compose([T.CenterCrop((10, 200)), T.ToTensor()])
        dataset = fastpipe.ImageFolder(Store({**FILES, key: bytes(damaged)}), small)
        assert torch.equal(dataset[0][0], fastpipe.ImageFolder(Store(FILES), small)[0][0])

    def test_a_file_that_only_has_the_name(self) -> None:
        data = corpus.jpeg(500, 700, "444", quality=97)
        assert len(data) > LONGEST_HEAD
        store = Store({"a/0.fpj": data})
        dataset = fastpipe.ImageFolder(store, CROP, seed=1)
        store.ranges_from = None
        assert torch.equal(dataset[0][0], fastpipe.ImageFolder(store, CROP, seed=1)[0][0])

    def test_sizes_beyond_the_file_ask_for_nothing_behind_it(self) -> None:
        """A head whose checksum is right, and whose rows aren't there: others' bytes may stand behind a member."""
        data = FILES["class0/0.fpj"]
        store = Store({"a/0.fpj": data[: LONGEST_HEAD + 500] + bytes(10 * len(data))})
        file = RemoteFile("x.fpj", store, "a/0.fpj", 0, LONGEST_HEAD + 500, 0, False)
        _, errors, partial = fetch_images([file])
        (part,) = partial[0].missing(Box(0, 0, 560, 100))
        assert not errors
        assert part.offset + part.length == LONGEST_HEAD + 500

    def test_a_length_that_nobody_has_memory_for(self) -> None:
        store = Store(FILES)
        good = store.file(Entry("class1/1.fpj", len(FILES["class1/1.fpj"])))
        absurd = store.file(Entry("class0/0.fpj", 1 << 62))
        _, errors, partial = fetch_images([absurd, good])
        assert ([*errors], [*partial]) == ([0], [1])
        assert isinstance(errors[0], MemoryError | ValueError)


class TestRows:
    @pytest.mark.parametrize("kind", ["420", "444", "422", "440", "411", "gray"])
    def test_are_all_that_the_core_looks_at(self, kind: str) -> None:
        """In memory with nothing but head, metadata and a box's rows, each box decodes as in the whole file."""
        packed = pack(corpus.jpeg(83, 61, kind) + b"behind")
        head = struct.unpack_from("<I", packed, 36)[0]
        rng = np.random.default_rng(3)
        for _ in range(150):
            top, left = rng.integers(83), rng.integers(61)
            box = Box(int(top), int(left), int(rng.integers(1, 84 - top)), int(rng.integers(1, 62 - left)))
            start, end = rows_of(packed, box)
            alone = bytearray(len(packed))
            for first, last in ((0, head), (start, end), segments_of(packed)):
                alone[first:last] = packed[first:last]
            expected = core_jobs.decode(core.thread_context(), packed, box)
            status, pixels = core_jobs.decode(core.thread_context(), bytes(alone), box)
            assert status == Status.OK
            np.testing.assert_array_equal(pixels, expected[1])
            # And hardly more: at most a row of MCUs above and below.
            factor = 2 if kind in ("420", "440") else 1
            height = 8 * factor
            index = 72 + 128 * packed[22]
            least, most = max(box.top // height - 1, 0), min((box.bottom - 1) // height + 1, -(-83 // height) - 1)
            sizes = [struct.unpack_from("<I", packed, index + 8 * row)[0] for row in range(least, most + 1)]
            assert end - start <= sum(sizes)

    def test_parts_are_asked_for_once(self) -> None:
        store = Store(FILES)
        file = store.file(Entry("class0/0.fpj", len(FILES["class0/0.fpj"])))
        start = FILES["class0/0.fpj"][:LONGEST_HEAD]
        partial = PartialFile(file, start)
        box = Box(300, 0, 100, 700)
        parts = partial.missing(box)
        assert len(parts) == 2
        for part in parts:
            partial.add(part, store.read_file(part))
        assert not partial.missing(box)
        assert not partial.missing(Box(320, 50, 20, 20))
        assert len(partial.missing(Box(290, 0, 200, 20))) == 1
        assert partial.whole() == FILES["class0/0.fpj"]


def test_the_longest_head() -> None:
    """The head of 65,500 rows of pixels, as if the file had as many tables as there can be."""
    packed = pack(corpus.jpeg(65_500, 1, "gray"))
    size, tables = struct.unpack_from("<I", packed, 36)[0], packed[22]
    assert size + (3 - tables) * 128 == LONGEST_HEAD


def test_options_of_a_remote_source() -> None:
    pytest.importorskip("fsspec", reason="stores are read by fsspec")
    source = RemoteSource("memory://bucket/train", ranges_from=5)
    assert source.ranges_from == source.above(1).ranges_from == 5
    assert RemoteSource("memory://bucket/train").ranges_from == ByteSource.ranges_from == 4 << 20
    assert RemoteSource("memory://bucket/train", ranges_from=None).ranges_from is None
    with pytest.raises(DatasetError, match="ranges_from=-1"):
        RemoteSource("memory://bucket/train", ranges_from=-1)


def test_reading_alone_is_whole(folder: Path) -> None:
    """`read_image` and the like take what they are given as a whole."""
    store = Store(FILES)
    for entry in store.list():
        np.testing.assert_array_equal(readers.read_image(store.file(entry)), readers.read_image(folder / entry.key))
