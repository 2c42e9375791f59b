"""Detection and segmentation: boxes, masks and bytes are torchvision's, planned or not."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
import torchvision_here
from PIL import Image
from torch.utils.data import DataLoader
from v2_pipelines import pipeline, same, sample_of

import fastpipe
from fastpipe.datasets import coco_annotations
from fastpipe.errors import FastpipeWarning

theirs = torchvision_here.module("torchvision.transforms.v2")
their_datasets = torchvision_here.module("torchvision.datasets")
tv_tensors = torchvision_here.module("torchvision.tv_tensors")
v2 = torchvision_here.module("fastpipe.transforms.v2")

SIZES = [(90, 121), (64, 80), (133, 71), (101, 99)]


def _polygon(rng: np.random.Generator, height: int, width: int) -> list[float]:
    points = rng.uniform(0, 1, (rng.integers(3, 9), 2)) * (width, height)
    return [round(float(value), 2) for value in points.ravel()]


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Photos with boxes, polygons and run lengths, one of them with no annotation; not in the order of their ids."""
    masks = pytest.importorskip("pycocotools.mask")
    root = tmp_path_factory.mktemp("coco")
    rng = np.random.default_rng(0)
    images, annotations = [], []
    for number, (height, width) in enumerate([*SIZES, (70, 90)]):
        (root / f"{number}.jpg").write_bytes(corpus.jpeg(height, width, seed=number))
        images.append({"id": 50 - number, "file_name": f"{number}.jpg", "height": height, "width": width})
        for _ in range(0 if number == 4 else int(rng.integers(1, 6))):
            corner, side = rng.uniform(0, 0.6, 2) * (width, height), rng.uniform(5, 35, 2)
            box = [round(float(value), 1) for value in (*corner, *side)]
            if number == 1:
                box = [int(value) for value in box]
            kind = len(annotations) % 3
            full = np.asfortranarray(rng.random((height, width)) < 0.3).astype(np.uint8)
            if kind == 0:
                part: Any = [_polygon(rng, height, width) for _ in range(2)]
            elif kind == 1:
                encoded = masks.encode(full)
                part = {"size": [height, width], "counts": encoded["counts"].decode()}
            else:
                flat = full.ravel(order="F")
                changes = np.flatnonzero(np.diff(np.concatenate([[0], flat])))
                part = {"size": [height, width], "counts": np.diff([0, *changes.tolist(), flat.size]).tolist()}
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": 50 - number,
                    "bbox": box,
                    "category_id": int(rng.integers(1, 90)),
                    "area": 12.5,
                    "iscrowd": int(kind != 0),
                    "segmentation": part,
                }
            )
    rng.shuffle(annotations)
    path = root / "instances.json"
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": []}))
    return root, path


def _both(coco: tuple[Path, Path], keys: Any, make: Any) -> tuple[Any, Any]:
    root, path = coco
    ours = fastpipe.CocoDetection(root, path, transforms=make(v2))
    expected = their_datasets.CocoDetection(root, str(path), transforms=make(theirs))
    wrap = fastpipe.wrap_dataset_for_transforms_v2
    return wrap(ours, keys), their_datasets.wrap_dataset_for_transforms_v2(expected, keys)


def test_coco_without_transforms(coco: tuple[Path, Path]) -> None:
    root, path = coco
    ours, expected = fastpipe.CocoDetection(root, path), their_datasets.CocoDetection(root, str(path))
    assert ours.ids == expected.ids
    assert len(ours) == len(expected) == 5
    for index in range(5):
        assert same(ours[index], expected[index])
    for keys in (None, "all", ["boxes", "masks"]):
        ours, expected = _both(coco, keys, lambda module: None)
        for index in range(5):
            (image, target), (their_image, their_target) = ours[index], expected[index]
            assert same(image, their_image)
            assert same(target, their_target)


def test_coco_with_transforms_of_image_and_target_apart(coco: tuple[Path, Path]) -> None:
    root, path = coco
    transform = fastpipe.transforms.Compose([fastpipe.transforms.CenterCrop(40), fastpipe.transforms.ToTensor()])
    ours = fastpipe.CocoDetection(root, path, transform, len)
    expected = their_datasets.CocoDetection(root, str(path), transform, len)
    assert all(same(ours[index], expected[index]) for index in range(5))
    with pytest.raises(ValueError, match="Only transforms or"):
        fastpipe.CocoDetection(root, path, transform, transforms=len)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_random_pipelines_with_boxes_and_masks(coco: tuple[Path, Path], seed: int) -> None:
    """Boxes, masks, labels, pixels and the generator's state behind."""
    keys = [None, "all", ["boxes", "masks", "labels"]][seed % 3]
    ours, expected = _both(coco, keys, lambda module: module.Compose(pipeline(module, seed, boxes=True)))
    assert same(sample_of(ours, seed), sample_of(expected, seed))


@pytest.mark.parametrize("seed", range(8))
def test_unplanned_gives_the_same(coco: tuple[Path, Path], seed: int) -> None:
    """Behind a function of the user's, torchvision's way; and all of it, with a loader of the user's."""

    def make(module: Any) -> Any:
        members = pipeline(module, seed, boxes=True)
        return module.Compose([*members[:1], module.Lambda(lambda value: value), *members[1:]])

    ours, expected = _both(coco, "all", make)
    assert ours.pipeline.unplanned
    assert same(sample_of(ours, seed), sample_of(expected, seed))
    root, path = coco
    loaded = fastpipe.CocoDetection(
        root, path, transforms=make(v2), loader=lambda name: Image.open(name).convert("RGB")
    )
    assert same(sample_of(fastpipe.wrap_dataset_for_transforms_v2(loaded, "all"), seed), sample_of(expected, seed))


def test_with_a_seed_threads_and_workers(coco: tuple[Path, Path]) -> None:
    root, path = coco
    transforms = v2.Compose(
        [v2.RandomZoomOut(), v2.RandomIoUCrop(), v2.RandomHorizontalFlip(), v2.SanitizeBoundingBoxes(), v2.ToImage()]
    )
    dataset = fastpipe.wrap_dataset_for_transforms_v2(
        fastpipe.CocoDetection(root, path, transforms=transforms, seed=3), ["boxes", "labels", "masks"]
    )
    four = torch.utils.data.Subset(dataset, range(1, 5))  # the first has no boxes
    state = torch.get_rng_state()
    expected = [four[index] for index in range(4)]
    assert torch.equal(torch.get_rng_state(), state)
    for options, threads in (({}, 0), ({}, 2), ({"num_workers": 1}, 0)):
        dataset.threads = threads
        batches = fastpipe.DataLoader(four, batch_size=2, collate_fn=fastpipe.collate_fn, **options)
        samples = [sample for images, targets in batches for sample in zip(images, targets, strict=True)]
        assert all(map(same, samples, expected))


@pytest.mark.parametrize("collate", ["detection", "torch's own"])
def test_threads_make_batches_ahead(coco: tuple[Path, Path], collate: str) -> None:
    """Those of one worker, drawn from the global generator's seed; a warning would say that they aren't made ahead."""
    root, path = coco
    members = [v2.RandomPhotometricDistort(), v2.RandomResizedCrop(40), v2.RandomHorizontalFlip(), v2.ToImage()]
    dataset = fastpipe.CocoDetection(root, path, transforms=v2.Compose(members))
    dataset = fastpipe.wrap_dataset_for_transforms_v2(dataset, ["boxes", "labels", "masks", "image_id"])
    options: dict[str, Any] = {"batch_size": 2, "collate_fn": fastpipe.collate_fn}
    if collate != "detection":
        options = {}  # one sample a batch: there are as many boxes in one image as in the other
    found = []
    for how in ({"threads": 2}, {"num_workers": 1}):
        torch.manual_seed(3)
        found.append(list(fastpipe.DataLoader(dataset, **options, **how)))
        assert len(found[-1]) == (3 if collate == "detection" else 5)
    assert same(*found)


def test_a_recipe_and_explain(coco: tuple[Path, Path]) -> None:
    root, path = coco
    transforms = v2.Compose([v2.ClampBoundingBoxes(), v2.RandomResizedCrop(30), v2.ToImage()])
    dataset = fastpipe.wrap_dataset_for_transforms_v2(fastpipe.CocoDetection(root, path, transforms=transforms))
    explained = fastpipe.explain(dataset)
    assert "RandomResizedCrop" in str(explained)
    torch.manual_seed(5)
    recipe = dataset.recipe(1)
    shape = recipe.shape
    for step in recipe.steps:
        shape = step.output_shape(shape)
    assert tuple(dataset[1][0].shape[1:]) == tuple(shape.size)


def test_the_datasets_pickle_small_and_share_memory(coco: tuple[Path, Path]) -> None:
    root, path = coco
    dataset = fastpipe.CocoDetection(root, path, transforms=v2.ToImage())
    assert len(pickle.dumps(dataset)) < 2048
    again = pickle.loads(pickle.dumps(dataset))
    assert isinstance(again.annotations.arrays["boxes"].base, np.memmap)
    assert same(again[1], dataset[1])
    kept = dataset.annotations.folder
    assert kept is not None
    damaged = kept / f"{dataset.annotations.generation}.index"
    damaged.write_bytes(damaged.read_bytes()[:-8])
    mended = fastpipe.CocoDetection(root, path).annotations
    assert mended.generation != dataset.annotations.generation
    assert np.array_equal(mended.arrays["boxes"], coco_annotations.parse(str(path))["boxes"])
    assert fastpipe.CocoDetection(root, path).annotations.generation == mended.generation  # opened, not read again
    changed = json.loads(path.read_text())
    other = path.with_name("other.json")
    changed["annotations"] = changed["annotations"][:1]
    other.write_text(json.dumps(changed))
    assert len(fastpipe.CocoDetection(root, other).annotations.arrays["boxes"]) == 1
    other.write_text(json.dumps({**changed, "annotations": []}))
    assert len(fastpipe.CocoDetection(root, other).annotations.arrays["boxes"]) == 0


@pytest.mark.parametrize("content", ["{", "[]", '{"images": [{"file_name": "a.jpg"}]}', '{"images": 3}'])
def test_files_that_are_no_annotations(tmp_path: Path, content: str) -> None:
    (tmp_path / "bad.json").write_text(content)
    with pytest.raises(fastpipe.errors.DatasetError, match=r"bad\.json"):
        fastpipe.CocoDetection(tmp_path, tmp_path / "bad.json")


def test_without_a_place_to_keep_them_annotations_stay_in_memory(
    coco: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = [target for _, target in fastpipe.CocoDetection(*coco)]
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("FASTPIPE_CACHE", str(tmp_path / "file"))
    with pytest.warns(FastpipeWarning, match=r"the table of annotations can't be kept at .* stays in memory"):
        dataset = fastpipe.CocoDetection(*coco)
    assert dataset.annotations.folder is None
    assert [target for _, target in dataset] == samples
    with pytest.raises(FileNotFoundError):
        fastpipe.CocoDetection(coco[0], tmp_path / "none.json")


def test_wrapping_what_is_not_ours_and_wrong_keys(coco: tuple[Path, Path]) -> None:
    root, path = coco
    wrap = fastpipe.wrap_dataset_for_transforms_v2
    dataset = fastpipe.CocoDetection(root, path)
    with pytest.raises(ValueError, match="not available"):
        wrap(dataset, ["nothing"])
    with pytest.raises(ValueError, match="target_keys"):
        wrap(dataset, 3)
    theirs_wrapped = wrap(their_datasets.CocoDetection(root, str(path)))
    assert type(theirs_wrapped).__name__ == "WrappedCocoDetection"


def test_keys_of_a_mask_are_refused_as_by_torchvision(voc: Path) -> None:
    said = []
    for datasets in (their_datasets, fastpipe):
        with pytest.raises(ValueError, match="target_keys") as raised:
            datasets.wrap_dataset_for_transforms_v2(datasets.VOCSegmentation(voc), ["boxes"])
        said.append(str(raised.value))
    assert said[0] == said[1]


@pytest.mark.parametrize("name", ["VOCDetection", "VOCSegmentation"])
def test_voc(voc: Path, name: str) -> None:
    ours, expected = getattr(fastpipe, name)(voc), getattr(their_datasets, name)(voc)
    assert len(ours) == len(expected) == 4
    assert ours.images == expected.images
    assert ours.targets == expected.targets
    assert all(same(ours[index], expected[index]) for index in range(4))
    assert len(pickle.dumps(ours)) < 2048
    wrap = fastpipe.wrap_dataset_for_transforms_v2
    for index in range(4):
        assert same(
            wrap(ours)[index], their_datasets.wrap_dataset_for_transforms_v2(getattr(their_datasets, name)(voc))[index]
        )
    with pytest.raises(RuntimeError, match="not found or corrupted"):
        getattr(fastpipe, name)(voc, "2007")
    with pytest.raises(ValueError, match="Unknown value '1999'"):
        getattr(fastpipe, name)(voc, "1999")


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("name", ["VOCDetection", "VOCSegmentation"])
def test_random_pipelines_on_voc(voc: Path, name: str, seed: int) -> None:
    found = []
    for module, datasets, wrap in (
        (v2, fastpipe, fastpipe.wrap_dataset_for_transforms_v2),
        (theirs, their_datasets, their_datasets.wrap_dataset_for_transforms_v2),
    ):
        members = pipeline(module, seed, boxes=True)
        if name == "VOCSegmentation":
            boxed = ("RandomIoUCrop", "SanitizeBoundingBoxes")
            members = [one for one in members if type(one).__name__ not in boxed]
        dataset = wrap(getattr(datasets, name)(voc, transforms=module.Compose(members)))
        found.append(sample_of(dataset, seed))
    assert same(*found)


def test_segmentation_collates(voc: Path) -> None:
    transforms = v2.Compose([v2.RandomResizedCrop(32), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    dataset = fastpipe.wrap_dataset_for_transforms_v2(fastpipe.VOCSegmentation(voc, transforms=transforms, seed=0))
    images, masks = next(iter(fastpipe.DataLoader(dataset, batch_size=4)))
    assert images.shape == (4, 3, 32, 32)
    assert masks.shape == (4, 1, 32, 32)
    assert torch.equal(images[2], dataset[2][0].as_subclass(torch.Tensor))


def with_a_bad_file(coco: tuple[Path, Path], folder: Path) -> Path:
    """Copies the images, the fourth of them spoiled; returns the annotation file."""
    root, path = coco
    for number in range(5):
        data = (root / f"{number}.jpg").read_bytes()
        (folder / f"{number}.jpg").write_bytes(data if number != 3 else b"no image")
    return path


def test_bad_files_are_skipped(coco: tuple[Path, Path], tmp_path: Path) -> None:
    path = with_a_bad_file(coco, tmp_path)
    dataset = fastpipe.CocoDetection(tmp_path, path, transforms=v2.ToImage(), on_error="skip", max_bad_fraction=1)
    with pytest.warns(fastpipe.errors.FastpipeWarning):
        samples = [dataset[index] for index in range(5)]
    assert [sample is None for sample in samples] == [False, True, False, False, False]
    with pytest.raises(OSError, match=r"3\.jpg"):
        fastpipe.CocoDetection(tmp_path, path, transforms=v2.ToImage())[1]


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
@pytest.mark.filterwarnings("ignore::fastpipe.errors.FastpipeWarning")
def test_what_torchs_workers_skip_is_counted(coco: tuple[Path, Path], tmp_path: Path) -> None:
    path = with_a_bad_file(coco, tmp_path)
    dataset = fastpipe.CocoDetection(tmp_path, path, transforms=v2.ToImage(), on_error="skip", max_bad_fraction=1)
    loader = DataLoader(dataset, 3, num_workers=2, collate_fn=len, multiprocessing_context="fork")
    assert sum(loader) == 4
    assert dataset.bad_files.skipped == 1
