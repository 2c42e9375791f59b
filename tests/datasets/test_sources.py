"""Datasets over a `fastpipe.ByteSource`: the samples of the folder that has the same files."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path

import corpus
import pytest
import torch

import fastpipe
from fastpipe import readers
from fastpipe import transforms as T
from fastpipe.datasets import ImageIndex
from fastpipe.errors import DatasetError, StoreError
from fastpipe.sources import ByteSource, Entry
from fastpipe.types import RemoteFile

TRAIN = T.Compose([T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize([0.5] * 3, [0.25] * 3)])


class Files(ByteSource):
    """The files below a folder, as a source: what a user would write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.broken: set[str] = set()

    @property
    def name(self) -> str:
        return f"files:/{self.folder}"

    def list(self) -> Iterable[Entry]:
        for path in self.folder.rglob("*"):
            if path.is_file():
                status = path.stat()
                yield Entry(path.relative_to(self.folder).as_posix(), status.st_size, str(status.st_mtime_ns))

    def read(self, key: str, offset: int = 0, length: int = -1) -> bytes:
        if key in self.broken:
            raise StoreError(f"{self.url(key)}: no answer")
        with open(self.folder / key, "rb") as file:
            file.seek(offset)
            return file.read(length)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus.write(tmp_path_factory.mktemp("photos") / "train", {**corpus.odd_folder(), "README.txt": b"no class"})


def same(one: fastpipe.ImageFolder, other: fastpipe.ImageFolder) -> None:
    assert len(one) == len(other) == 7
    assert list(one.targets) == list(other.targets)
    for index in range(len(one)):
        assert torch.equal(one[index][0], other[index][0])


@pytest.mark.parametrize("cached", [False, True])
def test_it_gives_the_samples_of_the_folder(root: Path, tmp_path: Path, cached: bool) -> None:
    cache = fastpipe.Cache(tmp_path / "cache", "1 MB") if cached else None
    source = Files(root)
    stored = fastpipe.ImageFolder(source, TRAIN, seed=0, cache=cache)
    folder = fastpipe.ImageFolder(root, TRAIN, seed=0)
    assert stored.classes == folder.classes
    assert stored.root == source.name
    assert [path[len(source.name) :] for path, _ in stored.samples] == [
        path[len(str(root)) :] for path, _ in folder.samples
    ]
    same(stored, folder)
    same(pickle.loads(pickle.dumps(stored)), folder)
    for workers, threads in ((0, 2), (2, 0)):
        ours, theirs = (
            fastpipe.DataLoader(one, batch_size=3, num_workers=workers, threads=threads) for one in (stored, folder)
        )
        for (images, targets), (expected, wanted) in zip(ours, theirs, strict=True):
            assert torch.equal(images, expected)
            assert torch.equal(targets, wanted)
    if cache is not None:
        assert cache.statistics().files == 7


def test_a_path_in_a_store_is_read_by_everything_that_reads_paths(root: Path) -> None:
    source = Files(root)
    dataset = fastpipe.ImageFolder(source)
    path = dataset.samples[0][0]
    assert isinstance(path, RemoteFile)
    assert (str(path), path.key, path.offset, path.whole) == (f"{source.name}/ants/1.jpg", "ants/1.jpg", 0, True)
    data = (root / "ants" / "1.jpg").read_bytes()
    assert path.length == len(data)
    again = pickle.loads(pickle.dumps(path))
    assert readers.read_file(again) == data
    assert readers.read_header(path) == readers.read_header(root / "ants" / "1.jpg")
    assert (readers.read_image(path) == readers.read_image(data)).all()
    assert readers.read_start(path, 10) == data[:10]
    assert readers.stat_file(path)[0] == len(data)
    part = RemoteFile("part", source, "ants/1.jpg", 2, 10, 0, False)
    assert readers.read_file(part) == data[2:12]


def test_an_index_is_made_anew_only_where_the_store_has_changed(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for path in root.rglob("*.jp*g"):
        (copy / path.relative_to(root)).parent.mkdir(parents=True, exist_ok=True)
        (copy / path.relative_to(root)).write_bytes(path.read_bytes())
    first, again = (ImageIndex.from_folder(Files(copy), location=tmp_path / "index") for _ in range(2))
    assert first.generation == again.generation
    assert again.origin == "opened"
    (copy / "ants" / "1.jpg").write_bytes(corpus.jpeg(50, 40))
    changed = ImageIndex.from_folder(Files(copy), location=tmp_path / "index")
    assert changed.origin.startswith("built")
    assert len(changed) == len(first)
    list_of_them = fastpipe.ImageList(changed, TRAIN, seed=0)
    assert list_of_them[0][0].shape == (3, 32, 32)
    assert list_of_them.subset([2, 1]).samples[0][0].source.name == f"files:/{copy}"


def test_a_list_of_keys(root: Path, tmp_path: Path) -> None:
    cache = fastpipe.Cache(tmp_path / "cache")
    keys = ["bees/2.webp", "ants/1.jpg"]
    listed = fastpipe.ImageList((keys, [7, 8]), TRAIN, root=Files(root), seed=0, cache=cache)
    local = fastpipe.ImageList((keys, [7, 8]), TRAIN, root=root, seed=0)
    for index in range(2):
        assert torch.equal(listed[index][0], local[index][0])
        assert listed[index][1] == local[index][1]
    assert cache.statistics().files == 2


def test_a_store_that_fails(root: Path) -> None:
    source = Files(root)
    dataset = fastpipe.ImageFolder(source, TRAIN, seed=0, on_error="skip", max_bad_fraction=0.5)
    source.broken.add("ants/1.jpg")
    loader = fastpipe.DataLoader(dataset, batch_size=7, threads=1)
    with pytest.warns(fastpipe.errors.FastpipeWarning, match="1 left out"):
        assert [len(targets) for _, targets in loader] == [6]
    raising = fastpipe.ImageFolder(source, TRAIN, seed=0)
    with pytest.raises(StoreError, match=r"ants/1\.jpg: no answer"):
        raising[0]
    with pytest.raises(StoreError, match=r"ants/1\.jpg: no answer"):
        next(iter(fastpipe.DataLoader(raising, batch_size=7, threads=1)))


class Broken(Files):
    """Breaks one promise."""

    def __init__(self, folder: Path, promise: str) -> None:
        super().__init__(folder)
        self.promise = promise
        self.lists = 0
        if promise == "pickled":
            self.connection = lambda: None

    def list(self) -> Iterable[Entry]:
        self.lists += 1
        for key, size, etag in super().list():
            if self.promise == "sizes":
                yield Entry(key, size + 1, etag)
            elif self.promise == "keys":
                yield Entry("/" + key, size, etag)
            elif self.promise == "etags":
                yield Entry(key, size, str(self.lists))
            else:
                yield Entry(key, size, etag)
        if self.promise == "twice":
            yield Entry(key, size, etag)

    def read(self, key: str, offset: int = 0, length: int = -1) -> bytes:
        if self.promise == "missing" and not (self.folder / key).exists():
            return b""
        if self.promise == "ranges":
            return super().read(key, 0, length)
        return super().read(key, offset, length)


@pytest.mark.parametrize(
    ("promise", "words"),
    [
        ("sizes", "gives 8 bytes, and list.. says 9"),
        ("keys", "list.. gives the key '/"),
        ("etags", "list.. gives something else the second time"),
        ("twice", "gives '.*' twice"),
        ("missing", "read.'fastpipe/no-such-file.jpg'. gives something: FileNotFoundError says"),
        ("ranges", r"read.'README.txt', 2, 2. gives 2 bytes, which aren't the 2 that the file of 8 bytes has there"),
        ("pickled", "it can't be pickled, as workers need it"),
    ],
)
def test_the_conformance_suite(root: Path, promise: str, words: str) -> None:
    fastpipe.sources.check_source(Files(root))
    with pytest.raises(AssertionError, match=words):
        fastpipe.sources.check_source(Broken(root, promise))


@pytest.mark.parametrize("cache", ["folder", Path("folder"), True])
def test_what_is_no_cache_is_named(tmp_path: Path, cache: object) -> None:
    for root in ("https://photos.invalid/train", tmp_path):
        with pytest.raises(DatasetError, match=r"cache=.*: give a cache, as fastpipe\.Cache\(FOLDER"):
            fastpipe.ImageFolder(root, cache=cache)


def test_what_a_store_cant_do(root: Path, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="is_valid_file, find_classes and make_dataset need a folder"):
        fastpipe.ImageFolder(Files(root), is_valid_file=bool)
    with pytest.raises(DatasetError, match=r"cache= keeps files of a store, and .*train is none: leave it out"):
        fastpipe.ImageFolder(root, cache=fastpipe.Cache(tmp_path / "cache"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="Couldn't find any class folder in files:/"):
        fastpipe.ImageFolder(Files(tmp_path / "empty"))
