"""The tools on archives, shards and Parquet: what they say of the folder that was archives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import archives
import corpus
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import fastpipe
from fastpipe import transforms as T
from fastpipe.cli.app import app
from fastpipe.tools.bench.samples import sample_folder

TRAIN = T.Compose([T.RandomResizedCrop(24), T.ToTensor()])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "train"
    for number in range(6):
        path = root / f"class{number % 2}/{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(corpus.jpeg(40 + number, 50, seed=number))
    (root / "class0/2.jpg").write_bytes((root / "class0/2.jpg").read_bytes()[:700])
    (root / "class1/3.jpg").write_bytes(b"")
    return root


def parquet(root: Path, target: Path) -> Path:
    files = sorted(root.rglob("*.jpg"))
    rows = {"image": [path.read_bytes() for path in files], "label": [path.parent.name for path in files]}
    pq.write_table(pa.table(rows), target, compression="none")
    return target


PACKED: dict[str, Callable[[Path, Path], Path | str]] = {
    "zip": lambda root, folder: archives.zipped(root, folder / "a.zip"),
    "tar": lambda root, folder: archives.tarred(root, folder / "a.tar"),
    "shards": lambda root, folder: (archives.shards(root, folder / "shards"), str(folder / "shards/*.tar"))[1],
    "one shard": lambda root, folder: archives.shards(root, folder / "shards", 1)[0],
    "parquet": lambda root, folder: parquet(root, folder / "a.parquet"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", PACKED)
def test_check_finds_what_it_finds_in_the_folder(root: Path, tmp_path: Path, kind: str) -> None:
    expected = fastpipe.check(root, jobs=1, progress=False)
    found = fastpipe.check(PACKED[kind](root, tmp_path), jobs=1, progress=False)
    assert (found.bad, found.counts) == (expected.bad, expected.counts)
    by_size = sorted((row.bytes, row.kinds, row.reason) for row in found.rows)
    assert by_size == sorted((row.bytes, row.kinds, row.reason) for row in expected.rows)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["shards", "parquet"])
def test_preview_verify_and_doctor_take_them(root: Path, tmp_path: Path, kind: str) -> None:
    for number in (2, 3):  # a sound data set
        (root / f"class{number % 2}/{number}.jpg").write_bytes(corpus.jpeg(44, 51, seed=number))
    place = PACKED[kind](root, tmp_path)
    certificate = fastpipe.verify(T.Compose([T.RandomResizedCrop(24), T.RandomHorizontalFlip()]), place, drawings=1)
    assert certificate.holds
    dataset = fastpipe.ImageList(fastpipe.check(place, jobs=1, progress=False).index, TRAIN)
    assert fastpipe.preview(dataset, indices=[0, 5]).size[0] > 100
    diagnosis = fastpipe.doctor(str(place), transform=TRAIN, batch_size=2, seconds=1)
    assert diagnosis.samples == 6


@pytest.mark.parametrize("kind", PACKED)
def test_bench_samples_them(root: Path, tmp_path: Path, kind: str) -> None:
    found = sample_folder(PACKED[kind](root, tmp_path))
    sound = [path.read_bytes() for path in archives.files_below(root) if path.name not in ("2.jpg", "3.jpg")]
    assert sorted(sample.data for sample in found) == sorted(sound)


@pytest.mark.parametrize("kind", PACKED)
def test_index_on_the_command_line(root: Path, tmp_path: Path, kind: str) -> None:
    place = str(PACKED[kind](root, tmp_path))
    label = {"shards": "json:label", "one shard": "json:label", "parquet": "label"}.get(kind)
    options = [] if label is None else ["--label", label]
    done = CliRunner().invoke(app, ["index", place, *options, "--json", str(tmp_path / "found.json")])
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["classes"] == {"class0": 3, "class1": 3}
    assert found["empty"] == 1
    assert found["bytes"]["total"] == sum(path.stat().st_size for path in archives.files_below(root))
