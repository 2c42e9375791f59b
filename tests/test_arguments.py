"""Arguments of a wrong type, or out of range: refused where they are given, by an error that names the argument."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
from PIL import Image

import fastpipe
from fastpipe import transforms as T
from fastpipe.errors import ConfigError, FastpipeError, PlanError
from fastpipe.loading.samplers import (
    ClassBalancedSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    ShuffledSampler,
    WeightedSampler,
    merge_states,
)
from fastpipe.types import ImageShape

PHOTO = corpus.jpeg(30, 40, "420", seed=1)
TO_TENSOR = T.Compose([T.Resize((8, 9)), T.ToTensor()])
NO_NUMBERS: tuple[Any, ...] = ("3", 1.5, float("nan"), [1], b"x", {})
HUGE = 10**30

CALLS: dict[str, Callable[[Any], object]] = {
    "threads": lambda given: fastpipe.ImageList(([], []), threads=given),
    "threads of load_batch": lambda given: fastpipe.load_batch([PHOTO], TO_TENSOR, threads=given),
    "threads of DataLoader": lambda given: fastpipe.DataLoader(fastpipe.ImageList(([], [])), threads=given),
    "num_workers": lambda given: fastpipe.DataLoader(fastpipe.ImageList(([], [])), num_workers=given),
    "prefetch_factor": lambda given: fastpipe.DataLoader(
        fastpipe.ImageList(([], [])), num_workers=1, prefetch_factor=given
    ),
    "epoch": lambda given: fastpipe.ImageList(([], []), seed=3).set_epoch(given),
    "length": lambda given: fastpipe.SampleDataset(lambda index: ("a.jpg", index), given),
    "check": lambda given: fastpipe.install(check=given),
    "data_source": lambda given: ShuffledSampler(given),
    "dataset": lambda given: DistributedSampler(given, 1, 0),
    "num_samples": lambda given: WeightedSampler([1.0, 2.0], given),
    "num_samples of classes": lambda given: ClassBalancedSampler([1, 2], given),
    "num_replicas": lambda given: WeightedSampler([1.0, 2.0], num_replicas=given, rank=0),
    "rank": lambda given: WeightedSampler([1.0, 2.0], num_replicas=2, rank=given),
    "num_replicas of DistributedSampler": lambda given: DistributedSampler(5, given, 0),
    "rank of DistributedSampler": lambda given: DistributedSampler(5, 2, given),
    "rank of DistributedSampler alone": lambda given: DistributedSampler(5, rank=given),
    "data_source of SequentialSampler": lambda given: SequentialSampler(given),
    "data_source of RandomSampler": lambda given: RandomSampler(given),
    "epoch of a sampler": lambda given: ShuffledSampler(5).set_epoch(given),
    "views": lambda given: fastpipe.preview(fastpipe.ImageList(([], [])), views=given),
    "side": lambda given: fastpipe.preview(fastpipe.ImageList(([], [])), side=given),
    "images": lambda given: fastpipe.verify(TO_TENSOR, ["a.jpg"], images=given),
    "drawings": lambda given: fastpipe.verify(TO_TENSOR, ["a.jpg"], drawings=given),
}

SEEDED: dict[str, Callable[[Any], Any]] = {
    "ShuffledSampler": lambda given: ShuffledSampler(5, given),
    "DistributedSampler": lambda given: DistributedSampler(5, 2, 0, seed=given),
    "WeightedSampler": lambda given: WeightedSampler([1.0, 2.0], seed=given),
    "ClassBalancedSampler": lambda given: ClassBalancedSampler([1, 2], seed=given),
    "preview": lambda given: fastpipe.preview(fastpipe.ImageList(([], [])), seed=given),
    "verify": lambda given: fastpipe.verify(TO_TENSOR, ["a.jpg"], seed=given),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_number_in_range_is_told(name: str) -> None:
    for given in (*NO_NUMBERS, -1, *([] if name in ("images", "drawings") else [HUGE]), 10**5000):
        if name == "num_workers" and given not in (HUGE, 10**5000):
            continue  # torch says what is wrong
        if name.split()[0] in ("data_source", "dataset") and hasattr(given, "__len__"):
            continue  # data
        with pytest.raises(FastpipeError, match=f"{name.split()[0][:3]}.*=.*: give "):
            CALLS[name](given)


@pytest.mark.parametrize("given", [*NO_NUMBERS, None, True])
@pytest.mark.parametrize("name", SEEDED)
def test_a_seed_that_is_no_integer_is_told(name: str, given: Any) -> None:
    with pytest.raises(FastpipeError, match=r"seed=.*: give an integer"):
        SEEDED[name](given)


@pytest.mark.parametrize("name", SEEDED)
def test_any_integer_is_a_seed(name: str) -> None:
    if name not in ("preview", "verify"):
        for given in (-3, HUGE, np.int64(7)):
            assert SEEDED[name](given).seed == given


@pytest.mark.parametrize(
    "given", [5, -1, 1.5, float("nan"), "375x500", b"x", [1], (1.5, 2), (0, 3), (-4, 5), ("a", "b")]
)
def test_a_shape_that_is_none_is_told(given: Any) -> None:
    with pytest.raises(PlanError, match=r"shape=.*: give height and width in pixels"):
        fastpipe.explain(TO_TENSOR, shape=given)


@pytest.mark.parametrize("given", [(30, 40), [30, 40], (np.int64(30), np.int64(40)), ImageShape(30, 40)])
def test_height_and_width_are_a_shape(given: Any) -> None:
    assert fastpipe.explain(TO_TENSOR, shape=given).shape == (30, 40)


@pytest.mark.parametrize("given", [None, 1.5, float("nan"), "3", ["a"], [1.5], [5], -1, 0])
def test_indices_that_are_none_are_told(given: Any) -> None:
    dataset = fastpipe.SampleDataset(lambda index: ("a.jpg", index), 3)
    with pytest.raises(FastpipeError, match=r"indices=.*: (give|there is no sample 5)"):
        fastpipe.preview(dataset, given)


SUBJECTS: dict[str, Callable[[Any, Path], object]] = {
    "subject of explain": lambda given, _: fastpipe.explain(given),
    "subject of doctor": lambda given, _: fastpipe.doctor(given),
    "source of check": lambda given, _: fastpipe.check(given),
    "source of pack": lambda given, folder: fastpipe.pack(given, folder / "packed"),
    "source of unpack": lambda given, folder: fastpipe.unpack(given, folder / "images"),
    "target of pack": lambda given, folder: fastpipe.pack(folder, given),
    "target of unpack": lambda given, folder: fastpipe.unpack(folder, given),
    "report of check": lambda given, folder: fastpipe.check(folder, report=given),
    "json of check": lambda given, folder: fastpipe.check(folder, json=given),
    "decode of check": lambda given, folder: fastpipe.check(folder, decode=given),
    "scheduler of check": lambda given, folder: fastpipe.check(folder, scheduler=given),
    "scheduler of unpack": lambda given, folder: fastpipe.unpack(folder, folder.parent / "out", scheduler=given),
    "progress of doctor": lambda given, folder: fastpipe.doctor(str(folder), progress=given),
    "states": lambda given, _: merge_states(given),
}


@pytest.mark.parametrize("given", [5, -1.5, float("nan"), True])
@pytest.mark.parametrize("name", SUBJECTS)
@pytest.mark.needs_core
def test_what_is_no_subject_or_file_is_told(name: str, given: Any, tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "a.jpg").write_bytes(PHOTO)
    with pytest.raises(FastpipeError, match=rf"{name.split()[0]}={given!r}(:| is no path: give a str)"):
        SUBJECTS[name](given, tmp_path)


@pytest.mark.parametrize("given", [*NO_NUMBERS, None, -0.1, 2, HUGE])
def test_a_share_that_is_none_is_told(given: Any) -> None:
    with pytest.raises(FastpipeError, match=r"max_bad_fraction=.*: give a share"):
        fastpipe.ImageList(([], []), max_bad_fraction=given)


@pytest.mark.parametrize("given", ["", 3, 1.5, ["a.csv"]])
def test_a_log_that_is_no_path_is_told(given: Any) -> None:
    with pytest.raises(FastpipeError, match=r"bad_files_log=.*: give the path"):
        fastpipe.ImageList(([], []), bad_files_log=given)


@pytest.mark.parametrize("given", ["x", 3, {}])
def test_a_config_that_is_none_is_told(given: Any) -> None:
    with pytest.raises(FastpipeError, match=r"config=.*: give a fastpipe.MachineConfig"):
        fastpipe.readers.read_image(PHOTO, config=given)


@pytest.mark.parametrize("given", ["", " ", 3, ["pil"]])
def test_a_reader_that_is_no_name_is_told(given: Any) -> None:
    with pytest.raises(FastpipeError, match=r"reader=.*: give a reader's name"):
        fastpipe.readers.read_image(PHOTO, reader=given)
    with pytest.raises(FastpipeError, match=r"reader=.*: give a reader's name"):
        fastpipe.ImageList(([], []), reader=given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"jppg": "core"}, "no format is called 'jppg'; there are .*jpeg, .*png, "),
        ("png=pil,jppg=pil", "no format is called 'jppg'; there are .*jpeg, .*png, "),
        ({"png": "turbojpeg"}, "the reader 'turbojpeg' reads jpeg, not png"),
        ({"jpg": "core", "jpeg": "pil"}, "reader=.* names two readers for jpeg"),
        ({3: "core"}, "reader=.*: give a dict"),
        ({"png": None}, "reader=.*: give a dict"),
    ],
)
def test_a_format_that_no_reader_reads_is_told(given: Any, told: str) -> None:
    if given == {"png": "turbojpeg"}:
        pytest.importorskip("turbojpeg", reason="needs the reader that reads JPEGs alone")
    for call in (
        lambda: fastpipe.ImageList(([], []), reader=given),
        lambda: fastpipe.load_batch([PHOTO], TO_TENSOR, reader=given),
        lambda: fastpipe.readers.read_image(PHOTO, reader=given),
    ):
        with pytest.raises(ConfigError, match=told):
            call()


def test_a_config_of_no_format_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    config = fastpipe.MachineConfig(readers={"jppg": "core"})
    for call in (
        lambda: fastpipe.ImageList(([], []), config=config),
        lambda: fastpipe.readers.read_image(PHOTO, config=config),
    ):
        with pytest.raises(ConfigError, match="no format is called 'jppg'"):
            call()
    for given in (3, {3: "core"}, {"png": None}):
        with pytest.raises(ConfigError, match=r"readers=.*: give a dict"):
            fastpipe.MachineConfig(readers=given)  # type: ignore[arg-type]
    monkeypatch.setenv("FASTPIPE_READER", "jppg=core")
    with pytest.raises(ConfigError, match="no format is called 'jppg'"):
        fastpipe.ImageList(([], []))


def test_formats_of_pillow_and_of_its_plugins_are_known() -> None:
    known = {"JPG": "core", "MPO": "core", "tif": "pil", "fpj": "core", "gif": "pil", "heif": "pil", "*": "pil"}
    assert fastpipe.ImageList(([], []), reader=known).config.reader_for("TIFF") == "pil"


def test_one_ending_is_an_ending(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    for name in ("a.jpg", "b.png", "c.svg"):
        (tmp_path / "cat" / name).write_bytes(PHOTO)
    index = fastpipe.ImageIndex.from_folder(tmp_path, extensions=".jpg", location=None)
    assert [Path(index.path(number)).name for number in range(len(index))] == ["a.jpg"]


@pytest.mark.parametrize("given", [3, None, 1.5])
@pytest.mark.needs_core
def test_what_is_no_path_is_told(given: Any, tmp_path: Path) -> None:
    for call in (
        fastpipe.ImageShards,
        fastpipe.ImageTable,
        fastpipe.Cache,
        fastpipe.ImageIndex.from_folder,
        lambda path: fastpipe.pack(tmp_path, path),
        lambda path: fastpipe.verify(TO_TENSOR, [path]),
        lambda path: fastpipe.CocoDetection(path, tmp_path),
    ):
        with pytest.raises(FastpipeError, match=rf"{given} is no path: give a str"):
            call(given)
        with pytest.raises(FastpipeError, match=r"'a\\x00b' is no path: it has a null character"):
            call("a\0b")
    with pytest.raises(FastpipeError, match="target='': give a folder"):
        fastpipe.pack(tmp_path, "")


def test_arguments_of_another_kind_are_told() -> None:
    with pytest.raises(FastpipeError, match="function='a': give a function"):
        fastpipe.SampleDataset("a", 3)  # type: ignore[arg-type]
    with pytest.raises(FastpipeError, match="labels=3: give a sequence"):
        fastpipe.ImageList((["a.jpg"], 3))
    for items in ("a.jpg", PHOTO, 3):
        with pytest.raises(FastpipeError, match=r"items=.*: give several, in a list"):
            fastpipe.load_batch(items, TO_TENSOR)  # type: ignore[arg-type]
    with pytest.raises(FastpipeError, match=r"no reader is called \['pil'\]"):
        fastpipe.readers.get_reader(["pil"])  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["3", 1.5, -1, 0, [1]])
def test_a_limit_of_pixels_that_is_none_is_told(given: Any) -> None:
    with pytest.raises(FastpipeError, match=r"max_pixels=.*: give a number of pixels"):
        fastpipe.readers.read_image(PHOTO, max_pixels=given)


@pytest.mark.parametrize("limit", [1e10, float("inf"), HUGE, 1 << 63, None])
def test_any_limit_of_pillows_holds(limit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "image.jpg"
    path.write_bytes(PHOTO)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    given: Any = limit if isinstance(limit, int) else "auto"
    expected = np.asarray(Image.open(path).convert("RGB"))
    assert np.array_equal(fastpipe.readers.read_image(path, max_pixels=given), expected)
    assert np.array_equal(np.asarray(fastpipe.open_image(path)), expected)
    image, _ = fastpipe.ImageList(([path], [0]), max_pixels=given)[0]
    assert np.array_equal(np.asarray(image), expected)
    one = T.ToTensor()(Image.open(path).convert("RGB").resize((9, 8), Image.Resampling.BILINEAR))
    assert np.array_equal(fastpipe.load_batch([path], TO_TENSOR, max_pixels=given)[0], one)


@pytest.mark.parametrize("given", [5, "x", [], True, {}])
def test_what_is_no_function_of_files_is_told(given: Any, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "0.jpg").write_bytes(PHOTO)
    with pytest.raises(TypeError, match=r"is_valid_file=.*: give a function"):
        fastpipe.ImageFolder(tmp_path, is_valid_file=given)


@pytest.mark.parametrize("given", ["", "x", 0, -1, float("nan"), float("inf"), [], (2, 0), (1, 2, 3), {}, object()])
def test_a_crop_that_is_none_is_told(given: Any) -> None:
    with pytest.raises(FastpipeError, match=r"crop=.*: give a side or \(height, width\)"):
        fastpipe.ArrayList(([], []), crop=given)


@pytest.mark.parametrize("given", [5, 1.5, b"x", [], [1], (), object(), Path("x")])
def test_endings_that_are_none_are_told(given: Any, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for made in (
        lambda: fastpipe.ArrayFolder(tmp_path, extensions=given),
        lambda: fastpipe.ImageIndex.from_folder(tmp_path, location=None, extensions=given),
    ):
        with pytest.raises(FastpipeError, match=r"extensions=.*: give endings"):
            made()


def test_a_list_of_two_numbers_is_told() -> None:
    with pytest.raises(FastpipeError, match="paths=1: give a sequence of paths"):
        fastpipe.ImageList((1, 2))  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["", "x", -1, 1.5, [], object()])
def test_a_device_that_is_none_is_told(given: Any) -> None:
    with pytest.raises(FastpipeError, match=r"device=.*: give a device of torch's"):
        fastpipe.DataLoader(fastpipe.ImageList(([], [])), device=given)
