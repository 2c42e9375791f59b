"""`convert` of timm's and Hugging Face's data sets, of timm's loader, and of transforms."""

from __future__ import annotations

import copy
import io
import pickle
import random
import warnings
from pathlib import Path
from typing import Any

import corpus
import hugging_face_here
import pytest
import torch
import torchvision_here
from PIL import Image
from recipe_conformance import flat, seed_all, states, write_photos
from torch.utils.data import DataLoader

import fastpipe
from fastpipe import transforms as T
from fastpipe.errors import FastpipeWarning, PlanError

V1 = torchvision_here.module("torchvision.transforms")
V2 = torchvision_here.module("torchvision.transforms.v2")
V1_datasets = torchvision_here.torchvision.datasets


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photos(tmp_path_factory.mktemp("photos"))


def plus_three(target: int) -> int:
    return target + 3


def assert_same(theirs: Any, ours: Any, count: int) -> None:
    results = []
    for dataset in (theirs, ours):
        seed_all(0)
        results.append(([flat(dataset[index]) for index in range(count)], states()))
    assert results[0] == results[1]


# -- timm


@pytest.fixture
def timm() -> Any:
    pytest.importorskip("timm")
    return torchvision_here.module("timm.data")


def test_timm_s_data_set_keeps_its_order_and_names(timm: Any, photos: Path):
    transform = timm.create_transform(40, is_training=True, auto_augment="rand-m6-mstd0.5-inc1")
    theirs = timm.ImageDataset(str(photos), transform=transform, target_transform=plus_three)
    ours = fastpipe.convert(theirs)
    assert ours.pipeline.unplanned == ()
    assert len(ours) == len(theirs)
    assert_same(theirs, ours, len(theirs))
    assert ours.filenames(basename=True) == theirs.filenames(basename=True)
    assert ours.filename(1, absolute=True) == theirs.filename(1, absolute=True)
    assert ours.class_to_idx == theirs.reader.class_to_idx
    assert_same(theirs, pickle.loads(pickle.dumps(ours)), 3)


def test_a_file_that_timm_skips_is_skipped(timm: Any, photos: Path, tmp_path: Path):
    for number in range(4):
        (tmp_path / "cat").mkdir(exist_ok=True)
        (tmp_path / "cat" / f"{number}.jpg").write_bytes(corpus.jpeg(40, 50 + number))
    (tmp_path / "cat" / "1.jpg").write_bytes(b"not an image")
    (tmp_path / "cat" / "3.jpg").write_bytes(corpus.jpeg(40, 50)[:300])
    theirs = timm.ImageDataset(str(tmp_path), transform=V1.Compose([V1.RandomCrop(20), V1.PILToTensor()]))
    with pytest.warns(fastpipe.errors.FastpipeWarning):
        assert_same(theirs, fastpipe.convert(theirs), 4)


def test_a_file_without_a_target_has_timm_s_target(timm: Any, photos: Path):
    theirs = timm.ImageDataset(str(photos), transform=V1.CenterCrop(20))
    theirs.reader.samples[1] = (theirs.reader.samples[1][0], None)
    ours = fastpipe.convert(theirs)
    assert theirs[1][1] == ours[1][1] == -1
    assert_same(theirs, ours, len(theirs))


@pytest.mark.parametrize("given", [{"input_img_mode": "L"}, {"load_bytes": True}])
def test_what_timm_hands_out_otherwise_is_timm_s(timm: Any, photos: Path, given: Any):
    theirs = timm.ImageDataset(str(photos), **given)
    assert_same(theirs, fastpipe.convert(theirs), 3)


@pytest.mark.parametrize("prefetches", [True, False])
def test_timm_s_loader_gets_ours_within(timm: Any, photos: Path, prefetches: bool):
    if prefetches and not torch.cuda.is_available():
        device = {"device": torch.device("cpu")}
    else:
        device = {}
    dataset = timm.ImageDataset(str(photos))
    options = {
        "num_workers": 0,
        "persistent_workers": False,
        "use_prefetcher": prefetches,
        "is_training": True,
        **device,
    }
    theirs = timm.create_loader(dataset, (3, 32, 32), 4, hflip=0.5, re_prob=0.3, **options)
    ours = fastpipe.convert(theirs)
    assert type(ours) is (type(theirs) if prefetches else fastpipe.DataLoader)
    assert type(ours.loader if prefetches else ours) is fastpipe.DataLoader
    results = []
    for loader in (theirs, ours):
        seed_all(1)
        results.append(flat(list(loader)))
    assert results[0] == results[1]


# -- Hugging Face


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    hf = hugging_face_here.datasets()
    folder = tmp_path_factory.mktemp("hf")
    images: list[Any] = []
    for number in range(6):
        data = corpus.jpeg(60 + number, 83)
        if number == 2:
            data = corpus.with_segment(data, 0xE1, corpus.exif(6))
        if number == 3:
            file = io.BytesIO()
            Image.fromarray(corpus.photo(31, 44)).convert("P").save(file, "PNG")
            data = file.getvalue()
        if number % 2:
            images.append({"bytes": data, "path": None})
        else:
            (folder / f"{number}.jpg").write_bytes(data)
            images.append({"bytes": None, "path": str(folder / f"{number}.jpg")})
    columns = {"image": images, "label": list(range(6)), "name": list("abcdef")}
    features = hf.Features({"image": hf.Image(), "label": hf.Value("int64"), "name": hf.Value("string")})
    return hf.Dataset.from_dict(columns, features=features)


def augmented(module: Any) -> Any:
    transform = module.Compose([module.RandomResizedCrop(24), module.RandomHorizontalFlip(), module.ToTensor()])

    def augment(batch: dict[str, Any]) -> dict[str, Any]:
        images = [transform(image.convert("RGB")) for image in batch["image"]]
        return {"pixel_values": images, "label": batch["label"], "jitter": [random.random() for _ in images]}

    return augment


@pytest.mark.parametrize("module", [V1, T])
def test_rows_and_batches_of_hugging_face_are_the_same(table: Any, module: Any):
    theirs = table.with_transform(augmented(module))
    ours = fastpipe.convert(theirs)
    assert len(ours) == len(theirs)
    assert_same(theirs, ours, 6)
    seed_all(0)
    expected = flat(theirs.__getitems__([4, 0, 3]))
    seed_all(0)
    assert flat(ours.__getitems__([4, 0, 3])) == expected
    assert flat(ours[-1]["label"]) == [5]
    assert ours.column_names == theirs.column_names
    assert list(ours["label"])[:2] == [0, 1]


def test_shuffled_rows_of_a_loader_are_the_same(table: Any):
    theirs = DataLoader(
        table.shuffle(seed=2).select([0, 5, 3, 1]).with_transform(augmented(V1)), batch_size=3, shuffle=True
    )
    ours = fastpipe.convert(theirs)
    results = []
    for loader in (theirs, ours):
        seed_all(1)
        results.append(flat(list(loader)))
    assert results[0] == results[1]


def test_images_are_pillow_s_with_their_pixels(table: Any):
    def seen(batch: dict[str, Any]) -> dict[str, Any]:
        return {"image": batch["image"], "size": [(image.mode, image.size) for image in batch["image"]]}

    hf = hugging_face_here.datasets()
    for shown in (table, table.cast_column("image", hf.Image(mode="L"))):
        theirs = shown.with_transform(seen)
        ours = fastpipe.convert(theirs)
        assert_same(theirs, ours, 6)
        assert type(ours[0]["image"]).__module__.startswith("PIL.")


def test_a_column_with_none_and_chosen_columns_are_the_same(table: Any):
    hf = hugging_face_here.datasets()
    rows = {"image": [None, table[0]["image"]], "label": [1, 2]}
    theirs = hf.Dataset.from_dict(rows, features=hf.Features({"image": hf.Image(), "label": hf.Value("int64")}))
    theirs.set_transform(
        lambda batch: {"found": [image is None for image in batch["image"]], **batch}, columns=["image"]
    )
    assert_same(theirs, fastpipe.convert(theirs), 2)


def test_rows_without_a_transform_or_images_are_the_same(table: Any):
    for theirs in (table, table.with_format("torch"), table.remove_columns("image").with_transform(dict)):
        ours = fastpipe.convert(theirs)
        assert type(ours).__name__ == "Dataset"
        assert isinstance(ours, type(theirs))
        assert_same(theirs, ours, 6)
        assert flat([list(row.values()) for row in ours]) == flat([list(row.values()) for row in theirs])


# -- transforms


def transforms() -> dict[str, Any]:
    v1, v2 = V1, V2
    return {
        "v1": v1.Compose([v1.RandomResizedCrop(20), v1.RandomHorizontalFlip(), v1.ToTensor()]),
        "one of v1": v1.RandomRotation(20),
        "within": v1.RandomApply([v1.ColorJitter(0.4)], p=0.5),
        "foreign member": v1.Compose([v1.RandomCrop(20), v1.Lambda(lambda image: image.rotate(90)), v1.ToTensor()]),
        "v2": v2.Compose([v2.RandomResizedCrop(20), v2.RandomHorizontalFlip(), v2.ToImage()]),
        "one of v2": v2.RandomPhotometricDistort(),
    }


@pytest.mark.parametrize("name", transforms())
def test_transforms_give_the_same(name: str):
    theirs = transforms()[name]
    ours = fastpipe.convert(theirs)
    assert type(ours).__module__.startswith("fastpipe.transforms")
    image = Image.fromarray(corpus.photo(50, 61))
    for seed in range(5):
        results = []
        for transform in (theirs, ours):
            seed_all(seed)
            results.append((flat(transform(image)), states()))
        assert results[0] == results[1]
    assert fastpipe.convert(ours) is ours


def test_a_planned_transform_pickles_and_sees_changes():
    flip = V1.RandomHorizontalFlip(0.0)
    ours = fastpipe.convert(flip)
    image = Image.fromarray(corpus.photo(50, 61))
    assert flat(ours(image)) == flat(image)
    flip.p = 1.0
    assert flat(ours(image)) == flat(image.transpose(Image.Transpose.FLIP_LEFT_RIGHT))
    assert flat(pickle.loads(pickle.dumps(ours))(image)) == flat(ours(image))


def kept() -> dict[str, Any]:
    """Transforms of each kind, and a method of each class that scripts call."""
    return {
        "a crop": (V1.RandomCrop(20), lambda one: (one.get_params(Image.new("RGB", (20, 20)), (20, 20)), one.size)),
        "a Compose": (V1.Compose([V1.RandomCrop(20), V1.ToTensor()]), lambda one: len(one.transforms)),
        "members": (V1.RandomApply([V1.RandomRotation(20)]), lambda one: (one.p, one.transforms[0].degrees)),
        "no module": (V1.ToTensor(), repr),
        "a crop of v2": (V2.RandomCrop(20), lambda one: (one.size, one.extra_repr())),
        "v2": (V2.Compose([V2.RandomCrop(20), V2.ToImage()]), lambda one: len(one.transforms)),
    }


@pytest.mark.parametrize("name", kept())
def test_a_converted_transform_keeps_its_class_s_interface(name: str):
    theirs, asked = kept()[name]
    image = Image.fromarray(corpus.photo(50, 61))
    ours = fastpipe.convert(theirs)
    for made in (ours, pickle.loads(pickle.dumps(ours)), copy.deepcopy(ours)):
        assert isinstance(made, type(theirs))
        assert repr(made) == repr(theirs)
        seed_all(2)
        expected = asked(theirs)
        seed_all(2)
        assert asked(made) == expected
        seed_all(3)
        sample, end = flat(theirs(image)), states()
        seed_all(3)
        assert (flat(made(image)), states()) == (sample, end)
        assert fastpipe.convert(made) is made
        library = V2 if isinstance(theirs, V2.Transform) else T  # a plan is of one of them
        around = library.Compose([library.CenterCrop(40), made])
        assert fastpipe.explain(around).rest == ()


def test_changes_of_a_converted_transform_are_seen():
    image = Image.fromarray(corpus.photo(50, 61))
    for crop in (fastpipe.convert(V1.CenterCrop(20)), copy.deepcopy(fastpipe.convert(V1.CenterCrop(20)))):
        crop.size = (8, 9)
        assert crop(image).size == (9, 8)
    both = pickle.loads(pickle.dumps(fastpipe.convert(V1.Compose([V1.CenterCrop(20)]))))
    both.transforms.append(V1.CenterCrop(5))
    assert both(image).size == (5, 5)
    both.transforms = [V1.CenterCrop(6)]
    assert both(image).size == (6, 6)


def test_a_conversion_that_plans_nothing_says_so(photos: Path):
    with pytest.warns(FastpipeWarning, match=r"nothing of this transform is planned.*Lambda\(\) comes first"):
        fastpipe.convert(V1.Compose([V1.Lambda(abs)]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fastpipe.convert(V1.Compose([V1.Lambda(abs), V1.CenterCrop(3)]))  # what stands behind it is planned
        fastpipe.convert(V1_datasets.ImageFolder(str(photos)))
        fastpipe.convert(V1_datasets.ImageFolder(str(photos), V1.Compose([V1.CenterCrop(3), V1.Lambda(abs)])))


def test_timm_s_separate_transforms_are_three(timm: Any):
    theirs = timm.create_transform(32, is_training=True, separate=True, auto_augment="rand-m6")
    ours = fastpipe.convert(theirs)
    assert type(ours) is tuple
    assert len(ours) == 3


def test_albumentations_are_taken():
    A = pytest.importorskip("albumentations")
    image = Image.fromarray(corpus.photo(50, 61))
    ours = fastpipe.convert(A.Compose([A.HorizontalFlip(p=1.0)]))
    assert flat(ours(image)) == flat(image.transpose(Image.Transpose.FLIP_LEFT_RIGHT))


@pytest.mark.parametrize("thing", [7, "train", object(), [7], None, {"a": 1}, torch.zeros(3)])
def test_what_is_no_transform_is_named(thing: Any):
    with pytest.raises(PlanError, match=r"fastpipe\.convert takes a transform, a dataset or a DataLoader, not a "):
        fastpipe.convert(thing)


@pytest.mark.parametrize("thing", [print, lambda image: image, Image.Image.convert])
def test_functions_are_named_with_a_way_out(thing: Any):
    with pytest.raises(PlanError, match=r"takes no function.*`fastpipe run`.*fastpipe\.install\(\)"):
        fastpipe.convert(thing)


def test_a_class_is_no_object_of_it():
    with pytest.raises(PlanError, match=r"takes no class, as .*CenterCrop.* is one: make an object of it first"):
        fastpipe.convert(V1.CenterCrop)


def test_hooks_are_seen():
    hooked = V1.CenterCrop(20)
    hooked.register_forward_hook(lambda module, given, made: made.rotate(180))
    image = Image.fromarray(corpus.photo(50, 61))
    assert flat(fastpipe.convert(hooked)(image)) == flat(hooked(image)) != flat(V1.CenterCrop(20)(image))
