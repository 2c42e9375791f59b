"""fastpipe's metadata, as every pip parses it: the names of extras, the markers, and which Python is refused."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]

# What packaging takes for a version, from its first release to the current one; it then compares as versions, and
# fails where the other side is none, as the name of another extra.
_VERSION = re.compile(r"v?\d", re.IGNORECASE)
_VERSIONS = {"python_version", "python_full_version", "implementation_version", "platform_release"}
_COMPARED = re.compile(r"(\w+) *(==|!=|<=|>=|<|>|~=|in|not in) *['\"]([^'\"]*)['\"]")


def requirements() -> list[str]:
    """The lines ``Requires-Dist`` of a build of this pyproject.toml."""
    lines = list(PROJECT["dependencies"])
    for extra, texts in EXTRAS.items():
        for text in texts:
            asked, _, marker = (part.strip() for part in text.partition(";"))
            also = f"({marker}) and " if marker else ""
            lines.append(f'{asked}; {also}extra == "{extra}"')
    return lines


def built() -> list[str]:
    """The lines ``Requires-Dist`` that were built here; none where fastpipe isn't installed, or another checkout."""
    try:
        found = metadata.distribution("torch-fastpipe")
    except metadata.PackageNotFoundError:
        return []
    return (found.requires or []) if set(found.metadata.get_all("Provides-Extra") or ()) == set(EXTRAS) else []


def test_no_extra_and_no_marker_parses_as_a_version() -> None:
    assert not [extra for extra in EXTRAS if _VERSION.match(extra)]
    compared = [found.groups() for line in [*requirements(), *built()] for found in _COMPARED.finditer(line)]
    assert len(compared) > 30
    assert not [one for one in compared if one[0] not in _VERSIONS and _VERSION.match(one[2])]


def test_the_rule_finds_the_names_that_old_pips_fail_for() -> None:
    for name in ("v2", "2", "V1", "1.0", "2024", "3d"):
        assert _VERSION.match(name), name
    for name in ("torchvision", "coco", "x86_64", "arm64", "win32", "AMD64", "dev"):
        assert not _VERSION.match(name), name


def _parsers() -> list[Any]:
    """The packages ``packaging`` at hand: pip's own, setuptools's and the installed one."""
    names = ("packaging", "pip._vendor.packaging", "setuptools._vendor.packaging", "pkg_resources.extern.packaging")
    found = []
    for name in names:
        try:
            found.append((importlib.import_module(f"{name}.requirements"), importlib.import_module(f"{name}.markers")))
        except (ImportError, AssertionError):  # setuptools refuses to be imported once Python's own distutils is there
            continue
    return found


def test_every_packaging_at_hand_evaluates_every_marker() -> None:
    lines = [*requirements(), *built()]
    parsers = _parsers()
    if not parsers:
        pytest.skip("there is neither packaging nor pip here")
    for reader, markers in parsers:
        undefined = markers.UndefinedEnvironmentName
        for line in lines:
            parsed = reader.Requirement(line)
            asked = re.search(r'extra == "([^"]+)"', line)
            for extra in ("", *EXTRAS):
                wanted = asked is None or asked[1] == extra
                try:
                    holds = parsed.marker is None or parsed.marker.evaluate({"extra": extra})
                except undefined:
                    pytest.fail(f"{line}: {parsed.marker}")
                assert wanted or not holds, (line, extra)


_PYTHONS = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"


def _other_pythons() -> list[Path]:
    found = [one / "bin" / "python" for one in sorted(_PYTHONS.glob("3.*")) if (one / "bin" / "python").exists()]
    return [one for one in found if int(one.parents[1].name.split(".")[1]) >= 7]


def _wheel(folder: Path) -> Path:
    """A wheel with fastpipe's requirements, and nothing else; for any Python, so that old pips look at all of them."""
    lines = [
        "Metadata-Version: 2.1",
        "Name: torch-fastpipe",
        "Version: 1",
        *(f"Provides-Extra: {one}" for one in EXTRAS),
    ]
    lines += [f"Requires-Dist: {one}" for one in requirements()]
    file = folder / "torch_fastpipe-1-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("torch_fastpipe-1.dist-info/METADATA", "\n".join(lines) + "\n")
        archive.writestr("torch_fastpipe-1.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("torch_fastpipe-1.dist-info/RECORD", "")
    return file


@pytest.mark.slow
@pytest.mark.skipif(not _other_pythons(), reason="no pyenv with other Pythons here")
@pytest.mark.parametrize("python", _other_pythons(), ids=lambda one: one.parents[1].name)
@pytest.mark.parametrize("extras", ["", "[torchvision,parquet]"], ids=["alone", "with-extras"])
def test_the_pip_that_came_with_a_python_resolves_the_requirements(python: Path, extras: str, tmp_path: Path) -> None:
    """Without an index it then misses the first requirement: its own failures come before that."""
    asked = f"{_wheel(tmp_path)}{extras}"
    command = [python, "-I", "-m", "pip", "download", "--no-index", "--dest", tmp_path / "out", asked]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    done = subprocess.run(command, capture_output=True, text=True, env=clean, check=False)
    if "No module named pip" in done.stderr:
        pytest.skip("this Python has no pip")
    assert "Traceback" not in done.stderr, done.stderr
    assert re.search(r"ERROR: (No matching distribution found for|Cannot install) ", done.stderr), done.stderr


@pytest.mark.slow
def test_a_python_that_is_too_old_imports_the_build_backend() -> None:
    """pip asks the backend for metadata, and then says that fastpipe requires a different Python."""
    old = [one for one in _other_pythons() if one.parents[1].name.startswith(("3.8.", "3.9."))]
    if not old:
        pytest.skip("no Python before 3.10 here")
    code = (
        "import sys, types\n"
        "package = types.ModuleType('scikit_build_core'); package.build = types.ModuleType('build')\n"
        "sys.modules.update({'scikit_build_core': package, 'scikit_build_core.build': package.build})\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "import build_backend; print(len(build_backend.__all__))\n"
    )
    for python in old:
        done = subprocess.run([python, "-I", "-c", code, ROOT / "scripts"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "6\n"), done.stderr
