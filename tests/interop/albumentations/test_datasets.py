"""albumentations' transforms in datasets, as they are: masks in files, boxes, points; seeds, workers, bad files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from interop.albumentations.pipelines import A, ToTensorV2, states
from PIL import Image
from recipe_conformance import flat, in_process
from torch.utils.data import DataLoader, Dataset
from torchvision_here import module

import fastpipe
from fastpipe import transforms as T
from fastpipe.errors import DatasetError, DecodeError, FastpipeWarning, PlanError
from fastpipe.pillow.lazy_source import LazySource


def training(seed: int | None = 7) -> Any:
    members = [A.RandomResizedCrop((24, 20)), A.HorizontalFlip(), A.ColorJitter(), A.Normalize(), ToTensorV2()]
    return A.Compose(members, seed=seed)


def loaded(path: Any) -> np.ndarray:
    with Image.open(path) as image:
        return np.array(image.convert("RGB"))


def check(root: Path) -> None:
    """albumentations' results on Pillow's pixels, in all samples, and the generators' states behind them."""
    for make in (
        training,
        lambda: A.Compose([A.SmallestMaxSize(40), A.CenterCrop(32, 30), A.Normalize(), ToTensorV2()], seed=1),
        lambda: A.Compose([A.RandomCrop(30, 25), A.D4(), A.GaussNoise(p=1)], seed=1),
        lambda: A.Compose([A.CenterCrop(31, 27)], seed=1),
        lambda: A.Compose([A.Affine(p=1), A.RandomCrop(9, 9)], seed=1),
        lambda: A.Compose([A.NoOp(p=0)], p=0.5, seed=1),
    ):
        ours, theirs = make(), make()
        dataset = fastpipe.ImageFolder(root, ours)
        for _ in range(2):
            for index in range(len(dataset)):
                image, target = dataset[index]
                expected = theirs(image=loaded(dataset.samples[index][0]))["image"]
                assert flat(image) == flat(expected), (index, ours)
                assert target == dataset.samples[index][1]
            assert states(ours) == states(theirs)
        samples = dataset.__getitems__([0, 1, 2])
        for index in range(3):
            assert flat(samples[index][0]) == flat(theirs(image=loaded(dataset.samples[index][0]))["image"])


def test_datasets_give_what_albumentations_gives(photos: Path) -> None:
    check(photos)


@pytest.mark.slow
@pytest.mark.parametrize("core", ["portable", "off"])
def test_the_same_in_every_core(photos: Path, core: str) -> None:
    in_process("interop.albumentations.test_datasets", photos, core)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The boxes that are decoded of files."""
    boxes: list[Any] = []
    array = LazySource.array
    monkeypatch.setattr(LazySource, "array", lambda self, program: boxes.append(program.box) or array(self, program))
    return boxes


@pytest.mark.needs_core
def test_the_crop_is_decoded_alone(photos: Path, decoded: list[Any]) -> None:

    def members() -> Any:
        return [A.Crop(9, 7, 40, 30), A.HorizontalFlip()]

    for transform in (A.Compose(members()), T.Albumentations(A.Compose(members())), T.Compose([A.Compose(members())])):
        decoded.clear()
        fastpipe.ImageFolder(photos, transform)[0]
        assert decoded == [(7, 9, 23, 31)]
    decoded.clear()
    image, _ = fastpipe.ImageFolder(photos, T.Compose([T.CenterCrop(45), A.Crop(9, 7, 40, 30)]))[0]
    assert [box.size for box in decoded] == [(23, 31)]  # in the file, below and beside the crop of 45
    expected = T.CenterCrop(45)(Image.open(photos / "a" / "0.jpg"))
    np.testing.assert_array_equal(image, np.asarray(expected)[7:30, 9:40])


def test_the_orientation_is_applied_first(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    pixels = corpus.photo(40, 64, 3)
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        Image.fromarray(pixels).save(tmp_path / "a" / f"{orientation}.jpg", exif=exif)
    dataset = fastpipe.ImageFolder(tmp_path, A.Compose([A.Crop(3, 5, 30, 33), A.Transpose(p=1)]), apply_exif=True)
    whole = fastpipe.ImageFolder(tmp_path, apply_exif=True)
    for index in range(8):
        expected = np.asarray(whole[index][0])[5:33, 3:30].transpose(1, 0, 2)
        np.testing.assert_array_equal(dataset[index][0], expected)


# -- random numbers


def test_a_datasets_seed_decides(photos: Path) -> None:
    """As in `T.Albumentations`: each sample's own numbers, in any order."""
    dataset = fastpipe.ImageFolder(photos, training(), seed=3)
    wrapped = fastpipe.ImageFolder(photos, T.Albumentations(training()), seed=3)
    for index in (2, 0, 3, 0):
        assert torch.equal(dataset[index][0], wrapped[index][0])
        assert torch.equal(dataset[index][0], fastpipe.ImageFolder(photos, training(None), seed=3)[index][0])
    dataset.set_epoch(1)
    assert not torch.equal(dataset[0][0], wrapped[0][0])


class Own(Dataset[Any]):
    """A dataset as people have it."""

    def __init__(self, paths: list[str], transform: Any) -> None:
        self.paths, self.transform = paths, transform

    def __getitem__(self, index: int) -> Any:
        return self.transform(image=loaded(self.paths[index]))["image"]

    def __len__(self) -> int:
        return len(self.paths)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DataLoader, fastpipe.DataLoader])
def test_workers_seed_as_albumentations_does(photos: Path, kind: Any) -> None:
    dataset = fastpipe.ImageFolder(photos, training())
    own = Own([path for path, _ in dataset.samples], training())
    theirs = list(DataLoader(own, batch_size=2, num_workers=2))
    ours = [images for images, _ in kind(dataset, batch_size=2, num_workers=2)]
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(one, other)


# -- targets


@pytest.fixture
def files(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for number in range(3):
        height, width = 50 + 7 * number, 61 - 4 * number
        (tmp_path / f"{number}.jpg").write_bytes(corpus.jpeg(height, width, seed=number))
        for name in ("mask", "other"):
            mask = Image.fromarray(rng.integers(0, 5, (height, width), dtype=np.uint8))
            if name == "other":
                mask.putpalette(bytes(range(15)))
            mask.save(tmp_path / f"{name}{number}.png")
    return tmp_path


def joint(**options: Any) -> Any:
    boxes = A.BboxParams("pascal_voc", label_fields=["labels"], min_visibility=0.2)
    members = [A.RandomResizedCrop((24, 20), (0.3, 0.9)), A.HorizontalFlip(), A.RandomBrightnessContrast()]
    return A.Compose(members, boxes, A.KeypointParams("xy"), seed=5, **options)


BOXES = [[3, 5, 40, 30], [10.5, 12, 22, 44]]
POINTS = [[3, 4], [30, 31], [20.5, 12]]


@pytest.mark.needs_core
def test_named_arrays_of_a_sample(files: Path, decoded: list[Any]) -> None:
    def sample(number: int) -> Any:
        masks = [fastpipe.MaskFile(files / f"{name}{number}.png") for name in ("mask", "other")]
        named = {"mask": masks[0], "masks": masks, "bboxes": np.array(BOXES), "labels": [4, 2], "keypoints": POINTS}
        return files / f"{number}.jpg", {**named, "id": number}, number

    ours, theirs = joint(save_applied_params=True), joint(save_applied_params=True)
    dataset = fastpipe.SampleDataset(sample, 3, ours)
    for number in (0, 1, 2, 0):
        image, target, last = dataset[number]
        masks = [np.array(Image.open(files / f"{name}{number}.png")) for name in ("mask", "other")]
        expected = theirs(
            image=loaded(files / f"{number}.jpg"),
            mask=masks[0],
            masks=masks,
            bboxes=np.array(BOXES),
            labels=[4, 2],
            keypoints=POINTS,
            id=number,
        )
        assert flat(image) == flat(expected.pop("image"))
        assert {key: flat(value) for key, value in target.items()} == {k: flat(v) for k, v in expected.items()}
        assert list(target)[:6] == ["mask", "masks", "bboxes", "labels", "keypoints", "id"]
        assert last == number
        assert states(ours) == states(theirs)
    assert decoded
    assert all(box.height * box.width < 3000 for box in decoded)


@pytest.mark.parametrize("given", ["XYXY", "XYWH", "CXCYWH"])
@pytest.mark.parametrize("wanted", ["pascal_voc", "coco", "yolo", "albumentations"])
def test_boxes_are_in_the_transforms_format(files: Path, given: str, wanted: str) -> None:
    x, y, right, bottom = 3.0, 5.0, 41.0, 29.0
    ways = {
        "XYXY": [x, y, right, bottom],
        "XYWH": [x, y, right - x, bottom - y],
        "CXCYWH": [(x + right) / 2, (y + bottom) / 2, right - x, bottom - y],
    }
    height, width = 50, 61
    size = np.array([width, height, width, height])
    expected = {
        "pascal_voc": np.array(ways["XYXY"]),
        "coco": np.array(ways["XYWH"]),
        "yolo": ways["CXCYWH"] / size,
        "albumentations": ways["XYXY"] / size,
    }
    transform = A.Compose([A.NoOp()], A.BboxParams(wanted, label_fields=["labels"]))
    target = {"boxes": fastpipe.Boxes([ways[given]], given), "labels": [1]}
    _, made = fastpipe.SampleDataset(lambda index: (files / "0.jpg", target), 1, transform)[0]
    assert list(made) == ["boxes", "labels"]
    np.testing.assert_allclose(made["boxes"], [expected[wanted]], rtol=1e-5)


@pytest.mark.parametrize("given", ["xywh", module("torchvision.tv_tensors").BoundingBoxFormat.XYWH])
def test_formats_in_lower_case_and_torchvisions(files: Path, given: Any) -> None:
    transform = A.Compose([A.NoOp()], A.BboxParams("pascal_voc", label_fields=["labels"]))
    target = {"boxes": fastpipe.Boxes([[3, 5, 38, 24]], given), "labels": [1]}
    _, made = fastpipe.SampleDataset(lambda index: (files / "0.jpg", target), 1, transform)[0]
    np.testing.assert_allclose(made["boxes"], [[3, 5, 41, 29]], rtol=1e-6)


def test_values_without_names(files: Path) -> None:
    """A mask, boxes and points are what they are; numbers and the like stay as they are."""

    def sample(number: int) -> Any:
        mask, points = fastpipe.MaskFile(files / f"mask{number}.png"), fastpipe.KeyPoints(torch.tensor(POINTS))
        return files / f"{number}.jpg", mask, points, "name"

    ours = A.Compose([A.CenterCrop(20, 30), A.HorizontalFlip(p=1)], keypoint_params=A.KeypointParams("xy"))
    theirs = A.Compose([A.CenterCrop(20, 30), A.HorizontalFlip(p=1)], keypoint_params=A.KeypointParams("xy"))
    made = fastpipe.SampleDataset(sample, 3, ours)[1]
    mask = np.array(Image.open(files / "mask1.png"))
    expected = theirs(image=loaded(files / "1.jpg"), mask=mask, keypoints=np.array(POINTS, np.float32))
    assert flat(list(made)) == flat([expected["image"], expected["mask"], expected["keypoints"], "name"])


def test_only_a_list_of_mask_files_is_a_list_of_masks(files: Path) -> None:
    """Other values stay as they are, also a list that begins with a `MaskFile`."""
    mixed = [fastpipe.MaskFile(files / "mask0.png"), "no mask"]
    made = fastpipe.SampleDataset(
        lambda number: (files / f"{number}.jpg", {"mixed": mixed}), 1, A.Compose([A.HorizontalFlip(p=1)], strict=False)
    )
    assert made[0][1]["mixed"] is mixed


def test_a_mask_that_is_looked_at(files: Path) -> None:
    def sample(number: int) -> Any:
        return files / f"{number}.jpg", {"mask": fastpipe.MaskFile(files / f"mask{number}.png")}

    def make() -> Any:
        return A.Compose([A.HorizontalFlip(), A.CropNonEmptyMaskIfExists(15, 12)], seed=2)

    ours, theirs = make(), make()
    for number in range(3):
        image, target = fastpipe.SampleDataset(sample, 3, ours)[number]
        mask = np.array(Image.open(files / f"mask{number}.png"))
        expected = theirs(image=loaded(files / f"{number}.jpg"), mask=mask)
        assert flat([image, target["mask"]]) == flat([expected["image"], expected["mask"]])


def test_messages_about_targets(files: Path) -> None:
    def dataset(target: Any, transform: Any, **options: Any) -> Any:
        return fastpipe.SampleDataset(lambda index: (files / "0.jpg", target), 1, transform, **options)

    with pytest.raises(PlanError, match="bbox_params"):
        dataset({"boxes": fastpipe.Boxes(BOXES)}, A.Compose([A.D4()]))[0]
    with pytest.raises(DatasetError, match="XYXY, XYWH"):
        fastpipe.Boxes(BOXES, "XYXYR")
    mask = fastpipe.MaskFile(files / "mask0.png")
    with pytest.raises(PlanError, match="mask="):
        dataset({"mask": mask, "seg": mask}, A.Compose([A.D4()]))[0]
    with pytest.raises(DatasetError, match=r"mask1\.png is a mask of 57×57"):
        dataset({"mask": fastpipe.MaskFile(files / "mask1.png")}, A.Compose([A.D4()]))[0]


def test_coco(files: Path) -> None:
    images = [{"id": 10 + number, "file_name": f"{number}.jpg"} for number in range(3)]
    square = [5, 5, 30, 5, 30, 25, 5, 25]
    rows = [(10, [3, 5, 30, 20], 4), (10, [8.5, 9, 20, 31], 9), (11, [1, 2, 40, 40], 4)]
    annotations = [
        {"id": n, "image_id": image, "bbox": box, "category_id": label, "iscrowd": 0, "segmentation": [square]}
        for n, (image, box, label) in enumerate(rows)
    ]
    categories = [{"id": 4, "name": "cat"}, {"id": 9, "name": "dog"}]
    content = {"images": images, "annotations": annotations, "categories": categories}
    (files / "coco.json").write_text(json.dumps(content))

    def make() -> Any:
        boxes = A.BboxParams("coco", label_fields=["labels", "id"], min_visibility=0.1)
        return A.Compose([A.RandomResizedCrop((24, 20), (0.3, 1)), A.HorizontalFlip()], boxes, seed=4)

    ours, theirs = make(), make()
    dataset = fastpipe.CocoDetection(files, files / "coco.json", transforms=ours)
    for number in range(3):
        image, target = dataset[number]
        mine = [row for row in enumerate(rows) if row[1][0] == 10 + number]
        expected = theirs(
            image=loaded(files / f"{number}.jpg"),
            bboxes=np.array([row[1] for _, row in mine], np.float32).reshape(-1, 4),
            labels=[row[2] for _, row in mine],
            id=[n for n, _ in mine],
        )
        assert flat(image) == flat(expected["image"])
        np.testing.assert_allclose(target["bboxes"], expected["bboxes"], rtol=1e-6)
        assert list(target["labels"]) == list(expected["labels"])
        assert list(target["id"]) == list(expected["id"])
        assert target["image_id"] == 10 + number

    pytest.importorskip("pycocotools")
    wrapped = fastpipe.wrap_dataset_for_transforms_v2(dataset, target_keys=["boxes", "labels", "masks"])
    wrapped.transforms = A.Compose([A.Crop(4, 4, 40, 30)], A.BboxParams("coco", label_fields=["labels"]))
    _, target = wrapped[0]
    assert [mask.shape for mask in target["masks"]] == [(26, 36)] * 2
    whole = fastpipe.wrap_dataset_for_transforms_v2(
        fastpipe.CocoDetection(files, files / "coco.json"), target_keys=["masks"]
    )
    np.testing.assert_array_equal(target["masks"][0], np.asarray(whole[0][1]["masks"])[0, 4:30, 4:40])


def test_voc(tmp_path: Path) -> None:
    base = tmp_path / "VOCdevkit" / "VOC2012"
    for folder in ("JPEGImages", "Annotations", "SegmentationClass", "ImageSets/Main", "ImageSets/Segmentation"):
        (base / folder).mkdir(parents=True)
    for kind in ("Main", "Segmentation"):
        (base / "ImageSets" / kind / "train.txt").write_text("one\n")
    (base / "JPEGImages" / "one.jpg").write_bytes(corpus.jpeg(50, 60))
    mask = np.random.default_rng(0).integers(0, 21, (50, 60), dtype=np.uint8)
    Image.fromarray(mask).save(base / "SegmentationClass" / "one.png")
    one = "<object><name>{}</name><difficult>{}</difficult><bndbox>{}</bndbox></object>"
    sides = "<xmin>5</xmin><ymin>6</ymin><xmax>{}</xmax><ymax>33</ymax>"
    objects = one.format("cat", 0, sides.format(30)) + one.format("dog", 1, sides.format(44))
    (base / "Annotations" / "one.xml").write_text(f"<annotation>{objects}</annotation>")

    fields = ["labels", "difficult"]
    boxes = A.Compose([A.Crop(4, 4, 50, 40)], A.BboxParams("pascal_voc", label_fields=fields))
    image, target = fastpipe.VOCDetection(tmp_path, image_set="train", transforms=boxes)[0]
    assert image.shape == (36, 46, 3)
    np.testing.assert_allclose(target["bboxes"], [[1, 2, 26, 29], [1, 2, 40, 29]], rtol=1e-6)
    assert list(target["labels"]) == [8, 12]
    assert list(target["difficult"]) == ["0", "1"]

    crop = A.Compose([A.Crop(4, 4, 50, 40), A.HorizontalFlip(p=1)])
    image, made = fastpipe.VOCSegmentation(tmp_path, image_set="train", transforms=crop)[0]
    np.testing.assert_array_equal(made, mask[4:40, 4:50][:, ::-1])
    np.testing.assert_array_equal(image, loaded(base / "JPEGImages" / "one.jpg")[4:40, 4:50][:, ::-1])


# -- bad files


def test_errors_name_the_file(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    good = (photos / "a" / "0.jpg").read_bytes()
    (tmp_path / "a" / "good.jpg").write_bytes(good)
    (tmp_path / "a" / "bad.jpg").write_bytes(good[: len(good) // 2])
    transform = A.Compose([A.CenterCrop(60, 90), ToTensorV2()])
    dataset = fastpipe.ImageFolder(tmp_path, transform)
    with pytest.raises(DecodeError, match=r"bad\.jpg"):
        dataset[0]
    with pytest.raises(Exception, match=r"exceeds|good\.jpg") as found:
        fastpipe.ImageFolder(tmp_path, A.Compose([A.RandomCrop(999, 999)]))[1]
    assert "good.jpg" in "".join([str(found.value), *getattr(found.value, "__notes__", [])])
    skipping = fastpipe.ImageFolder(tmp_path, transform, on_error="skip", max_bad_fraction=1.0)
    with pytest.warns(FastpipeWarning, match=r"bad\.jpg"):
        assert skipping[0] is None
    assert skipping[1][0].shape == (3, 60, 90)
    replacing = fastpipe.ImageFolder(tmp_path, transform, on_error="replace", max_bad_fraction=1.0)
    with pytest.warns(FastpipeWarning, match=r"bad\.jpg"):
        assert torch.equal(replacing[0][0], replacing[1][0])


def test_a_bad_mask_is_a_bad_file(files: Path) -> None:
    (files / "mask1.png").write_bytes((files / "mask1.png").read_bytes()[:200])

    def sample(number: int) -> Any:
        return files / f"{number}.jpg", {"mask": fastpipe.MaskFile(files / f"mask{number}.png")}

    transform = A.Compose([A.CenterCrop(20, 20)])
    with pytest.raises(DecodeError, match=r"mask1\.png"):
        fastpipe.SampleDataset(sample, 3, transform)[1]
    with pytest.warns(FastpipeWarning, match=r"mask1\.png|1\.jpg"):
        assert fastpipe.SampleDataset(sample, 3, transform, on_error="skip", max_bad_fraction=1.0)[1] is None


def test_images_of_other_kinds() -> None:
    image = Image.fromarray(corpus.photo(30, 40, 1))
    crop = A.Compose([A.Crop(1, 2, 9, 8)])
    np.testing.assert_array_equal(T.Compose([crop])(image), np.asarray(image)[2:8, 1:9])
    np.testing.assert_array_equal(T.Compose([crop])(image.convert("L")), np.asarray(image.convert("L"))[2:8, 1:9])
    np.testing.assert_array_equal(T.Compose([crop])(np.asarray(image)), np.asarray(image)[2:8, 1:9])
    assert T.Compose([crop, T.ToTensor()])(image).shape == (3, 6, 8)
    with pytest.raises(TypeError, match=r"fastpipe\.transforms\.Albumentations"):
        T.Compose([crop])(torch.zeros(3, 30, 40))
    with pytest.raises(TypeError, match="no str"):
        T.Compose([crop])("photo.jpg")
