"""PNGs in programs: regions into tensors, and batches of PNGs and JPEGs in one call of the core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import core_jobs
import corpus
import numpy as np
import pytest
import torch
from PIL import Image
from torchvision_here import torchvision

import fastpipe
from fastpipe import core
from fastpipe import transforms as T
from fastpipe.executor import BatchSpec
from fastpipe.program import execute

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
LEFT = ("16-bit", "interlaced", "animated", "unknown-critical", "no-end", "cut", "too-few")
"""PNGs that the core leaves to Pillow."""


def training(module: Any) -> Any:
    crop = module.RandomResizedCrop(24)
    return module.Compose([crop, module.RandomHorizontalFlip(), module.ToTensor(), module.Normalize(MEAN, STD)])


def evaluation(module: Any) -> Any:
    return module.Compose([module.Resize(20), module.CenterCrop(16), module.ToTensor(), module.Normalize(MEAN, STD)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every PNG that Pillow reads, and some JPEGs among them."""
    root = tmp_path_factory.mktemp("mixed")
    number = 0
    for name, data in corpus.files().items():
        wanted = name.startswith("png") or name in ("jpeg-420", "jpeg-progressive", "jpeg-gray", "jpeg-cmyk")
        expected = corpus.reference(name) if wanted else None
        if expected is None or min(expected.shape[:2]) < 7:
            continue
        place = root / str(number % 2)
        place.mkdir(exist_ok=True)
        (place / f"{number:03}-{name}{'.png' if name.startswith('png') else '.jpg'}").write_bytes(data)
        number += 1
    assert number > 30
    return root


@pytest.mark.filterwarnings("ignore:Palette images with Transparency")
@pytest.mark.parametrize("make", [training, evaluation])
def test_samples_are_torchvisions(folder: Path, make: Any) -> None:
    ours = fastpipe.ImageFolder(folder, make(T))
    theirs = torchvision.datasets.ImageFolder(folder, make(torchvision.transforms))
    torch.manual_seed(7)
    wanted = [theirs[index][0] for index in range(len(theirs))]
    torch.manual_seed(7)
    for index, expected in enumerate(wanted):
        assert torch.equal(ours[index][0], expected), ours.samples[index]


@pytest.mark.filterwarnings("ignore:Palette images with Transparency")
@pytest.mark.parametrize("threads", [0, 2])
def test_batches_are_torchvisions(folder: Path, threads: int) -> None:
    """PNGs and JPEGs, what the core takes and what it leaves, in one batch."""
    ours = fastpipe.ImageFolder(folder, evaluation(T))
    theirs = torchvision.datasets.ImageFolder(folder, evaluation(torchvision.transforms))
    ((images, labels),) = fastpipe.DataLoader(ours, batch_size=len(ours), threads=threads)
    for index, (image, label) in enumerate(zip(images, labels, strict=True)):
        expected, target = theirs[index]
        assert torch.equal(image, expected), ours.samples[index]
        assert label == target


@pytest.mark.needs_core
def test_the_core_makes_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole programs, of PNGs as of JPEGs; the others are left to `execute`."""
    transform = evaluation(T)
    dataset = fastpipe.ImageFolder(folder, transform)
    left: set[str] = set()

    def noted(program: Any, encoded: Any, *given: Any, **options: Any) -> Any:
        left.add(encoded.source)
        return execute(program, encoded, *given, **options)

    monkeypatch.setattr("fastpipe.executor.image_stages.execute", noted)
    batch: Any = dataset.batch(range(len(dataset)), BatchSpec(threads=2))
    for index, (name, _) in enumerate(dataset.samples):
        if ".png" in name and "-short" not in name:  # whether a crop shows an index without a color, is another matter
            assert (name in left) == any(word in name for word in LEFT), name
        with Image.open(name) as picture:
            expected = transform(picture.convert("RGB"))
        assert torch.equal(batch.images[index], expected), name


@pytest.mark.needs_core
def test_headers_come_from_the_core(folder: Path) -> None:
    """A PNG's header and its pixels without its bytes becoming a Python object."""
    paths = sorted(str(path) for path in folder.rglob("*.png"))
    files = core.Files()
    for path, header in zip(paths, core_jobs.read_files(files, paths), strict=True):
        expected = fastpipe.readers.parse_header(Path(path).read_bytes())
        assert header == expected or header == core.Status.UNUSUAL_HEADER, path


@pytest.mark.parametrize("orientation", [1, 6])
@pytest.mark.parametrize("late", [False, True])
def test_orientation(tmp_path: Path, orientation: int, late: bool) -> None:
    """Where EXIF data stands behind the pixels, too, in a batch as alone."""
    (tmp_path / "class").mkdir()
    data = corpus.save(corpus.photo(20, 31), "PNG")
    chunk = corpus.chunk(b"eXIf", corpus.exif(orientation)[6:])
    data = data[:-12] + chunk + data[-12:] if late else corpus.with_chunk(data, b"eXIf", chunk[8:-4])
    for number in range(3):
        (tmp_path / "class" / f"{number}.png").write_bytes(data)
    dataset = fastpipe.ImageFolder(tmp_path, T.ToTensor(), apply_exif=True)
    (images, _) = next(iter(fastpipe.DataLoader(dataset, batch_size=3)))
    expected = corpus.photo(20, 31) if orientation == 1 else np.rot90(corpus.photo(20, 31), -1)
    for image in (*images, dataset[0][0]):
        np.testing.assert_array_equal((image * 255).round().to(torch.uint8).permute(1, 2, 0), expected)
