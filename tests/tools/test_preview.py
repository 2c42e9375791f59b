"""The preview: what it shows is what the dataset gives, with the right words, and no generator moves."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset
from tv import torchvision

import fastpipe
from fastpipe import transforms as T
from fastpipe.bench.samples import make_folder
from fastpipe.config import MachineConfig
from fastpipe.errors import DatasetError, FastpipeError, PlanError
from fastpipe.pipeline import keyed_globals, sample_key
from fastpipe.tools import preview as module
from fastpipe.tools.pictures import Cell, arrays_of, difference, fitted, grid, normalizations, pictures_of
from fastpipe.tools.preview import preview_files

R = torchvision.transforms
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
TRAIN = T.Compose([T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("photos")
    make_folder(root, 2, 3, kinds=("jpeg-420", "png"), sizes=((60, 83), (97, 64)))
    return root


@pytest.fixture
def cells(monkeypatch: pytest.MonkeyPatch) -> list[list[Cell]]:
    """The rows that the next preview is made of."""
    kept: list[list[Cell]] = []

    def keep(rows: Any, **options: Any) -> Image.Image:
        kept.extend(rows)
        return grid(rows, **options)

    monkeypatch.setattr(module, "grid", keep)
    return kept


def dataset_of(root: Path, transform: Any, **options: Any) -> Any:
    return fastpipe.ImageFolder(root, transform, index=None, config=MachineConfig(), **options)


def pixels(cell: Cell) -> Any:
    return np.asarray(cell.picture).astype(int)


def test_it_shows_what_the_dataset_gives(root: Path, cells: list[list[Cell]]) -> None:
    dataset = dataset_of(root, TRAIN)
    picture = fastpipe.preview(dataset, [1, -1], views=2, seed=5, side=64)
    assert isinstance(picture, Image.Image)
    assert [len(row) for row in cells] == [3, 3]
    for row, index in zip(cells, (1, 5), strict=True):
        assert row[0].lines[0] == Path(dataset.samples[index][0]).name
        for view in range(2):
            with keyed_globals(sample_key(5, view, index)):
                expected = dataset[index][0] * torch.tensor(STD)[:, None, None] + torch.tensor(MEAN)[:, None, None]
            shown = torch.from_numpy(pixels(row[1 + view])).permute(2, 0, 1)
            assert (shown - expected * 255).abs().max() < 0.51
            assert row[1 + view].lines[1].startswith("cropped to ")
            assert "resized to 32x32" in row[1 + view].lines


def test_a_dataset_with_a_seed_shows_its_epochs(root: Path, cells: list[list[Cell]]) -> None:
    dataset = dataset_of(root, T.Compose([T.RandomCrop(20), T.PILToTensor()]), seed=3)
    dataset.set_epoch(7)
    fastpipe.preview(dataset, [2], views=2)
    assert [cell.lines[0] for cell in cells[0][1:]] == ["epoch 7: 20x20", "epoch 8: 20x20"]
    for cell, epoch in zip(cells[0][1:], (7, 8), strict=True):
        dataset.set_epoch(epoch)
        assert np.array_equal(pixels(cell), dataset[2][0].permute(1, 2, 0))


@pytest.mark.parametrize("seed", [None, 4])
def test_beside_torchvisions(root: Path, cells: list[list[Cell]], seed: int | None) -> None:
    dataset = dataset_of(root, T.Compose([T.RandomCrop(40), T.RandomVerticalFlip()]), seed=seed)
    fastpipe.preview(dataset, 4, diff="torchvision", side=64)
    assert [len(row) for row in cells] == [4] * 4
    for _, ours, theirs, apart in cells:
        assert np.array_equal(pixels(ours), pixels(theirs))
        assert apart.lines == ("difference x 64", "no difference")
        assert not pixels(apart).any()
    cells.clear()
    fastpipe.preview(dataset_of(root, T.Compose([T.Resize((23, 31))])), 4, diff="torchvision", side=64)
    distances = [np.abs(pixels(ours) - pixels(theirs)).max() for _, ours, theirs, _ in cells]
    assert max(distances) <= 1
    assert [pixels(apart).max() for *_, apart in cells] == [64 * distance for distance in distances]


def test_the_decoded_region_is_outlined(root: Path, cells: list[list[Cell]]) -> None:
    dataset = dataset_of(root, T.CenterCrop(20))
    fastpipe.preview(dataset, [0], views=1, side=100)
    original, crop = cells[0]
    whole = pixels(Cell(fitted(dataset_of(root, None)[0][0], 100)))
    changed = np.argwhere((pixels(original) != whole).any(axis=-1))
    assert crop.picture.size == (20, 20)
    # The crop starts at row 20, column 32 (rounded), of 60×83.
    assert changed.min(axis=0).tolist() == [20, 32]
    assert changed.max(axis=0).tolist() == [39, 51]


def test_several_images_a_sample(root: Path, cells: list[list[Cell]]) -> None:
    fastpipe.preview(dataset_of(root, fastpipe.MultiView(T.RandomCrop(20), 2)), [0], views=1)
    assert [cell.lines[0] for cell in cells[0][1:]] == [f"drawing 1, image {n} of 2: 20x20" for n in (1, 2)]
    cells.clear()
    fastpipe.preview(dataset_of(root, T.TenCrop(20)), [0], views=1, diff="torchvision")
    assert len(cells[0]) == 1 + 4 * 3


def test_a_foreign_transform_says_so(root: Path, cells: list[list[Cell]]) -> None:
    rotate = T.Lambda(lambda image: image.rotate(90, expand=True))
    fastpipe.preview(dataset_of(root, T.Compose([T.CenterCrop((20, 30)), rotate, T.ToTensor()])), [0], views=1)
    assert cells[0][1].lines == ("drawing 1: 30x20", "cropped to the middle 20x30", "then Lambda()")
    cells.clear()
    own = dataset_of(root, T.Compose([T.CenterCrop(20), T.ToTensor()]), loader=lambda path: Image.open(path))
    fastpipe.preview(own, [0], views=1)
    assert cells[0][1].lines[1] == "then CenterCrop(size=(20, 20))"
    cells.clear()
    fastpipe.preview(dataset_of(root, None), [0], views=1)
    assert cells[0][1].lines[1] == "nothing drawn"


def test_a_damaged_file_is_a_cell_and_no_crash(root: Path, tmp_path: Path, cells: list[list[Cell]]) -> None:
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"not an image")
    preview_files([bad, next(root.rglob("*.jpg"))], TRAIN)
    assert [len(row) for row in cells] == [1, 4]
    assert cells[0][0].lines[0] == "bad.jpg"
    assert "can't be shown" in cells[0][0].lines[1]


def test_torchvisions_own_transform_beside_fastpipes_twin(root: Path, cells: list[list[Cell]]) -> None:
    preview_files(root, R.Compose([R.RandomCrop(30)]), 2, diff="torchvision")
    assert [len(row) for row in cells] == [4, 4]
    assert cells[0][1].lines[1].startswith("cropped to 30x30")
    assert cells[0][3].lines[1] == "no difference"


def test_no_generator_moves(root: Path) -> None:
    before = torch.get_rng_state(), random.getstate()
    preview_files(root, T.Compose([T.AutoAugment(), T.RandomOrder([T.Pad(1), T.Pad(2)])]), 2, diff="torchvision")
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()


def test_errors(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(Dataset[Any]):
        pass

    dataset = dataset_of(root, TRAIN)
    with pytest.raises(DatasetError, match="not Other: make an ImageFolder"):
        fastpipe.preview(Other())  # type: ignore[arg-type]
    with pytest.raises(DatasetError, match="there is no sample 6: the dataset has 6"):
        fastpipe.preview(dataset, [6])
    for arguments, said in (
        ({"indices": 0}, "indices=0"),
        ({"views": 0}, "views=0"),
        ({"diff": "kornia"}, "diff='kornia'"),
    ):
        with pytest.raises(ValueError, match=said):
            fastpipe.preview(dataset, **arguments)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="gives str, which is no image"):
        fastpipe.preview(dataset_of(root, lambda image: "text"), 1)
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(FastpipeError, match="fastpipe\\[verify\\]"):
        fastpipe.preview(dataset, diff="torchvision")


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
def test_whatever_comes_out_becomes_an_rgb_picture(mode: str) -> None:
    image = Image.new(mode, (5, 3), 90 if mode == "L" else (90,) * len(mode))
    for result in (image, np.asarray(image), T.functional.to_tensor(image), T.functional.pil_to_tensor(image)):
        (picture,) = pictures_of(result)
        assert (picture.mode, picture.size) == ("RGB", (5, 3))
        assert (pixels(Cell(picture)) == 90).all()
    assert len(pictures_of(torch.zeros(2, 4, 3, 5, 5))) == 8


def test_unknown_scales_are_stretched_and_normalisation_is_undone() -> None:
    gradient = torch.linspace(-3, 3, 48).reshape(3, 4, 4)
    (picture,) = pictures_of(gradient)
    assert pixels(Cell(picture)).min() == 0
    assert pixels(Cell(picture)).max() == 255
    once = [T.functional.normalize(torch.full((3, 2, 2), 0.5), MEAN, STD)]
    undo = normalizations((), [T.Normalize(MEAN, STD), T.Normalize([0.1], [0.7])])
    twice = T.functional.normalize(once[0], [0.1], [0.7])
    assert np.allclose(arrays_of([twice], undo)[0], 127.5, atol=1e-4)


def test_a_grid_wraps_its_text_and_fits_its_pictures() -> None:
    long = "a sentence of several words and one_word_that_is_longer_than_the_picture_is_wide"
    narrow = grid([[Cell(Image.new("RGB", (400, 100)), ("title", long))], []], side=80, heading="a heading")
    plain = grid([[Cell(Image.new("RGB", (400, 100)), ("title",))]], side=80)
    assert narrow.height > plain.height
    assert fitted(Image.new("RGB", (10, 7)), 64).size == (60, 42)
    assert fitted(Image.new("RGB", (50, 7)), 64).size == (50, 7)
    assert fitted(Image.new("RGB", (1, 900)), 64).size == (1, 64)


def test_a_difference_is_amplified_and_float_noise_is_none() -> None:
    one = np.zeros((2, 2, 3), np.uint8)
    assert (np.asarray(difference(one, one + 2, 64)) == 128).all()
    assert (np.asarray(difference(one, one + 9, 64)) == 255).all()
    assert not np.asarray(difference(one + 1e-6, one.astype(float), 64)).any()
