"""The preview: what it shows is what the dataset gives, with the right words, and no generator moves."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageFont
from torch.utils.data import Dataset, Subset
from torchvision_here import torchvision

import fastpipe
from fastpipe import transforms as T
from fastpipe.config import MachineConfig
from fastpipe.errors import DatasetError, PlanError
from fastpipe.reporting import pictures
from fastpipe.reporting.pictures import Cell, arrays_of, difference, fitted, grid, pictures_of
from fastpipe.rng import keyed_globals, sample_key
from fastpipe.tools import preview as module
from fastpipe.tools.bench.samples import make_folder
from fastpipe.tools.preview import preview_files
from fastpipe.tools.recipes import normalizations
from fastpipe.tools.verify_result import distances

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


def test_the_words_are_the_recipe_s(root: Path, cells: list[list[Cell]]) -> None:
    transform = T.Compose(
        [
            T.RandomResizedCrop((20, 30)),
            T.RandomHorizontalFlip(),
            T.ColorJitter(0.4, 0.4, 0.4, 0.2),
            T.RandomRotation(20),
            T.ToTensor(),
            T.RandomErasing(1.0),
        ]
    )
    dataset = dataset_of(root, transform, seed=8)
    fastpipe.preview(dataset, views=3)
    phrases = {
        "crop": "cropped to {height}x{width} from row {top}, column {left}",
        "resize": "resized to {size[0]}x{size[1]}",
        "hflip": "mirrored left-right",
        "adjust_brightness": "brightness x {brightness_factor:.2f}",
        "adjust_contrast": "contrast x {contrast_factor:.2f}",
        "adjust_saturation": "saturation x {saturation_factor:.2f}",
        "adjust_hue": "hue shifted by {hue_factor:+.3f}",
        "erase": "erased {h}x{w} at row {i}, column {j}",
    }
    assert len(cells) == 6
    for index, (original, *shown) in enumerate(cells):
        assert original.lines[1].startswith(f"sample {index}, in ")
        for epoch, cell in enumerate(shown):
            steps = [step for step in dataset.recipe(index, epoch).steps if step.op != "to_tensor"]
            assert len(cell.lines) == 1 + len(steps)
            for step, line in zip(steps, cell.lines[1:], strict=True):
                arguments = step.arguments()
                if step.op == "rotate":
                    way = "counter-clockwise" if arguments["angle"] > 0 else "clockwise"
                    assert line == f"turned {abs(arguments['angle']):.1f}° {way}"
                else:
                    assert line == phrases[step.op].format(**arguments)


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
    assert [len(cell.lines) for cell in cells[0][1:]] == [2, 2]
    recipe = dataset_of(root, fastpipe.MultiView(T.RandomCrop(20), 2), seed=0).recipe(0)
    cells.clear()
    fastpipe.preview(dataset_of(root, fastpipe.MultiView(T.RandomCrop(20), 2), seed=0), [0], views=1)
    for cell, steps in zip(cells[0][1:], recipe.steps[0].views, strict=True):  # each image has its own words
        assert cell.lines[1:] == ("cropped to 20x20 from row {top}, column {left}".format(**steps[0].arguments()),)
    cells.clear()
    fastpipe.preview(dataset_of(root, T.TenCrop(20)), [0], views=1)
    assert len(cells[0]) == 1 + 4


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
    sheet = preview_files([bad, next(root.rglob("*.jpg"))], TRAIN)
    assert (sheet.samples, len(sheet.failed)) == (2, 1)
    assert sheet.failed[0].startswith(f"can't decode {bad}")
    assert [len(row) for row in cells] == [1, 4]
    assert cells[0][0].lines[0] == "bad.jpg"
    assert "can't be shown" in cells[0][0].lines[1]


def test_an_image_that_is_too_small_is_a_cell_and_no_crash(tmp_path: Path, cells: list[list[Cell]]) -> None:
    small, fine = tmp_path / "small.png", tmp_path / "fine.png"
    Image.new("RGB", (9, 7), (1, 2, 3)).save(small)
    Image.new("RGB", (40, 30)).save(fine)
    sheet = preview_files([small, fine], T.RandomCrop(20), views=1)
    assert cells[0][0].lines[2] == "7x9 pixels (height x width)"
    assert "Required crop size (20, 20) is larger than input image size (7, 9)" in cells[0][1].lines[1]
    assert [len(row) for row in cells] == [2, 2]
    assert sheet.failed == [f"{small}: Required crop size (20, 20) is larger than input image size (7, 9)"]


def test_a_bug_of_the_user_s_is_theirs_to_see(root: Path) -> None:
    def bug(image: Any) -> Any:
        raise RuntimeError("a bug")

    line = bug.__code__.co_firstlineno + 1
    with pytest.raises(PlanError, match=rf"the transform fails: RuntimeError: a bug \(.*line {line}\)") as caught:
        preview_files(root, T.Compose([T.CenterCrop(4), T.Lambda(bug)]), 1)
    assert isinstance(caught.value.__cause__, RuntimeError)  # with its traceback


@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_bad_files_of_a_dataset_are_not_replaced_and_not_logged(
    tmp_path: Path, cells: list[list[Cell]], on_error: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_folder(tmp_path / "photos", 1, 3, kinds=("jpeg-420",), sizes=((40, 50),))
    files = sorted((tmp_path / "photos").rglob("*.jpg"))
    files[1].write_bytes(files[1].read_bytes()[:300])
    dataset = dataset_of(tmp_path / "photos", T.RandomCrop(20), on_error=on_error)
    fastpipe.preview(dataset, [0, 1, 2], views=1)
    assert [cells[i][0].lines[0] for i in range(3)] == [file.name for file in files]
    assert [len(row) for row in cells] == [2, 1, 2]
    assert not list(tmp_path.glob("*.csv"))


def test_a_loader_of_the_user_s_own(tmp_path: Path, cells: list[list[Cell]]) -> None:
    (tmp_path / "photos" / "a").mkdir(parents=True)
    array = np.random.default_rng(0).integers(0, 256, (12, 15, 3), dtype=np.uint8)
    np.save(tmp_path / "photos" / "a" / "0.npy", array)
    dataset = fastpipe.ImageFolder(
        tmp_path / "photos",
        T.CenterCrop(8),
        loader=lambda path: Image.fromarray(np.load(path)),
        is_valid_file=lambda path: path.endswith(".npy"),
        index=None,
    )
    fastpipe.preview(dataset, [0], views=1, side=16)
    original, ours = cells[0]
    assert np.array_equal(pixels(original), array)
    assert np.array_equal(pixels(ours), array[2:10, 4:12])


def test_a_subset_shows_its_own_samples(root: Path, cells: list[list[Cell]]) -> None:
    dataset = dataset_of(root, T.CenterCrop(9))
    fastpipe.preview(Subset(dataset, [4, 2, 5]), [0, -1], views=1)
    assert [row[0].lines[1].partition(",")[0] for row in cells] == ["sample 4", "sample 5"]
    cells.clear()
    fastpipe.preview(Subset(Subset(dataset, [4, 2, 5]), [1]), views=1)
    assert [row[0].lines[1].partition(",")[0] for row in cells] == ["sample 2"]
    with pytest.raises(DatasetError, match="there is no sample 3: the dataset has 3"):
        fastpipe.preview(Subset(dataset, [4, 2, 5]), [3])
    for nothing, indices in ((dataset, []), (fastpipe.ImageList(([], [])), 8)):
        with pytest.raises(DatasetError, match="there is no sample to show"):
            fastpipe.preview(nothing, indices)


def test_no_generator_moves(root: Path) -> None:
    before = torch.get_rng_state(), random.getstate()
    preview_files(root, T.Compose([T.AutoAugment(), T.RandomOrder([T.Pad(1), T.Pad(2)])]), 2)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()


def test_errors(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(Dataset[Any]):
        pass

    dataset = dataset_of(root, TRAIN)
    with pytest.raises(DatasetError, match="not Other: make an ImageFolder"):
        fastpipe.preview(Other())
    with pytest.raises(DatasetError, match="there is no sample 6: the dataset has 6"):
        fastpipe.preview(dataset, [6])
    for arguments, said in (
        ({"indices": 0}, "indices=0"),
        ({"views": 0}, "views=0"),
    ):
        with pytest.raises(ValueError, match=said):
            fastpipe.preview(dataset, **arguments)
    with pytest.raises(PlanError, match="gives str, which is no image"):
        fastpipe.preview(dataset_of(root, lambda image: "text"), 1)


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
    assert (np.asarray(difference(distances(one, one + 2), 64)) == 128).all()
    assert (np.asarray(difference(distances(one, one + 9), 64)) == 255).all()
    assert not np.asarray(difference(distances(one + 1e-6, one), 64)).any()


@pytest.mark.parametrize("shape", [(97, 64), (31, 200), (300, 300)], ids=str)
def test_a_difference_that_is_made_smaller_hides_no_pixel(shape: tuple[int, int]) -> None:
    zeros = np.zeros((*shape, 3))
    rng = np.random.default_rng(1)
    for _ in range(50):
        row, column = rng.integers(0, shape[0]), rng.integers(0, shape[1])
        one = zeros.copy()
        one[row, column] = 2
        small = np.asarray(difference(one, 100, side=30))
        assert max(small.shape) == 30
        assert small.max() == 200


def test_white_pictures_have_a_frame() -> None:
    sheet = np.asarray(grid([[Cell(Image.new("RGB", (60, 50), (255, 255, 255)))]], side=64))
    rows, columns = np.nonzero((sheet != 255).any(axis=-1))
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (7, 58, 7, 68)


def test_a_pillow_without_truetype_fonts_writes_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "_font", lambda: ImageFont.load_default_imagefont())
    assert grid([[Cell(Image.new("RGB", (9, 9)), ("имя.jpg", "13°, 名前"))]], heading="–").width > 100


def test_letters_that_the_font_lacks_are_escaped() -> None:
    font = pictures._font()
    assert pictures._drawable("名.jpg", font) == "\\u540d.jpg"
    assert pictures._drawable("plain.jpg", font) == "plain.jpg"
