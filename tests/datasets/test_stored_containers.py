"""Archives, shards and Parquet in a store: read by parts, the same samples as of the local file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import archives
import corpus
import pytest
import torch

import fastpipe
from fastpipe import transforms as T
from fastpipe.datasets import ImageIndex
from fastpipe.errors import DatasetError
from fastpipe.sources import RemoteSource, ranged
from fastpipe.types import RemoteFile

fsspec = pytest.importorskip("fsspec", reason="stores are read by fsspec")

TRAIN = T.Compose([T.RandomResizedCrop(32), T.ToTensor()])
IMAGES = {
    f"{label}/{number}.jpg": corpus.jpeg(40 + number, 60, seed=number)
    for label in ("ants", "bees")
    for number in range(4)
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store's content, as local files."""
    folder = tmp_path_factory.mktemp("containers")
    for name, data in IMAGES.items():
        (folder / "train" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "train" / name).write_bytes(data)
    archives.zipped(folder / "train", folder / "train.zip")
    archives.tarred(folder / "train", folder / "train.tar")
    archives.zipped(folder, folder / "below.zip")
    archives.shards(folder / "train", folder / "shards")
    return folder


@pytest.fixture(scope="module")
def store(folder: Path) -> Iterator[str]:
    system = fsspec.filesystem("memory")
    system.put(str(folder), "/containers", recursive=True)
    yield "memory://containers"
    system.rm("/containers", recursive=True)


@pytest.fixture(autouse=True)
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranged, "_BLOCK", 1000)  # smaller than a member


def same(stored: Any, local: Any) -> None:
    assert len(stored) == len(local) > 0
    assert list(stored.targets) == list(local.targets)
    for threads in (0, 1):
        for (images, _), (expected, _) in zip(
            *(fastpipe.DataLoader(one, batch_size=3, threads=threads) for one in (stored, local)), strict=True
        ):
            assert torch.equal(images, expected)


@pytest.mark.parametrize("name", ["train.zip", "train.tar", "below.zip/train"])
def test_an_archive_of_class_folders(store: str, folder: Path, tmp_path: Path, name: str) -> None:
    cache = fastpipe.Cache(tmp_path / "cache")
    stored = fastpipe.ImageFolder(f"{store}/{name}", TRAIN, seed=0, cache=cache)
    same(stored, fastpipe.ImageFolder(folder / name, TRAIN, seed=0))
    path = stored.samples[0][0]
    assert isinstance(path, RemoteFile)
    assert str(path) == f"{store}/{name}/ants/0.jpg"
    assert path.key == name.partition("/")[0]
    assert (path.whole, path.length) == (False, len(IMAGES["ants/0.jpg"]))
    assert cache.statistics().files == 8
    paths, labels = zip(*stored.samples[2:5], strict=True)
    listed = fastpipe.ImageList((paths, labels), TRAIN, seed=0)
    assert [path for path, _ in listed.samples] == [*paths]
    assert listed[1][0].shape == (3, 32, 32)
    index = ImageIndex.from_folder(f"{store}/{name}")
    assert index.origin == "opened"
    same(fastpipe.ImageFolder(f"{store}/{name}", TRAIN, seed=0, index=index, cache=cache), stored)


@pytest.mark.parametrize("given", ["shards/*.tar", "shards/{000..001}.tar", None, ["shards/000.tar", "shards/001.tar"]])
def test_shards(store: str, folder: Path, given: Any) -> None:
    if given is None:
        shards: Any = RemoteSource(f"{store}/shards")
    elif isinstance(given, list):
        shards = [f"{store}/{one}" for one in given]
    else:
        shards = f"{store}/{given}"
    same(
        fastpipe.ImageShards(shards, TRAIN, label="json:label", seed=0),
        fastpipe.ImageShards(str(folder / "shards" / "*.tar"), TRAIN, label="json:label", seed=0),
    )


def test_only_shards_that_changed_are_listed_again(store: str, folder: Path, tmp_path: Path) -> None:
    system = fsspec.filesystem("memory")
    system.put(str(folder / "shards"), "/containers/others", recursive=True)
    url, index = f"{store}/others/*.tar", tmp_path / "index"
    first, second = (fastpipe.ImageShards(url, index=index).index for _ in range(2))
    assert first.generation == second.generation
    system.pipe("/containers/others/001.tar", (folder / "shards" / "000.tar").read_bytes())
    third = fastpipe.ImageShards(url, index=index).index
    assert third.origin == "built: 1 of 2 containers may have changed"
    assert third.sizes is not None
    assert third.sizes[:4].tolist() == third.sizes[4:].tolist()


def test_parquet(store: str, folder: Path, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = pa.table({"image": list(IMAGES.values()), "label": [name.partition("/")[0] for name in IMAGES]})
    pq.write_table(table, tmp_path / "a.parquet", compression="none", row_group_size=3)
    pq.write_table(table, tmp_path / "archives.parquet", compression="snappy")
    system = fsspec.filesystem("memory")
    for name in ("a.parquet", "archives.parquet"):
        system.put(str(tmp_path / name), f"/containers/{name}")
    local = fastpipe.ImageTable(tmp_path / "a.parquet", TRAIN, seed=0)
    same(fastpipe.ImageTable(f"{store}/a.parquet", TRAIN, seed=0), local)
    with pytest.raises(DatasetError, match=r"containers/archives.parquet: its column 'image' is compressed or encoded"):
        fastpipe.ImageTable(f"{store}/archives.parquet")


def test_what_isnt_there(store: str) -> None:
    with pytest.raises(FileNotFoundError, match="the store has no such file"):
        fastpipe.ImageShards(f"{store}/shards/009.tar")
    with pytest.raises(DatasetError, match=r"there is no memory://containers/none.*: give the URLs of shards"):
        fastpipe.ImageShards(f"{store}/none*.tar")
    with pytest.raises(
        DatasetError, match="there are no shards in memory://containers/train: none of its files ends in"
    ):
        fastpipe.ImageShards(RemoteSource(f"{store}/train"))
    with pytest.raises(DatasetError, match="shards of several stores can't be read as one dataset"):
        fastpipe.ImageShards([f"{store}/shards/000.tar", "s3://bucket/001.tar"])
