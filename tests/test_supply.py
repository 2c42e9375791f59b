"""Dependencies of fastpipe: versions that are refused, versions that are told, packages that are missing."""

from __future__ import annotations

import ast
import importlib
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import fastpipe
from fastpipe import readers
from fastpipe.cli.app import app
from fastpipe.errors import DecodeError, FastpipeError, UnsupportedRequestError
from fastpipe.readers import registry, versions
from fastpipe.readers.defects import DEFECTS, Defect, defects_among
from fastpipe.tools.torchvision_mirror import import_torchvision
from fastpipe.transforms import InterpolationMode, functional
from fastpipe.transforms import functional as F
from fastpipe.types import Box, DecodeRequest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Callable[..., readers.Reader]:
    """Has a reader loaded anew, made of other versions of its libraries; gives it."""
    loaded = dict(registry._loaded)
    monkeypatch.setattr(registry, "_loaded", loaded)
    real = versions.libraries_of

    def load(name: str, **others: str) -> readers.Reader:
        changed = {library.replace("_", "-"): version for library, version in others.items()}

        def libraries_of(reader: readers.Reader) -> dict[str, str]:
            return real(reader) | (changed if reader.name == name else {})

        for module in (registry, versions):
            monkeypatch.setattr(module, "libraries_of", libraries_of)
        loaded.pop(name, None)
        return readers.get_reader(name)

    return load


def needs(name: str) -> None:
    if name not in readers.available_readers():
        pytest.skip(f"the reader {name!r} doesn't load here")


def names_of(defect: Defect) -> str:
    what = "regions" if defect.regions else min(defect.formats)
    return f"{defect.reader}-{what}-{defect.library}-{defect.fixed}"


@pytest.mark.parametrize("defect", DEFECTS, ids=names_of)
def test_a_row_is_whole(defect: Defect) -> None:
    assert defect.reader in registry._BUILT_IN
    assert defect.link.startswith("https://")
    assert defect.concerns(defect.since) or defect.since == "0"
    assert not defect.concerns(defect.fixed)
    assert not defect.concerns(f"{defect.fixed}.1")
    assert not defect.concerns("")
    assert not defect.concerns("unknown")
    for part in (*defect.formats, defect.library, defect.reason, defect.link, f"install {defect.fixed} or later"):
        assert part in str(defect)


def test_versions_are_compared_as_numbers() -> None:
    row = next(row for row in DEFECTS if row.reader == "cv2" and "JPEG" in row.formats)
    assert [row.concerns(version) for version in ("4.9.0", "4.10.0", "4.11.0", "4.12.0", "5.0.0", "4.12")] == [
        *(True, True, True, False, False, False)
    ]
    assert [one.reader for one in defects_among("turbojpeg", {"libjpeg-turbo": "2.1.90"})] == ["turbojpeg"]
    assert defects_among("turbojpeg", {"libjpeg-turbo": "2.1.92"}) == ()
    assert defects_among("turbojpeg", {}) == ()
    assert defects_among("simplejpeg", {"libjpeg-turbo": "2.0.2"}) == ()


def test_formats_are_refused(pretend: Callable[..., readers.Reader]) -> None:
    cv2 = pretend("cv2", opencv="4.11.0")
    assert cv2.capabilities.formats == {"PNG", "WEBP"}
    assert [defect.library for defect in cv2.defects] == ["opencv"]
    for name, taken in (("jpeg-420", False), ("mpo", False), ("png-rgb", True)):
        data = corpus.files()[name]
        assert cv2.accepts(readers.parse_header(data)) == taken
        np.testing.assert_array_equal(readers.read_image(data, reader="cv2"), corpus.reference(name))
    assert readers.reader_status()["cv2"].defects == cv2.defects
    assert "JPEG" in pretend("cv2", opencv="4.12.0").capabilities.formats


def test_regions_are_refused(pretend: Callable[..., readers.Reader]) -> None:
    needs("turbojpeg")
    turbo = pretend("turbojpeg", libjpeg_turbo="2.1.91")
    assert turbo.capabilities.formats == {"JPEG", "MPO"}
    assert not turbo.capabilities.regions
    data = corpus.files()["jpeg-420"]
    request = DecodeRequest(Box(16, 32, 20, 30))
    resolved = turbo.resolve(readers.parse_header(data), request)
    assert resolved.box is None
    np.testing.assert_array_equal(turbo.decode(data, resolved), corpus.reference("jpeg-420"))
    with pytest.raises(UnsupportedRequestError):
        turbo.decode(data, request)
    part = readers.read_image(data, reader="turbojpeg", region=(16, 32, 20, 30))
    np.testing.assert_array_equal(part, corpus.reference("jpeg-420")[16:36, 32:62])
    assert pretend("turbojpeg", libjpeg_turbo="2.1.92").capabilities.regions


def test_pillow_refuses_with_the_reason(pretend: Callable[..., readers.Reader]) -> None:
    pretend("pil", pillow="12.1.1")
    head = b"8BPS\0\1" + bytes(6) + b"\0\3" + bytes((0, 0, 0, 4)) * 2 + b"\0\x08\0\3"
    psd = head + bytes(12) + b"\0\0" + bytes(48)
    with pytest.raises(DecodeError, match=r"PSD with pillow before 12\.2: .*CVE-2026-25990.*install 12\.2 or later"):
        readers.read_image(psd)
    np.testing.assert_array_equal(readers.read_image(corpus.files()["gif"]), corpus.reference("gif"))
    pretend("pil", pillow="12.2.0")
    assert readers.read_image(psd).shape == (4, 4, 3)


def test_doctor_tells_what_is_refused(pretend: Callable[..., readers.Reader], tmp_path: Path) -> None:
    pretend("cv2", opencv="4.11.0")
    said = CliRunner().invoke(app, ["doctor", "--versions"]).output
    assert re.search(r"^reader cv2 +opencv 4\.11\.0, ", said, re.MULTILINE)
    assert re.search(r"^not by cv2 +JPEG, MPO with opencv before 4\.12: .*CVE-2025-53644", said, re.MULTILINE)
    CliRunner().invoke(app, ["doctor", "--versions", "--quiet", "--json", str(tmp_path / "versions.json")])
    found = json.loads((tmp_path / "versions.json").read_text(encoding="utf-8"))
    assert [text[:22] for text in found["refused"]["cv2"]] == ["JPEG, MPO with opencv "]


def test_bench_tells_what_is_refused(pretend: Callable[..., readers.Reader], tmp_path: Path) -> None:
    (tmp_path / "photos/a").mkdir(parents=True)
    (tmp_path / "photos/a/1.jpg").write_bytes(corpus.jpeg(40, 50))
    pretend("cv2", opencv="4.11.0")
    few = [str(tmp_path / "photos"), "--rounds", "1", "--workers", "0"]
    done = CliRunner().invoke(app, ["bench", *few, "--readers", "pil,cv2", "--json", str(tmp_path / "bench.json")])
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "cv2 doesn't decode JPEG, MPO with opencv before 4.12: " in said
    record = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))
    assert any(note.startswith("cv2 doesn't decode JPEG") for note in record["notes"])
    chosen = CliRunner().invoke(app, ["configure", "--set", "jpeg=cv2"])
    assert "not jpeg; not JPEG, MPO with opencv before 4.12: " in str(chosen.exception)
    alone = CliRunner().invoke(app, ["bench", *few, "--readers", "cv2"])
    assert isinstance(alone.exception, UnsupportedRequestError)
    assert "none of the readers cv2 decodes jpeg images; cv2 doesn't decode JPEG, MPO" in str(alone.exception)


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


@pytest.mark.parametrize("reader", ["cv2", "pil", "simplejpeg", "turbojpeg"])
def test_the_version_of_libjpeg_turbo_is_told(reader: str) -> None:
    needs(reader)
    found = registry.bundled_libraries()[reader]
    if "libjpeg" in found or (sys.platform != "linux" and "libjpeg-turbo" not in found):
        pytest.skip("another libjpeg, or one that can't be looked into here")
    assert re.fullmatch(r"\d+(\.\d+)+", found["libjpeg-turbo"])
    said = CliRunner().invoke(app, ["doctor", "--versions"]).output
    line = next(line for line in said.splitlines() if re.match(rf"reader {reader} ", line))
    assert f"libjpeg-turbo {found['libjpeg-turbo']}" in line


def test_a_version_is_read_from_a_library(tmp_path: Path) -> None:
    texts = {"3.0.4": b"..libjpeg-turbo version 3.0.4 (build 20240916)\0", "1": b"..LIBJPEGTURBO_6.2\0", "": b"libpng"}
    for version, text in texts.items():
        (tmp_path / "lib.so").write_bytes(bytes(5000) + text + bytes(50))
        assert versions._turbo_version([tmp_path / "none.so", tmp_path / "lib.so"]) == version


# Packages that fastpipe imports where they are there. albumentations' transforms come from the user, who has it then,
# and psutil only makes a figure exact: nothing is said where they are missing.
OPTIONAL = {
    "pycocotools",
    "albumentations",
    "distributed",
    "fsspec",
    "imageio",
    "kornia_rs",
    "matplotlib",
    "prometheus_client",
    "psutil",
    "pyarrow",
    "timm",
    "torchcodec",
    "torchvision",
}
DEPENDENCIES = {re.match(r"[\w-]+", text)[0] for text in PROJECT["dependencies"]}
IMPORTED_AS = {"opencv-python-headless": "cv2", "pillow": "PIL", "kornia-rs": "kornia_rs"}


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


def _plots(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    from fastpipe.reporting.plots import check_matplotlib

    check_matplotlib()


def _doctors_plot(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    picture = importlib.import_module("fastpipe.tools.doctor.picture")
    picture.draw(*[None] * 6)


def _comparison(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    import_torchvision()


def _cluster(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    fastpipe.check(folder, scheduler="tcp://127.0.0.1:8786")


USES: dict[tuple[str, str], Callable[[pytest.MonkeyPatch, Path], Any]] = {
    ("distributed", "cluster"): _cluster,
    ("fsspec", "store"): lambda _, __: fastpipe.ImageFolder("s3://bucket/train"),
    ("imageio", "reader"): _read("imageio"),
    ("kornia_rs", "reader"): _read("kornia"),
    ("matplotlib", "plots of bench"): _plots,
    ("matplotlib", "plot of doctor"): _doctors_plot,
    ("pyarrow", "list of images"): _parquet,
    ("torchcodec", "reader"): _read("torchcodec"),
    ("torchvision", "reader"): _read("torchvision"),
    ("torchvision", "comparison"): _comparison,
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
