"""The report on packing says only what was measured on the script's own images."""

from __future__ import annotations

import io
import os
import random
from pathlib import Path
from typing import Any

import corpus
import pytest
import torch
from PIL import Image
from torchvision_here import torchvision

import fastpipe
from fastpipe.core.packed import is_packed, pack
from fastpipe.hooks.ledger import LEDGER, Site
from fastpipe.hooks.packing_gain import PackingSamples, packing_lines

T = torchvision.transforms


def _site(seconds: float, packed_seconds: float, now: float = 1.0, **more: Any) -> Site:
    """A site of 10 images that take a second each, two of which were measured."""
    packing = PackingSamples(2, 2 * seconds, 2 * packed_seconds, 1000, 1161, root="/data/my photos")
    return Site("dataset", "Photos", 10, timed=5, seconds=5 * now, packing=packing, **more)


def test_the_line_says_no_more_than_was_measured() -> None:
    (line,) = packing_lines([_site(0.9, 0.54)])  # 1 / 0.64 = 1.5625
    assert line.startswith("fastpipe pack '/data/my photos' '/data/my photos-packed' --keep-names would make this 1.5 ")
    assert "for 1.2 times the bytes: measured on 2 of its images." in line
    assert "1.3 times" in packing_lines([_site(0.9, 0.66)])[0]
    for little in (_site(0.9, 0.7), _site(0.9, 0.9), _site(0.5, 0.9), _site(2.0, 0.1)):
        assert packing_lines([little]) == []


def test_images_that_take_longer_than_others_are_compared_with_their_own_time() -> None:
    checked = {"checked": 2, "compared": 1, "fast_seconds": 2.0}
    (line,) = packing_lines([_site(0.9, 0.2, **checked)])  # 2 / 1.3 = 1.54
    assert "1.5 times" in line
    assert packing_lines([_site(0.9, 0.54, **checked)]) == []


def test_time_elsewhere_is_not_saved() -> None:
    slow = Site("transform", "Compose", 10, timed=10, seconds=10.0)
    loader = Site("loader", "DataLoader", 10, timed=10, seconds=10.0)
    assert packing_lines([_site(0.9, 0.54), slow]) == []
    assert packing_lines([_site(0.9, 0.54), loader])


def test_one_image_is_too_few() -> None:
    site = _site(0.9, 0.5)
    site.packing.images = 1
    assert packing_lines([site]) == []


def test_samples_of_several_processes_are_added() -> None:
    one = PackingSamples(1, 1.0, 0.5, 100, 120, ["/data/train/cat"])
    other = PackingSamples(1, 1.0, 0.25, 50, 60, ["/data/train/dog"])
    sums = PackingSamples()
    for each in (one, other, PackingSamples()):
        sums.add(each)
    assert sums == PackingSamples(2, 2.0, 0.75, 150, 180, ["/data/train/cat", "/data/train/dog"])
    assert sums.folder == "/data/train".replace("/", os.sep)
    assert one.folder == ""  # a class's
    sums.add(PackingSamples(1, folders=["/other/cat"]))
    assert sums.folder == ""
    assert Site.of({**vars(Site("a", "b")), "packing": vars(one)}).packing == one


@pytest.mark.needs_core
def test_an_image_is_packed_and_made_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, now = [], 0.0

    def make(data: bytes) -> None:
        nonlocal now
        seen.append(is_packed(data))
        now += 1.0 if is_packed(data) else 3.0

    monkeypatch.setattr("fastpipe.hooks.packing_gain.clock", lambda: now)
    jpeg = corpus.jpeg(64, 48, seed=1)
    found = PackingSamples()
    found.measure(jpeg, make, "no path")
    assert seen == [False, True] * 5
    assert found == PackingSamples(1, 3.0, 1.0, len(jpeg), len(pack(jpeg)))
    found.measure(corpus.save(corpus.photo(9, 9), "PNG"), make, "no path")  # stays as it is
    assert (found.images, found.saved_s, len(seen)) == (2, 1.0, 10)
    found.measure(jpeg, make, "no path")  # two are enough
    assert found.images == 2
    for data in (pack(jpeg), b"", bytes(2 << 20)):
        again = PackingSamples()
        again.measure(data, make, "no path")
        assert again.images == 0


def _refuse(data: bytes) -> None:
    raise ValueError("a step of the script's")


@pytest.mark.needs_core
def test_rounds_that_something_disturbed_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now, times = 0.0, iter([3.0, 2.0, 90.0, 2.0, 3.0, 80.0, 5.0, 4.0, 3.0, 2.0])

    def make(data: bytes) -> None:
        nonlocal now
        now += next(times)

    monkeypatch.setattr("fastpipe.hooks.packing_gain.clock", lambda: now)
    found = PackingSamples()
    found.measure(corpus.jpeg(64, 48, seed=1), make, "no path")
    assert (found.seconds, found.saved_s) == (3.0, 1.0)


@pytest.mark.needs_core
def test_what_fails_is_not_measured() -> None:
    found = PackingSamples()
    found.measure(corpus.jpeg(64, 48, seed=1), _refuse, "no path")
    assert found == PackingSamples()


class Own(torch.utils.data.Dataset[Any]):
    """A user's own class."""

    def __init__(self, root: Path) -> None:
        self.files = sorted(root.rglob("*.jpg"))
        self.transform = T.Compose([T.RandomResizedCrop(32), T.ToTensor()])

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        return self.transform(Image.open(self.files[index]).convert("RGB"))


@pytest.mark.needs_core
@pytest.mark.usefixtures("fresh_ledger")
@pytest.mark.parametrize("kind", ["own", "folder"])
def test_a_scripts_images_are_measured(tmp_path: Path, kind: str) -> None:
    for number in range(6):
        path = tmp_path / "ab"[number % 2] / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(corpus.jpeg(90, 120, seed=number))
    dataset = (
        Own(tmp_path) if kind == "own" else torchvision.datasets.ImageFolder(str(tmp_path), Own(tmp_path).transform)
    )

    def epoch() -> Any:
        torch.manual_seed(3)
        random.seed(3)
        batches = [*torch.utils.data.DataLoader(dataset, 3)]
        return batches, torch.get_rng_state()

    expected, state = epoch()
    with fastpipe.install(check=2):
        made, after = epoch()
    assert torch.equal(state, after)
    for one, other in zip(made, expected, strict=True):
        assert torch.equal(one[0], other[0])
    assert LEDGER.has_images()
    if kind == "own":  # neither an image of the script's nor the start of its workers waits for that
        assert not any(site.packing.images for site in LEDGER._sites.values())
    (found,) = [site.packing for site in LEDGER.total()[0] if site.packing.images]
    assert found.images == 2
    assert 0 < found.jpeg_bytes < found.packed_bytes
    assert found.folder == ("" if kind == "own" else str(tmp_path))  # both images are of one class
    assert found.seconds > 0


@pytest.mark.needs_core
@pytest.mark.usefixtures("fresh_ledger")
def test_nothing_is_measured_without_checks() -> None:
    with fastpipe.install(check=0):
        Image.open(io.BytesIO(corpus.jpeg(90, 120, seed=1))).convert("RGB").resize((9, 9)).tobytes()
    assert not any(site.packing.images for site in LEDGER.total()[0])


@pytest.mark.needs_core
@pytest.mark.usefixtures("fresh_ledger")
@pytest.mark.parametrize("workers", [0, 1])
def test_the_end_of_a_process_measures(tmp_path: Path, workers: int) -> None:
    for number in range(6):
        (tmp_path / f"{number}.jpg").write_bytes(corpus.jpeg(90, 120, seed=number))
    with fastpipe.install(check=2):
        for _ in torch.utils.data.DataLoader(Own(tmp_path), 3, num_workers=workers):
            pass
    assert max(site.packing.images for site in LEDGER.total()[0]) == 2
