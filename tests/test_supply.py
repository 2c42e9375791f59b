"""Dependencies of fastpipe: versions that are refused, versions that are told, packages that are missing."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image

import fastpipe
from fastpipe import readers
from fastpipe.cli.app import app
from fastpipe.errors import DecodeError, FastpipeError
from fastpipe.readers import registry
from fastpipe.tools.import_torchvision import import_torchvision
from fastpipe.transforms import InterpolationMode, functional
from fastpipe.transforms import functional as F

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def needs(name: str) -> None:
    if name not in readers.available_readers():
        pytest.skip(f"the reader {name!r} doesn't load here")


@pytest.fixture
def _clean_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in ("_loaded", "_failed"):
        monkeypatch.setattr(registry, table, {})


@pytest.mark.parametrize(("version", "loads"), [("4.9.0", False), ("4.11.0", False), ("4.12.0", True), ("5.0", True)])
@pytest.mark.usefixtures("_clean_registry")
def test_an_opencv_that_writes_where_it_should_not_is_no_reader(
    monkeypatch: pytest.MonkeyPatch, version: str, loads: bool
) -> None:
    cv2 = pytest.importorskip("cv2", reason="OpenCV isn't installed")
    if loads and not hasattr(cv2, "IMREAD_COLOR_RGB"):
        pytest.skip("the reader takes a flag that this OpenCV lacks, and every one that it loads with has")
    monkeypatch.setattr(cv2, "__version__", version)
    status = readers.reader_status()["cv2"]
    assert status.available == loads
    assert loads or "CVE-2025-53644); install 4.12 or later" in status.reason
    for name in ("jpeg-420", "webp"):
        np.testing.assert_array_equal(readers.read_image(corpus.files()[name]), corpus.reference(name))


@pytest.mark.parametrize(("version", "refused"), [("10.2.0", False), ("12.1.1", True), ("12.2.0", False)])
@pytest.mark.usefixtures("_clean_registry")
def test_pillow_refuses_with_the_reason(monkeypatch: pytest.MonkeyPatch, version: str, refused: bool) -> None:
    monkeypatch.setattr("PIL.__version__", version)
    head = b"8BPS\0\1" + bytes(6) + b"\0\3" + bytes((0, 0, 0, 4)) * 2 + b"\0\x08\0\3"
    psd = head + bytes(12) + b"\0\0" + bytes(48)
    said = CliRunner().invoke(app, ["doctor", "--versions"]).output
    assert bool(re.search(r"^not by pil +PSD with pillow before 12\.2: .*CVE-2026-25990", said, re.M)) == refused
    if refused:
        with pytest.raises(
            DecodeError, match=r"PSD with pillow before 12\.2: .*CVE-2026-25990.*install 12\.2 or later"
        ):
            readers.read_image(psd)
    else:
        assert readers.read_image(psd).shape == (4, 4, 3)
    np.testing.assert_array_equal(readers.read_image(corpus.files()["gif"]), corpus.reference("gif"))


def test_opencv_does_not_warp() -> None:
    """The fractions of a pixel are coarse in OpenCV 4: Pillow or the core warps, and torch or the core displaces."""
    for image in (corpus.photo(37, 50), corpus.photo(37, 50)[..., 1]):
        picture, fill = Image.fromarray(image), (7,) * (1 if image.ndim == 2 else 3)
        for name, filter in (("nearest", Image.Resampling.NEAREST), ("bilinear", Image.Resampling.BILINEAR)):
            turned = picture.rotate(17.3, filter, fillcolor=fill if image.ndim == 3 else 7)
            np.testing.assert_array_equal(
                F.rotate(image, 17.3, F.InterpolationMode(name), fill=fill), np.asarray(turned)
            )
            displacement = torch.rand((1, 37, 50, 2), generator=torch.Generator().manual_seed(1)) * 0.1 - 0.05
            for color in (None, [9], [9.5]):
                shown = F.elastic_transform(image, displacement, F.InterpolationMode(name), color).astype(int)
                planes = torch.from_numpy(np.atleast_3d(image).copy()).permute(2, 0, 1)
                expected = functional.elastic_transform(planes, displacement, InterpolationMode(name), color)
                difference = np.abs(shown - expected.permute(1, 2, 0).numpy().reshape(image.shape))
                assert difference.max() == 0


@pytest.mark.parametrize("reader", ["cv2", "pil"])
def test_the_version_of_libjpeg_turbo_is_told(reader: str) -> None:
    needs(reader)
    found = registry.bundled_libraries()[reader]
    if "libjpeg" in found or (sys.platform != "linux" and "libjpeg-turbo" not in found):
        pytest.skip("another libjpeg, or one that can't be looked into here")
    assert re.fullmatch(r"\d+(\.\d+)+", found["libjpeg-turbo"])
    said = CliRunner().invoke(app, ["doctor", "--versions"]).output
    line = next(line for line in said.splitlines() if re.match(rf"reader {reader} ", line))
    assert f"libjpeg-turbo {found['libjpeg-turbo']}" in line


# Packages that fastpipe imports where they are there. albumentations' transforms come from the user, who has it then,
# and psutil only makes a figure exact: nothing is said where they are missing.
OPTIONAL = {
    "pycocotools",
    "albumentations",
    "cv2",
    "distributed",
    "fsspec",
    "imageio",
    "matplotlib",
    "prometheus_client",
    "psutil",
    "pyarrow",
    "timm",
    "torchvision",
    "turbojpeg",
}
DEPENDENCIES = {re.match(r"[\w-]+", text)[0] for text in PROJECT["dependencies"]}
IMPORTED_AS = {"opencv-python-headless": "cv2", "pillow": "PIL"}


def test_no_other_package_is_imported() -> None:
    found = set()
    for path in Path(fastpipe.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add((node.module or "").partition(".")[0])
            elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
                name = node.args[0]
                if isinstance(name, ast.Constant):
                    found.add(str(name.value).partition(".")[0])
    needed = {IMPORTED_AS.get(name, name) for name in DEPENDENCIES}
    known = needed | OPTIONAL | {"fastpipe", "IPython"} | set(sys.stdlib_module_names)
    assert found - known == set()
    assert found >= OPTIONAL


def hide(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """As if it weren't installed."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)


def _read(name: str) -> Callable[[pytest.MonkeyPatch, Path], Any]:
    def use(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        for table in ("_loaded", "_failed"):
            kept = {one: what for one, what in getattr(registry, table).items() if one != name}
            monkeypatch.setattr(registry, table, kept)
        monkeypatch.delitem(sys.modules, f"fastpipe.readers.{name}", raising=False)
        monkeypatch.delattr(readers, name, raising=False)
        readers.read_image(corpus.files()["jpeg-420"], reader=name)

    return use


def _parquet(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "list.parquet").write_bytes(b"PAR1")
    fastpipe.ImageList(folder / "list.parquet")


def _doctors_plot(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    picture = importlib.import_module("fastpipe.tools.doctor.picture")
    picture.draw(*[None] * 5)


def _comparison(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    import_torchvision()


def _cluster(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    fastpipe.check(folder, scheduler="tcp://127.0.0.1:8786")


USES: dict[tuple[str, str], Callable[[pytest.MonkeyPatch, Path], Any]] = {
    ("distributed", "cluster"): _cluster,
    ("fsspec", "store"): lambda _, __: fastpipe.ImageFolder("s3://bucket/train"),
    ("cv2", "reader"): _read("cv2"),
    ("imageio", "reader"): _read("imageio"),
    ("matplotlib", "plot of doctor"): _doctors_plot,
    ("pyarrow", "list of images"): _parquet,
    ("torchvision", "comparison"): _comparison,
    ("turbojpeg", "reader"): _read("turbojpeg"),
}


@pytest.mark.parametrize(("package", "use"), USES, ids=" ".join)
def test_a_missing_package_names_what_to_install(
    package: str, use: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hide(monkeypatch, package)
    with pytest.raises(FastpipeError) as caught:
        USES[package, use](monkeypatch, tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    assert package.partition("_")[0] in message
    named = re.search(r"pip install ([\w-]+)", message)
    assert named, message
    assert IMPORTED_AS.get(named[1], named[1]) == package
    assert any(re.match(r"[\w-]+", text)[0] == named[1] for texts in EXTRAS.values() for text in texts)


def test_every_extra_has_lower_bounds_and_agrees_with_the_others() -> None:
    bounds: dict[str, set[str]] = {}
    for text in (*PROJECT["dependencies"], *(text for texts in EXTRAS.values() for text in texts)):
        own = re.fullmatch(r"torch-fastpipe\[([\w,-]+)\]", text)
        if own is not None:
            assert set(own[1].split(",")) <= EXTRAS.keys()
            continue
        name, bound = re.match(r"([\w-]+)(?:\[\w+\])?(>=[\d.]+)", text).groups()
        bounds.setdefault(name, set()).add(bound)
    del bounds["torchvision"]  # the tests need a newer one than the readers
    assert {name: found for name, found in bounds.items() if len(found) > 1} == {}


def test_psutil_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastpipe.environment import available_memory
    from fastpipe.loading.tuning import _private_bytes

    hide(monkeypatch, "psutil")
    assert _private_bytes(1) == 0
    assert available_memory() is None or available_memory() > 0
