"""Odd annotations of COCO and Pascal VOC: torchvision's value where it has one, and its error where it raises."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import pickle
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
import torchvision_here
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import DataLoader

import fastpipe
from fastpipe.datasets.coco_masks import _length_of
from fastpipe.errors import AnnotationError, FastpipeWarning
from fastpipe.interop.datasets import convert_dataset
from fastpipe.tools.check.run import check

their_datasets = torchvision_here.module("torchvision.datasets")
theirs = torchvision_here.module("torchvision.transforms.v2")
v2 = torchvision_here.module("fastpipe.transforms.v2")

pytest.importorskip("pycocotools.coco")

HEIGHT, WIDTH = 30, 40
DROPPED = object()

ALL_KEYS = ["segmentation", "area", "iscrowd", "image_id", "bbox", "category_id", "boxes", "masks", "labels"]


def _runs(height: int, width: int) -> dict[str, Any]:
    from pycocotools import mask

    full = np.asfortranarray(np.arange(height * width).reshape(height, width) % 3 == 0).astype(np.uint8)
    encoded = mask.encode(full)
    return {"size": [height, width], "counts": encoded["counts"].decode()}


GOOD = {
    "id": 1,
    "image_id": 1,
    "category_id": 3,
    "bbox": [10, 20, 5, 4],
    "area": 20,
    "iscrowd": 0,
    "segmentation": [[10, 20, 20, 20, 20, 28]],
    "keypoints": [1, 2, 2],
    "num_keypoints": 1,
}

VALUES: dict[str, list[Any]] = {
    "id": [DROPPED, None, "a", 1.5, 2, [1]],
    "image_id": [DROPPED, None, "1", 1.0, True, 2, [1]],
    "category_id": [DROPPED, None, "3", "cat", 1.7, 3.0, True, -1, 2**62, 2**70, [3], {}],
    "bbox": [
        *(DROPPED, None, [], {}, "box", 7, [1, 2, 3], [1, 2, 3, 4, 5], [1, None, 3, 4], ["1", "2", "3", "4"]),
        *(
            [1.5, 2, 3, 4],
            [0.1, 0.2, 0.3, 0.4],
            [True, 2, 3, 4],
            [1e39, 0, 1, 1],
            [2**53 + 1, 0, 1, 1],
            [2**70, 0, 1, 1],
        ),
        *(
            [float("nan"), 1, 2, 3],
            [float("inf"), 1, 2, 3],
            [[1, 2, 3, 4]],
            [[1], [2], [3], [4]],
            [-5, -6, -7, -8],
            [1],
        ),
    ],
    "area": [DROPPED, None, "big", 0.5],
    "iscrowd": [DROPPED, None, 1, True, "no"],
    "segmentation": [
        *(
            DROPPED,
            None,
            [],
            {},
            "poly",
            7,
            [[]],
            [[1, 2]],
            [[1, 2, 3, 4]],
            [[1, 2, 3, 4, 5, 6], [9, 9, 20, 9, 20, 20]],
        ),
        *([1, 2, 10, 2, 10, 10], [[1, 2, "3", 4, 5, 6]], [None], _runs(30, 40), _runs(20, 10), [_runs(30, 40)]),
        *({"size": [30, 40], "counts": [0, 7, 1193]}, {"counts": [1200]}),
        *({"size": [30, 40]}, {"size": [30, 40], "counts": None}, {"size": [30, 40], "counts": "?!"}),
        *({"size": None, "counts": [1200]}, {"size": [30.0, 40.0], "counts": [1200]}, {"size": [0, 0], "counts": []}),
        {"size": [40, 30], "counts": [0, 5, 1195]},
    ],
    "keypoints": [DROPPED, None, []],
}


def same(one: Any, other: Any) -> bool:
    """True for equal values of equal classes; NaN is equal to itself."""
    if type(one).__name__ != type(other).__name__:
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, torch.Tensor):
        equal = torch.equal(torch.nan_to_num(one), torch.nan_to_num(other))
        metadata = [(getattr(each, "format", None), getattr(each, "canvas_size", None)) for each in (one, other)]
        return equal and one.dtype == other.dtype and str(metadata[0]) == str(metadata[1])
    return bool(one == other or (one != one and other != other))


def _with(annotation: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    changed = {**copy.deepcopy(annotation), key: value}
    if value is DROPPED:
        del changed[key]
    return changed


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    (folder / "0.jpg").write_bytes(corpus.jpeg(HEIGHT, WIDTH, seed=1))
    (folder / "1.jpg").write_bytes(corpus.jpeg(HEIGHT, WIDTH, seed=2))
    return folder


Make = Callable[[], Any]


def _outcome(make: Make) -> tuple[Any, BaseException | None]:
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return make(), None
    except Exception as error:
        return None, error


def _base(error: BaseException | None) -> type:
    """The class of an error of torchvision's by which people catch it."""
    known = ("builtins", "xml.etree.ElementTree")
    return next(kind for kind in type(error).__mro__ if kind.__module__ in known)


def _agree(ours: Make, expected: Make, file: Path, alone: Sequence[Make] = ()) -> None:
    """Asserts equal values, or errors of the same class; ours names the file.

    Args:
        ours, expected: make a target.
        file: the annotations.
        alone: make torchvision's target of each annotation alone: of several mistakes either may be met first.
    """
    (value, error), (their_value, their_error) = _outcome(ours), _outcome(expected)
    if their_error is None:
        assert error is None, f"torchvision gives {their_value}, ours raises {error!r}"
        assert same(value, their_value), f"{value} != {their_value}"
        return
    assert error is not None, f"torchvision raises {their_error!r}, ours gives {value}"
    if type(error) is not IndexError or type(their_error) is not IndexError:  # else there is no such sample
        bases = tuple(map(_base, (their_error, *filter(None, (_outcome(make)[1] for make in alone)))))
        assert isinstance(error, bases), f"{their_error!r} is not the base of {error!r}"
        assert isinstance(error, AnnotationError)
        assert str(file) in str(error)


def _content(annotations: list[Any], **more: Any) -> dict[str, Any]:
    images = [{"id": 1, "file_name": "0.jpg", "height": HEIGHT, "width": WIDTH}, {"id": 2, "file_name": "1.jpg"}]
    return {"images": images, "annotations": annotations, "categories": [{"id": 3, "name": "cat"}], **more}


def _compare_coco(root: Path, content: dict[str, Any], keys: Any = "unwrapped", index: int = 0) -> None:
    file = root / "instances.json"
    file.write_text(json.dumps(content))

    def make(datasets: Any, wrap: Any) -> Any:
        dataset = datasets.CocoDetection(root, str(file))
        return (dataset if keys == "unwrapped" else wrap(dataset, keys))[index][1]

    wrappers = fastpipe.wrap_dataset_for_transforms_v2, their_datasets.wrap_dataset_for_transforms_v2

    def of_one(annotation: Any) -> Any:
        file.write_text(json.dumps({**content, "annotations": [annotation]}))
        return make(their_datasets, wrappers[1])

    alone = [partial(of_one, each) for each in content.get("annotations") or ()]
    _agree(lambda: make(fastpipe, wrappers[0]), lambda: make(their_datasets, wrappers[1]), file, alone)


KEYS = ["unwrapped", None, "all", ["masks"]]


@pytest.mark.parametrize("key", [*VALUES])
def test_a_field_of_coco_with_any_value(root: Path, key: str) -> None:
    for value in VALUES[key]:
        odd = _with(GOOD, key, value)
        for keys in [*KEYS, [key]] if key in ALL_KEYS else KEYS:
            _compare_coco(root, _content([odd]), keys)
        for some in ([GOOD, {**odd, "id": 2} if key != "id" else odd], [odd, {**GOOD, "id": 7}]):
            for keys in (None, ["masks", key] if key in ALL_KEYS else "all"):
                _compare_coco(root, _content(some), keys)


@pytest.mark.parametrize(
    "images",
    [
        [{"id": 1, "file_name": "0.jpg"}],
        [{"id": "a", "file_name": "0.jpg"}],
        [{"id": "abc", "file_name": "0.jpg"}],
        [{"id": "1", "file_name": "0.jpg"}],
        [{"id": "", "file_name": "0.jpg"}],
        [{"id": "a", "file_name": "0.jpg"}, {"id": "ab", "file_name": "1.jpg"}],
        [{"id": "a", "file_name": "1.jpg"}, {"id": "aa", "file_name": "0.jpg"}],
        [{"id": 1.0, "file_name": "0.jpg"}],
        [{"id": True, "file_name": "0.jpg"}],
        [{"id": None, "file_name": "0.jpg"}],
        [{"id": [1], "file_name": "0.jpg"}],
        [{"id": 2**63, "file_name": "0.jpg"}],
        [{"id": 2**80, "file_name": "0.jpg"}, {"id": -(2**70), "file_name": "1.jpg"}],
        [{"id": 1, "file_name": "0.jpg"}, {"id": "a", "file_name": "1.jpg"}],
        [{"id": 1, "file_name": "0.jpg"}, {"id": 1, "file_name": "1.jpg"}],
        [{"id": 1, "file_name": "0.jpg"}, {"id": 1.0, "file_name": "1.jpg"}],
        [{"id": 1}],
        [{"id": 1, "file_name": None}],
        [{"id": 1, "file_name": 5}],
        [{"id": 1}, {"id": 2, "file_name": "1.jpg"}],
        [{"file_name": "0.jpg"}],
        [5],
        None,
    ],
)
def test_images_of_coco_with_any_id_and_name(root: Path, images: Any) -> None:
    first = images[0].get("id", 1) if images and isinstance(images[0], dict) else 1
    for some in ([], [{**GOOD, "image_id": first}], [GOOD, {**GOOD, "id": 2, "image_id": first}]):
        for index in (0, 1):
            for keys in ("unwrapped", None):
                _compare_coco(root, _content(some, images=images), keys, index)


@pytest.mark.parametrize("content", [{}, {"annotations": []}, {"annotations": [GOOD]}, {"images": []}, {"images": {}}])
def test_a_coco_file_without_images_has_no_samples(root: Path, content: dict[str, Any]) -> None:
    file = root / "instances.json"
    for categories in ({}, {"categories": [{"id": 3}]}):
        file.write_text(json.dumps({**content, **categories}))
        datasets = [home.CocoDetection(root, str(file)) for home in (fastpipe, their_datasets)]
        assert [*map(len, datasets)] == [0, 0]
        assert datasets[0].ids == datasets[1].ids


@pytest.mark.parametrize(
    "more",
    [
        {"categories": None},
        {"categories": [{"name": "cat"}]},
        {"categories": [{"id": [3]}]},
        {"categories": [7]},
        {"annotations": None},
        {"annotations": [7]},
        {"annotations": [None]},
        {"annotations": {}},
    ],
)
def test_other_parts_of_a_coco_file(root: Path, more: Any) -> None:
    _compare_coco(root, _content([GOOD]) | more, None)


@pytest.mark.parametrize("left_out", ["annotations", "categories"])
@pytest.mark.parametrize("annotation", [GOOD, _with(GOOD, "category_id", DROPPED), _with(GOOD, "category_id", [1])])
def test_a_coco_file_without_a_part(root: Path, left_out: str, annotation: Any) -> None:
    content = _content([annotation])
    del content[left_out]
    for keys in KEYS:
        _compare_coco(root, content, keys)


def _numbers() -> Any:
    return st.one_of(st.integers(-(2**66), 2**66), st.floats(width=64), st.integers(-50, 50), st.booleans(), st.none())


@settings(max_examples=settings.default.max_examples, deadline=None)
@given(
    changes=st.lists(
        st.one_of(
            st.tuples(st.just("bbox"), st.lists(_numbers(), min_size=3, max_size=5)),
            st.tuples(st.just("category_id"), _numbers()),
            *(st.tuples(st.just(key), st.sampled_from(values)) for key, values in VALUES.items()),
        ),
        max_size=4,
    ),
    keys=st.sampled_from(KEYS),
)
def test_any_changes_of_coco_s_annotations(root: Path, changes: list[tuple[str, Any]], keys: Any) -> None:
    annotations = []
    for number, (key, value) in enumerate([("area", 3.5), *changes]):
        annotations.append(_with({**GOOD, "id": number}, key, value))
    _compare_coco(root, _content(annotations), keys)


def test_masks_go_through_transforms_as_torchvision_s(root: Path) -> None:
    file = root / "masks.json"
    for part in (_runs(30, 40), _runs(20, 10), [[10, 20, 20, 20, 20, 28]]):
        file.write_text(json.dumps(_content([GOOD | {"segmentation": part}])))
        for make in (lambda m: m.RandomHorizontalFlip(1.0), lambda m: m.Resize((9, 8)), lambda m: m.CenterCrop(8)):

            def sample(datasets: Any, wrap: Any, module: Any, make: Any = make) -> Any:
                dataset = datasets.CocoDetection(root, str(file), transforms=make(module))
                return wrap(dataset, ["boxes", "masks", "labels"])[0][1]

            ours = _outcome(lambda: sample(fastpipe, fastpipe.wrap_dataset_for_transforms_v2, v2))
            expected = _outcome(lambda: sample(their_datasets, their_datasets.wrap_dataset_for_transforms_v2, theirs))
            assert (ours[1] is None) == (expected[1] is None)
            assert same(ours[0], expected[0])


@pytest.mark.parametrize("counts", [[0, 7], [0, 7, 1192], [], "0", "07"])
def test_run_lengths_that_are_not_as_long_as_the_mask(root: Path, counts: Any) -> None:
    """pycocotools leaves the rest of such a mask as it finds the memory."""
    file = root / "short.json"
    file.write_text(json.dumps(_content([GOOD | {"segmentation": {"size": [30, 40], "counts": counts}}])))
    with pytest.raises(AnnotationError, match=r"short\.json: image 1, annotation 1: ValueError: its run lengths are"):
        fastpipe.wrap_dataset_for_transforms_v2(fastpipe.CocoDetection(root, file), ["masks"])[0]


def test_the_length_of_run_lengths() -> None:
    for height, width in ((30, 40), (1, 1), (700, 900)):
        assert _length_of(_runs(height, width)["counts"].encode()) == height * width
    from pycocotools import mask

    far = mask.frPyObjects({"size": [1000, 1000], "counts": [999_000, 3, 5, 900, 90, 2]}, 1000, 1000)
    assert _length_of(far["counts"]) == 1000 * 1000


def test_the_class_of_the_default_dtype(root: Path) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        _compare_coco(root, _content([_with(GOOD, "bbox", [0.1, 0.2, 0.3, 0.4])]), None)
    finally:
        torch.set_default_dtype(torch.float32)


def test_the_error_names_file_image_and_annotation_and_pickles(root: Path) -> None:
    file = root / "bad.json"
    file.write_text(json.dumps(_content([{**GOOD, "id": 5}, {**GOOD, "id": 6, "bbox": [1, None, 3, 4]}])))
    dataset = fastpipe.wrap_dataset_for_transforms_v2(fastpipe.CocoDetection(root, file))
    with pytest.raises(AnnotationError, match=r"bad\.json: image 1, annotation 6: ") as raised:
        dataset[0]
    again = pickle.loads(pickle.dumps(raised.value))
    assert type(again) is type(raised.value)
    assert str(again) == str(raised.value)
    for workers in (0, 1):
        with pytest.raises(RuntimeError, match="annotation 6"):
            list(DataLoader(dataset, batch_size=None, num_workers=workers))


def test_boxes_of_pycocotools_object_are_read_in_the_same_way(root: Path) -> None:
    file = root / "loaded.json"
    for key in ("bbox", "category_id", "segmentation"):
        for value in VALUES[key]:
            content = _content([_with(GOOD, key, value)])
            del content["categories"]
            file.write_text(json.dumps(content))
            with contextlib.redirect_stdout(io.StringIO()):
                dataset = their_datasets.CocoDetection(root, str(file))
                ours = fastpipe.wrap_dataset_for_transforms_v2(convert_dataset(dataset, lambda _: None))
                expected = their_datasets.wrap_dataset_for_transforms_v2(dataset)
            (one, error), (other, their_error) = (
                _outcome(lambda ours=ours: ours[0][1]),
                _outcome(lambda expected=expected: expected[0][1]),
            )
            assert (error is None) == (their_error is None), (value, error, their_error)
            assert same(one, other)


@pytest.mark.parametrize("loader", [None, Image.open])
def test_bad_annotations_are_bad_samples(root: Path, loader: Any) -> None:
    """Also those for which pycocotools refuses the whole file: only their images are left out."""
    own = {} if loader is None else {"loader": loader}
    for odd in (_with(GOOD, "bbox", DROPPED), _with(GOOD, "category_id", DROPPED), _with(GOOD, "id", DROPPED)):
        file = root / "tolerant.json"
        file.write_text(json.dumps(_content([odd, {**GOOD, "id": 9, "image_id": 2}])))
        for policy, kept in (("skip", [None, 3]), ("replace", [3, 3])):
            dataset = fastpipe.CocoDetection(root, file, on_error=policy, max_bad_fraction=1.0, **own)
            wrapped = fastpipe.wrap_dataset_for_transforms_v2(dataset)
            with pytest.warns(FastpipeWarning, match=r"tolerant\.json"):
                samples = [wrapped[index] for index in range(2)]
            assert [sample and sample[1]["labels"].item() for sample in samples] == kept
            assert sum((wrapped.bad_files.skipped, wrapped.bad_files.replaced)) == 1
        with pytest.raises((KeyError, AnnotationError)):
            fastpipe.wrap_dataset_for_transforms_v2(fastpipe.CocoDetection(root, file, **own))[0]


VOC = "<name>cat</name><pose>Left</pose><difficult>0</difficult>"
BOX = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>9</xmax><ymax>8</ymax></bndbox>"
ONE = f"<object>{VOC}{BOX}</object>"


@pytest.mark.parametrize(
    "inner",
    [
        "",
        ONE,
        ONE + ONE,
        "<object/>",
        "<object>text</object>",
        f"<object>{VOC}</object>",
        f"<object>{BOX}</object>",
        f"{ONE}<object>{VOC}</object>",
        f"{ONE}<object>{BOX}</object>",
        f"<object><name></name>{BOX}</object>",
        f"<object><name>  cat  </name>{BOX}</object>",
        f"<object><name>unicorn</name>{BOX}</object>",
        f"<object><name>cat</name><name>dog</name>{BOX}</object>",
        f"<object><name>cat<b>x</b></name>{BOX}</object>",
        f"<object>{VOC}{BOX}{BOX}</object>",
        f"<object>{VOC}<bndbox/></object>",
        f"<object>{VOC}<bndbox>1 2 3 4</bndbox></object>",
        f"<object>{VOC}{BOX.replace('>1<', '>1.5<')}</object>",
        f"<object>{VOC}{BOX.replace('>1<', '> 7 <')}</object>",
        f"<object>{VOC}{BOX.replace('>1<', '><')}</object>",
        f"<object>{VOC}{BOX.replace('>1<', '>-3<')}</object>",
        f"<object>{VOC}{BOX.replace('>1<', f'>{2**70}<')}</object>",
        f"<object>{VOC}{BOX.replace('<xmin>1</xmin>', '')}</object>",
        f"<object>{VOC}{BOX.replace('<xmin>1</xmin>', '<xmin>1</xmin><xmin>2</xmin>')}</object>",
        f"<object>{VOC}{BOX}<part><name>head</name>{BOX}</part></object>",
        f"<object>{VOC}{BOX}<part><name>head</name>{BOX}</part><part><name>hand</name>{BOX}</part></object>",
        f"<object>{VOC}<difficult></difficult>{BOX}</object>",
        f"<object>{VOC}{BOX}</object><object>{VOC}<part>{BOX}</part></object>",
        "<other>1</other>",
    ],
)
@pytest.mark.parametrize("outer", ["<annotation>{}</annotation>", "<annotations>{}</annotations>", "<annotation>{}"])
def test_voc(tmp_path: Path, inner: str, outer: str) -> None:
    base = tmp_path / "VOCdevkit" / "VOC2012"
    for folder in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (base / folder).mkdir(parents=True)
    (base / "JPEGImages" / "a.jpg").write_bytes(corpus.jpeg(HEIGHT, WIDTH, seed=1))
    (base / "ImageSets" / "Main" / "train.txt").write_text("a\n")
    file = base / "Annotations" / "a.xml"
    file.write_text(outer.format(inner))

    def make(datasets: Any, wrap: Any, keys: Any) -> Any:
        dataset = datasets.VOCDetection(tmp_path, "2012", "train")
        return (dataset if keys == "unwrapped" else wrap(dataset, keys))[0][1]

    wrappers = fastpipe.wrap_dataset_for_transforms_v2, their_datasets.wrap_dataset_for_transforms_v2
    for keys in ("unwrapped", None, "all", ["boxes"], ["labels"], ["annotation"], ["annotation", "boxes"]):
        _agree(
            lambda keys=keys: make(fastpipe, wrappers[0], keys),  # type: ignore[misc]
            lambda keys=keys: make(their_datasets, wrappers[1], keys),  # type: ignore[misc]
            file,
        )


@pytest.mark.parametrize("mode", ["P", "L", "1", "I;16", "RGB", "LA", "RGBA"])
@pytest.mark.parametrize("size", [(WIDTH, HEIGHT), (20, 10)])
def test_masks_of_voc_of_any_mode_and_size(tmp_path: Path, mode: str, size: tuple[int, int]) -> None:
    base = tmp_path / "VOCdevkit" / "VOC2012"
    for folder in ("JPEGImages", "SegmentationClass", "ImageSets/Segmentation"):
        (base / folder).mkdir(parents=True)
    (base / "JPEGImages" / "a.jpg").write_bytes(corpus.jpeg(HEIGHT, WIDTH, seed=1))
    (base / "ImageSets" / "Segmentation" / "train.txt").write_text("a\n")
    values = np.arange(size[0] * size[1], dtype=np.uint8).reshape(size[::-1])
    Image.fromarray(values).convert(mode).save(base / "SegmentationClass" / "a.png")
    wrapped = [
        wrap(datasets.VOCSegmentation(tmp_path, "2012", "train"))
        for datasets, wrap in (
            (fastpipe, fastpipe.wrap_dataset_for_transforms_v2),
            (their_datasets, their_datasets.wrap_dataset_for_transforms_v2),
        )
    ]
    assert same(wrapped[0][0][1], wrapped[1][0][1])


def test_check_counts_bad_annotations(root: Path) -> None:
    file = root / "checked.json"
    file.write_text(json.dumps(_content([_with(GOOD, "bbox", DROPPED), {**GOOD, "id": 9, "image_id": 2}])))
    dataset = fastpipe.wrap_dataset_for_transforms_v2(fastpipe.CocoDetection(root, file))
    found = check(dataset, progress=False, jobs=1)
    assert found.bad == 1
    assert (found.rows[0].number, found.rows[0].kinds) == (0, ("annotation",))
    assert "checked.json: image 1, annotation 1: there is no 'bbox'" in found.rows[0].reason
