"""Errors of a dataset name the sample and the file, and say what to do."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision_here
from full_disk import full_disk
from PIL import Image
from torch.utils.data import DataLoader as StockLoader

import fastpipe
from fastpipe import transforms as T
from fastpipe.config import MachineConfig
from fastpipe.errors import ConfigError, DatasetError, FastpipeWarning, PlanError, UnknownReaderError
from fastpipe.readers import read_image
from fastpipe.readers.cv2 import OpenCvReader

NOTES = pytest.mark.skipif(sys.version_info < (3, 11), reason="notes came with Python 3.11")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("messages")
    for number, size in enumerate([(60, 50), (30, 20), (70, 40)]):
        path = root / "a" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", size, (200, 30, 9)).save(path)
    return root


def small(image):
    if image.size == (30, 20):
        raise ValueError("too small")
    return image


class OnPixels:
    def draw(self, shape, generators):
        return (self,)

    def __call__(self, image):
        return self.apply(image)

    def apply(self, image):
        if image.shape[:2] == (20, 30):
            raise ValueError("too small")
        return image

    def output_shape(self, shape):
        return shape


@NOTES
@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize(
    "options",
    [
        {"transform": T.Compose([T.Lambda(small), T.ToTensor()])},
        {"transform": T.Compose([T.RandomCrop(35), T.ToTensor()])},  # an error of the draw
        {"transform": T.Compose([OnPixels(), T.ToTensor()])},
        {"transform": T.Compose([T.CenterCrop(9), T.ToTensor()]), "target_transform": [3, {}, 4].index},
        {"transform": small, "loader": Image.open},
    ],
)
def test_a_transforms_error_names_the_sample(root, options, seed):
    dataset = fastpipe.ImageFolder(root, seed=seed, **options)
    ask = [lambda: list(fastpipe.DataLoader(dataset, batch_size=3, collate_fn=len)), lambda: [dataset[-2]]]
    for fetch in ask:
        with pytest.raises(ValueError, match=r"too small|larger than|should be|not in list|smaller") as caught:
            fetch()
        notes = caught.value.__notes__
        if "target_transform" not in options:
            assert notes == [f"This was sample 1 of the dataset, {root}/a/1.jpg."]
        else:
            assert len(notes) == 1


@NOTES
def test_a_worker_s_error_names_the_sample(root):
    """Through torch's words for it."""
    dataset = fastpipe.ImageFolder(root, T.Compose([T.Lambda(small), T.ToTensor()]))
    with pytest.raises(ValueError, match="This was sample 1 of the dataset, "):
        list(StockLoader(dataset, batch_size=3, num_workers=1, collate_fn=len))


def test_a_key_error_of_ones_own():
    with pytest.raises(KeyError, match="mine"):
        T.Compose([T.Lambda(lambda image: {}["mine"])])(Image.new("RGB", (9, 9)))


@pytest.mark.parametrize("reader", [{"jpg": "cv2", "png": "pil"}, "png=pil,jpg=cv2", "pil,jpeg=cv2", "cv2"])
@pytest.mark.needs_core
@pytest.mark.needs_reader("cv2")
def test_read_image_takes_readers_by_format(root, reader, monkeypatch):
    decode, asked = OpenCvReader.decode, []
    monkeypatch.setattr(OpenCvReader, "decode", lambda *given: asked.append(1) or decode(*given))
    path = root / "a/0.jpg"
    assert np.array_equal(read_image(path, reader=reader), read_image(path, reader="pil"))
    assert asked
    read_image(path, reader={"webp": "cv2"})
    assert len(asked) == 1
    with pytest.raises(UnknownReaderError, match="cv3"):
        read_image(path, reader={"png": "cv3"})
    with pytest.raises(ConfigError, match="reader="):
        read_image(path, reader="jpg=")


@pytest.mark.needs_core
@pytest.mark.needs_reader("cv2")
def test_readers_by_format(root):
    for reader in ({"jpg": "cv2", "PNG": "pil"}, "jpg=cv2,png=pil"):
        dataset = fastpipe.ImageFolder(root, T.ToTensor(), reader=reader)
        assert dataset.config.reader_for("JPEG") == "cv2"
        assert dataset.config.reader_for("PNG") == "pil"
        assert "JPEG: cv2" in str(fastpipe.explain(dataset))
        assert torch.equal(dataset[0][0], fastpipe.ImageFolder(root, T.ToTensor())[0][0])
    config = MachineConfig({"jpeg": "pil", "webp": "pil"})
    for reader, webp in (("cv2,png=pil", "cv2"), ("jpg=cv2,png=pil", "pil")):  # the first for all
        dataset = fastpipe.ImageFolder(root, T.ToTensor(), reader=reader, config=config)
        assert [dataset.config.reader_for(format) for format in ("JPEG", "PNG", "WEBP")] == ["cv2", "pil", webp]
    listed = fastpipe.ImageList(([str(root / "a/0.jpg")], [0]), reader={"jpeg": "pil"})
    assert listed.config.reader_for("JPEG") == "pil"
    with pytest.raises(UnknownReaderError, match="cv3"):
        fastpipe.ImageFolder(root, reader="jpg=cv3")
    with pytest.raises(ConfigError, match=r"^reader='jpg='"):
        fastpipe.ImageFolder(root, reader="jpg=")


@pytest.mark.parametrize("change", ["append", "extend", "insert", "remove", "pop", "sort", "clear", "reverse"])
def test_views_say_how_to_change_them(root, change):
    dataset = fastpipe.ImageFolder(root)
    for view in (dataset.samples, dataset.targets):
        with pytest.raises(TypeError, match=r"dataset\.samples = list\(dataset\.samples\)"):
            getattr(view, change)(("x.jpg", 0))
    with pytest.raises(TypeError, match="view of an index"):
        del dataset.samples[0]


def test_a_full_disk_is_named(root, tmp_path):
    with full_disk(200), pytest.raises(DatasetError, match=r"can't be kept at .*index: .*File too large"):
        fastpipe.ImageIndex.from_folder(root, location=tmp_path / "index")
    assert [file.name for file in (tmp_path / "index").iterdir()] == ["lock"]
    with full_disk(200), pytest.warns(FastpipeWarning, match=r"stays in memory .*File too large"):
        assert len(fastpipe.ImageIndex.from_folder(root))


@pytest.mark.parametrize("seed", ["a", 1.5, True, [3]])
def test_a_seed_that_is_none_is_told_where_it_is_given(tmp_path: Path, seed: object) -> None:
    with pytest.raises(DatasetError, match=r"seed=.*: give an integer, or None"):
        fastpipe.ImageList((["a.jpg"], [0]), seed=seed)  # type: ignore[arg-type]
    assert fastpipe.ImageList((["a.jpg"], [0]), seed=np.int64(3)).seed == 3  # type: ignore[arg-type]


def test_a_loader_that_is_no_function_is_told_where_it_is_given() -> None:
    with pytest.raises(DatasetError, match="loader=3: give a function"):
        fastpipe.ImageList((["a.jpg"], [0]), loader=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [None, 3, ["train"], b"train"])
@pytest.mark.parametrize("kind", [fastpipe.ImageFolder, fastpipe.ArrayFolder])
def test_a_root_that_is_no_path_is_told_where_it_is_given(kind: Callable[..., object], given: object) -> None:
    with pytest.raises(TypeError, match=re.escape(f"root={given!r}: give the folder")):
        kind(given)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: fastpipe.ImageFolder(".", config="core"), DatasetError, "config='core': give a fastpipe.Mach"),
        (lambda: fastpipe.ImageFolder(".", threads="two"), DatasetError, "threads='two': give the number"),
        (lambda: fastpipe.ImageShards("a.tar", image=["jpg"]), DatasetError, "image=['jpg']: give the ending"),
        (lambda: fastpipe.ImageShards("a.tar", label=3), DatasetError, "label=3: give the ending"),
        (lambda: fastpipe.RemoteSource(None), DatasetError, "url=None: give a store's URL"),
        (lambda: fastpipe.DataLoader([1], dtype="float16"), DatasetError, "dtype=float16: give a floating dtype"),
        (lambda: fastpipe.open_image(None), TypeError, "source is a NoneType: give a path"),
        (lambda: fastpipe.open_image([1]), TypeError, "source is a list: give a path"),
        (lambda: MachineConfig(readers="core"), ConfigError, "readers='core': give a dict"),
    ],
)
def test_arguments_of_another_type_are_named(call: Callable[[], object], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=re.escape(said)):
        call()


@pytest.mark.parametrize(("given", "said"), [(3, "transform=3: give"), ([abs], "several go into a Compose")])
def test_a_transform_that_is_none_is_told_where_it_is_given(given: object, said: str) -> None:
    for arguments in ({"transform": given}, {"target_transform": given}):
        with pytest.raises(PlanError, match=said):
            fastpipe.ImageList((["a.jpg"], [0]), **arguments)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=r"transforms=.*give something that is called"):
        fastpipe.SampleDataset(lambda index: ("a.jpg", 0), 1, given)  # type: ignore[arg-type]


def test_a_format_of_boxes_that_is_none_is_told_where_it_is_given() -> None:
    with pytest.raises(DatasetError, match=r"'xy'.*XYXY, XYWH, CXCYWH"):
        fastpipe.Boxes([[1, 2, 3, 4]], "xy")
    assert fastpipe.Boxes([[1, 2, 3, 4]], "xyxy").format == "xyxy"


def test_help_says_what_a_compose_takes() -> None:
    assert "Callable" in str(inspect.signature(fastpipe.transforms.Compose).parameters["transforms"])
    torchvision_here.module("torchvision")
    v2 = importlib.import_module("fastpipe.transforms.v2")
    assert all(inspect.getdoc(one) for one in (v2.check_type, v2.has_all, v2.has_any))
    assert v2.has_any([1, "a"], str)
    assert not v2.has_all([1], str)
    assert v2.check_type(1, (int,))
