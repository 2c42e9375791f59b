"""Samples in zip, tar and shards: the same as in the folder that they were packed from, or an error that names them."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import archives as packed
import core_jobs
import corpus
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import fastpipe
from fastpipe import core, readers
from fastpipe import transforms as T
from fastpipe.datasets import ImageIndex
from fastpipe.errors import DatasetError, DecodeError, FastpipeWarning
from fastpipe.index import pieces
from fastpipe.index.archives import Member, list_members
from fastpipe.types import ArchiveMember

TRAIN = T.Compose([T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize([0.5] * 3, [0.25] * 3)])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus.write(tmp_path_factory.mktemp("photos") / "train", corpus.odd_folder())


@pytest.fixture(scope="module")
def archives(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("packed")
    return {
        "zip": packed.zipped(root, folder / "train.zip"),
        "zip below a folder": packed.zipped(root, folder / "below.zip", "train/"),
        "tar": packed.tarred(root, folder / "train.tar"),
        "tar below a folder": packed.tarred(root, folder / "below.tar", "train"),
        "tar of GNU": packed.tarred(root, folder / "gnu.TAR", "./", tarfile.GNU_FORMAT),
    }


KINDS = ["zip", "zip below a folder", "tar", "tar below a folder", "tar of GNU"]


def same_samples(one: fastpipe.ImageFolder, other: fastpipe.ImageFolder, seed: int = 0) -> None:
    assert len(one) == len(other) > 0
    for index in range(len(one)):
        torch.manual_seed(seed)
        image, target = one[index]
        end = torch.get_rng_state()
        torch.manual_seed(seed)
        expected, wanted = other[index]
        assert torch.equal(image, expected)
        assert target == wanted
        assert torch.equal(torch.get_rng_state(), end)


@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_is_as_the_folder_in_it(root: Path, archives: dict[str, Path], kind: str) -> None:
    folder, archive = fastpipe.ImageFolder(root, TRAIN), fastpipe.ImageFolder(str(archives[kind]), TRAIN)
    assert (archive.classes, archive.class_to_idx) == (folder.classes, folder.class_to_idx)
    assert list(archive.targets) == list(folder.targets)
    inside = "train/" if "below" in kind else ""
    start = f"{archives[kind]}{os.sep}" + inside.replace("/", os.sep)
    assert [path.removeprefix(start) for path, _ in archive.samples] == [
        os.path.relpath(path, root) for path, _ in folder.samples
    ]
    for (path, _), (file, _) in zip(archive.samples, folder.samples, strict=True):
        assert isinstance(path, ArchiveMember)
        assert readers.read_file(path) == Path(file).read_bytes()
        assert readers.read_header(path) == readers.read_header(file)
    same_samples(archive, folder)


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_batches_workers_and_seeds(root: Path, archives: dict[str, Path], kind: str) -> None:
    def batches(source: Path, **options: int) -> list[torch.Tensor]:
        dataset = fastpipe.ImageFolder(source, TRAIN, seed=5)
        generator = torch.Generator().manual_seed(1)
        loader = fastpipe.DataLoader(dataset, batch_size=3, shuffle=True, generator=generator, **options)
        return [images.clone() for images, _ in loader]

    expected = batches(root)
    for options in ({}, {"threads": 2}, {"num_workers": 1}):
        found = batches(archives[kind], **options)
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_a_folder_in_an_archive(root: Path, tmp_path: Path) -> None:
    archive = packed.zipped(root.parent, tmp_path / "all.zip", "data/2020/")
    dataset = fastpipe.ImageFolder(f"{archive}/data/2020/train/", TRAIN)
    assert dataset.classes == ["ants", "ants-b", "bees"]
    same_samples(dataset, fastpipe.ImageFolder(root, TRAIN))
    with pytest.raises(FileNotFoundError, match="class folder"):
        fastpipe.ImageFolder(f"{archive}/data/2021")


def test_what_torchvision_says_of_valid_files_and_classes(root: Path, archives: dict[str, Path]) -> None:
    def is_text(path: str) -> bool:
        return path.endswith((".txt", "1.jpg"))

    for place in (root, archives["zip"]):
        dataset = fastpipe.ImageFolder(place, is_valid_file=is_text, allow_empty=True)
        assert [Path(path).name for path, _ in dataset.samples] == ["1.jpg", "1.jpg", "notes.txt"]

    class OnlyBees(fastpipe.ImageFolder):
        def find_classes(self, directory: str | Path) -> tuple[list[str], dict[str, int]]:
            return ["bees"], {"bees": 7}

    assert OnlyBees(archives["tar"]).targets == [7, 7]


def test_an_empty_class_is_an_error_as_in_a_folder(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("cats/1.jpg", b"")
        archive.writestr("dogs/", b"")
    with pytest.raises(FileNotFoundError, match="dogs"):
        fastpipe.ImageFolder(tmp_path / "a.zip")
    assert fastpipe.ImageFolder(tmp_path / "a.zip", allow_empty=True).classes == ["cats", "dogs"]


def test_members_pickle_and_are_strings(archives: dict[str, Path]) -> None:
    dataset = fastpipe.ImageFolder(archives["tar"], TRAIN)
    again = pickle.loads(pickle.dumps(dataset))
    assert list(again.samples) == list(dataset.samples)
    member = dataset.samples[0][0]
    other = pickle.loads(pickle.dumps(member))
    assert (other, other.container, other.offset, other.length) == (
        str(member),
        str(archives["tar"]),
        member.offset,
        member.length,
    )


def test_a_loader_of_ones_own_reads_a_member(root: Path, archives: dict[str, Path]) -> None:
    import io

    def load(path: str) -> Image.Image:
        return Image.open(io.BytesIO(readers.read_file(path))).convert("RGB")

    for (mine, _), (other, _) in zip(
        fastpipe.ImageFolder(archives["zip"], loader=load), fastpipe.ImageFolder(root), strict=True
    ):
        assert np.array_equal(np.asarray(mine), np.asarray(other))


def test_lists_subsets_and_splits_of_members(archives: dict[str, Path]) -> None:
    whole = fastpipe.ImageFolder(archives["zip"], TRAIN)
    paths, labels = zip(*whole.samples, strict=True)
    listed = fastpipe.ImageList((paths, labels), TRAIN)
    same_samples(listed, whole)
    assert fastpipe.ImageList((paths, labels), root="elsewhere").samples == whole.samples  # which are whole themselves
    part = fastpipe.ImageList.from_folder(archives["zip"], transform=TRAIN).subset([5, 0])
    assert [path for path, _ in part.samples] == [paths[5], paths[0]]
    assert readers.read_file(part.samples[0][0]) == readers.read_file(paths[5])
    with pytest.raises(DatasetError, match="not both"):
        fastpipe.ImageList(([paths[0], str(archives["zip"])], [0, 0]))


def test_the_index_is_kept_and_made_anew_when_the_archive_changes(
    root: Path, tmp_path: Path, settled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = packed.tarred(root, tmp_path / "a.tar")
    kept = ImageIndex.from_folder(archive)
    assert kept.origin.startswith("built")
    assert ImageIndex.from_folder(archive).origin == "opened"
    (root.parent / "more").mkdir(exist_ok=True)
    shutil.copytree(root, tmp_path / "more")
    (tmp_path / "more/bees/0.jpg").write_bytes(corpus.jpeg(9, 9))
    packed.tarred(tmp_path / "more", archive)
    again = ImageIndex.from_folder(archive)
    assert again.origin == "built: 1 of 1 containers may have changed"
    assert len(again) == len(kept) + 1
    # One that changed just now may change again while the clock stands still: it isn't believed.
    monkeypatch.setattr(pieces, "SETTLED_NS", 10**18)
    os.utime(archive)
    assert ImageIndex.from_folder(archive).origin.startswith("built")
    listed: list[str] = []

    def counted(path: str) -> Iterator[Member]:
        listed.append(path)
        return list_members(path)

    monkeypatch.setattr("fastpipe.index.archives.list_members", counted)
    same = ImageIndex.from_folder(archive)
    assert listed == [str(archive)]
    assert same.generation == ImageIndex.from_folder(archive).generation  # it is as it was: nothing is written anew


def test_an_archive_in_whose_place_there_is_a_folder_now_is_listed_anew(root: Path, tmp_path: Path) -> None:
    place = packed.tarred(root, tmp_path / "a.tar")
    packed_files = ImageIndex.from_folder(place)
    place.unlink()
    shutil.copytree(root, place)
    index = ImageIndex.from_folder(place)
    paths = index.paths(np.arange(len(index)))
    assert len(paths) == len(packed_files)
    assert all(type(path) is str and os.path.isfile(path) for path in paths)


# ---- errors: what can't be read by its place


def test_compressed_members_are_named(root: Path, tmp_path: Path) -> None:
    archive = packed.zipped(root, tmp_path / "a.zip", method=zipfile.ZIP_DEFLATED)
    with pytest.raises(DatasetError, match=r"a\.zip: ants/1\.jpg is compressed .*zip -0 -r"):
        fastpipe.ImageFolder(archive)
    for ending, mode in (("gz", "w:gz"), ("xz", "w:xz"), ("bz2", "w:bz2")):
        for name in (f"a.tar.{ending}", f"{ending}.tar"):
            with tarfile.open(tmp_path / name, mode) as tar:
                tar.add(root, "train")
            with pytest.raises(DatasetError, match="compressed"):
                fastpipe.ImageFolder(tmp_path / name)


def test_a_cut_off_archive_names_the_member(root: Path, archives: dict[str, Path], tmp_path: Path) -> None:
    whole = archives["tar"].read_bytes()
    member = fastpipe.ImageFolder(archives["tar"]).samples[-1][0]
    cut = tmp_path / "cut.tar"
    cut.write_bytes(whole[: member.offset + member.length // 2])
    with pytest.raises(DatasetError, match=r"cut\.tar"):
        fastpipe.ImageFolder(cut)
    whole = archives["zip"].read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DatasetError, match=r"cut\.zip is no zip archive, or is damaged"):
        fastpipe.ImageFolder(tmp_path / "cut.zip")


def test_an_overwritten_header_is_an_error_and_no_shorter_list(archives: dict[str, Path], tmp_path: Path) -> None:
    data = bytearray(archives["tar"].read_bytes())
    member = fastpipe.ImageFolder(archives["tar"]).samples[3][0]
    data[member.offset - 512 : member.offset - 300] = b"\x55" * 212
    (tmp_path / "a.tar").write_bytes(data)
    with pytest.raises(DatasetError, match=r"a\.tar is .*damaged after"):
        fastpipe.ImageFolder(tmp_path / "a.tar")
    data = bytearray(archives["zip"].read_bytes())
    data[0:4] = b"gone"
    (tmp_path / "a.zip").write_bytes(data)
    dataset = fastpipe.ImageFolder(tmp_path / "a.zip")  # a bad sample, and no shorter list
    assert len(dataset) == len(fastpipe.ImageFolder(archives["zip"]))
    with pytest.raises(FileNotFoundError, match=r"can't be read at its offset.*ants/1\.jpg"):
        dataset[0]


def test_a_container_that_shrinks_while_training(root: Path, tmp_path: Path) -> None:
    archive = packed.zipped(root, tmp_path / "a.zip")
    dataset = fastpipe.ImageFolder(archive, TRAIN)
    last = max(range(len(dataset)), key=lambda index: dataset.samples[index][0].offset)
    member = dataset.samples[last][0]
    with open(archive, "rb+") as file:
        file.truncate(member.offset + member.length - 5)
    with pytest.raises(OSError, match="ends 5 bytes too early") as caught:
        dataset[last]
    assert caught.value.filename == str(member)
    loader = fastpipe.DataLoader(dataset, batch_size=len(dataset))
    with pytest.raises(OSError, match="ends 5 bytes too early"):
        next(iter(loader))
    archive.unlink()
    with pytest.raises(FileNotFoundError) as gone:
        dataset[0]
    assert gone.value.filename == str(dataset.samples[0][0])


def test_bad_members_are_dealt_with_as_bad_files(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "train")
    (tmp_path / "train/ants/1.jpg").write_bytes(b"")
    (tmp_path / "train/bees/2.webp").write_bytes(b"not an image")
    archive = packed.tarred(tmp_path / "train", tmp_path / "a.tar")
    with pytest.raises(DecodeError, match=r"1\.jpg"):
        fastpipe.ImageFolder(archive, TRAIN)[0]
    options = {"on_error": "skip", "max_bad_fraction": 1.0, "bad_files_log": tmp_path / "bad.csv"}
    dataset = fastpipe.ImageFolder(archive, TRAIN, **options)
    with pytest.warns(FastpipeWarning):
        (batch,) = fastpipe.DataLoader(dataset, batch_size=len(dataset))
    assert len(batch[0]) == len(dataset) - 2
    assert "a.tar" in (tmp_path / "bad.csv").read_text()


@given(st.binary(max_size=200), st.integers(0, 1 << 40), st.booleans())
def test_any_bytes_are_an_archive_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, seed: int, is_zip: bool
) -> None:
    """Whatever is written over a sound archive, its members are what it says or a DatasetError comes."""
    folder = tmp_path_factory.getbasetemp()
    path = folder / ("any.zip" if is_zip else "any.tar")
    source = {f"a/{number}.jpg": bytes([number]) * number for number in range(9)}
    if is_zip:
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in source.items():
                archive.writestr(name, content)
    else:
        packed.shard(path, source)
    whole = bytearray(path.read_bytes())
    place = random.Random(seed).randrange(len(whole))
    whole[place : place + len(data)] = data
    path.write_bytes(whole)
    try:
        index = ImageIndex.from_folder(path, location=None)
    except (DatasetError, FileNotFoundError):
        return
    for member in index.paths(np.arange(len(index))):
        assert isinstance(member, ArchiveMember)
        assert 0 <= member.offset <= member.offset + member.length <= len(whole)


# ---- shards


@pytest.fixture(scope="module")
def images(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The images alone."""
    images = tmp_path_factory.mktemp("images") / "train"
    shutil.copytree(root, images, ignore=shutil.ignore_patterns("*.txt", "deep", "b"))
    return images


def unpacked(dataset: fastpipe.ImageList) -> list[tuple[bytes, int]]:
    return [(readers.read_file(path), label) for path, label in dataset.samples]


def test_shards_give_the_samples_of_the_folder(images: Path, tmp_path: Path) -> None:
    packed.shards(images, tmp_path / "shards")
    folder = fastpipe.ImageFolder(images)
    expected = sorted((Path(path).read_bytes(), label) for path, label in folder.samples)
    for given_ in (
        str(tmp_path / "shards/*.tar"),
        [tmp_path / "shards/001.tar", tmp_path / "shards/000.tar"],
        str(tmp_path / "shards/{000..001}.tar"),
    ):
        assert sorted(unpacked(fastpipe.ImageShards(given_))) == expected
    named = fastpipe.ImageShards(str(tmp_path / "shards/*.tar"), label="json:label")
    assert named.classes == folder.classes
    assert sorted(unpacked(named)) == expected
    assert set(fastpipe.ImageShards(tmp_path / "shards/000.tar", label=None).targets) == {0}
    shuffled = fastpipe.DataLoader(
        fastpipe.ImageShards(str(tmp_path / "shards/*.tar"), TRAIN, seed=0), batch_size=2, shuffle=True
    )
    assert sum(len(targets) for _, targets in shuffled) == len(expected)


def test_a_changed_and_an_added_shard_are_listed_alone(
    images: Path, tmp_path: Path, settled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastpipe.index import shard_source as module

    packed.shards(images, tmp_path, 3)
    pattern = str(tmp_path / "*.tar")
    first = fastpipe.ImageShards(pattern)
    seen: list[str] = []
    list_members = module.list_members
    monkeypatch.setattr(module, "list_members", lambda path: seen.append(Path(path).name) or list_members(path))
    assert fastpipe.ImageShards(pattern).index.origin == "opened"
    assert seen == []
    packed.shard(tmp_path / "001.tar", {"a.jpg": corpus.jpeg(8, 8), "a.cls": b"2"})
    packed.shard(tmp_path / "003.tar", {"b.jpg": corpus.jpeg(9, 8), "b.cls": b"40"})
    again = fastpipe.ImageShards(pattern)
    assert seen == ["001.tar", "003.tar"]
    expected = [one for one in unpacked(first) if True]
    kept = [one for (path, _), one in zip(first.samples, expected, strict=True) if "001.tar" not in path]
    assert sorted(unpacked(again)) == sorted([*kept, (corpus.jpeg(8, 8), 2), (corpus.jpeg(9, 8), 40)])
    (tmp_path / "000.tar").unlink()
    assert len(fastpipe.ImageShards(pattern)) == sum("000.tar" not in path for path, _ in again.samples)


@pytest.mark.parametrize(
    ("members", "options", "message"),
    [
        ({"a.jpg": b"1"}, {}, r"the sample a has no \.cls, only \.jpg"),
        ({"a.jpg": b"1", "a.png": b"2", "a.cls": b"0"}, {}, "has several images .*image='jpg'"),
        ({"a.jpg": b"1", "a.json": b"{}"}, {"label": "json:label"}, "a.json is no JSON with a field 'label'"),
        ({"a.jpg": b"1", "a.json": b'{"label": [2]}'}, {"label": "json:label"}, r"the label in a.json is \[2\]"),
        ({"a.jpg": b"1", "a.cls": b"\xff\xfe"}, {}, "a.cls is no text"),
        ({"a.jpg": b"1", "./a.jpg": b"1", "a.cls": b"0"}, {}, "a.jpg occurs twice"),
    ],
)
def test_shards_that_cannot_be_used(
    tmp_path: Path, members: dict[str, bytes], options: dict[str, str], message: str
) -> None:
    packed.shard(tmp_path / "a.tar", members)
    with pytest.raises(DatasetError, match=message):
        fastpipe.ImageShards(tmp_path / "a.tar", **options)


def test_samples_without_an_image_are_left_out_and_said(tmp_path: Path) -> None:
    packed.shard(
        tmp_path / "a.tar",
        {"a.jpg": b"1", "a.cls": b"0", "b.cls": b"1", ".x": b"", "f/.DS_Store": b"", "f/._a.jpg": b""},
    )
    with pytest.warns(FastpipeWarning, match="1 sample without an image left out"):
        assert len(fastpipe.ImageShards(tmp_path / "a.tar")) == 1
    with pytest.raises(DatasetError, match="there is no"):
        fastpipe.ImageShards(str(tmp_path / "b*.tar"))


@pytest.mark.needs_core
def test_the_core_reads_members_by_their_place(tmp_path: Path) -> None:
    photo = corpus.jpeg(20, 30)
    path = tmp_path / "container"
    path.write_bytes(b"before" + photo + b"behind")
    sound = ArchiveMember("a/1", str(path), 6, len(photo))
    empty = ArchiveMember("a/2", str(path), 6, 0)
    beyond = ArchiveMember("a/3", str(path), 6, len(photo) + 7)
    gone = ArchiveMember("a/4", str(tmp_path / "gone"), 6, 1)
    files = core.Files()
    found = core_jobs.read_files(files, [sound, empty, beyond, gone, str(path)])
    assert found[0] == readers.parse_header(photo)
    assert files.bytes(0) == photo
    assert files.bytes(1) == b""
    assert (found[2], found[3]) == (core.Status.TRUNCATED, core.Status.IO_ERROR)
    assert files.bytes(4) == path.read_bytes()
    assert core_jobs.read_files(files, [sound], max_bytes=len(photo) - 1) == [core.Status.TOO_LARGE]
