"""The package as a whole: exports, light import, independence from torchvision, README's code."""

from __future__ import annotations

import ast
import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fastpipe

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = [
    "fastpipe",
    "fastpipe.datasets",
    "fastpipe.errors",
    "fastpipe.program",
    "fastpipe.readers",
    "fastpipe.sources",
    "fastpipe.transforms",
    "fastpipe.transforms.functional",
    "fastpipe.types",
]


@pytest.mark.parametrize("name", PACKAGES)
def test_every_exported_name_exists_and_the_list_is_sorted(name):
    module = importlib.import_module(name)
    assert list(module.__all__) == sorted(module.__all__, key=lambda n: (not n.isupper(), n)) or list(
        module.__all__
    ) == sorted(module.__all__)
    for exported in module.__all__:
        assert getattr(module, exported) is not None


MODULES = (
    *("config", "core", "datasets", "errors", "executor", "loading", "ops", "packing", "program"),
    *("readers", "rng", "sources", "tools", "transforms", "types"),
)


@pytest.mark.parametrize("name", MODULES)
def test_each_public_module_is_there_when_it_is_first_used(name: str) -> None:
    assert run_python(f"import fastpipe; print(fastpipe.{name}.__name__)") == f"fastpipe.{name}\n"
    assert name in dir(fastpipe)


def imported_for_type_checkers(package: str) -> dict[str, set[str]]:
    """The names that a package imports for type checkers alone, by their module."""
    path = ROOT.joinpath(*package.split("."), "__init__.py")
    (block,) = [
        one
        for one in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(one, ast.If) and not one.orelse and ast.unparse(one.test) == "TYPE_CHECKING"
    ]
    found: dict[str, set[str]] = {}
    for one in block.body:
        assert isinstance(one, ast.ImportFrom)
        assert one.module is not None
        if one.module != package:  # modules of the package itself
            names = {name.name for name in one.names}
            found.setdefault(one.module.removeprefix(f"{package}."), set()).update(names)
    return found


@pytest.mark.parametrize("name", ["fastpipe", "fastpipe.ops", "fastpipe.transforms", "fastpipe.transforms.functional"])
def test_lazy_names_are_where_type_checkers_find_them(name: str) -> None:
    package = importlib.import_module(name)
    assert {home: {*names} for home, names in package._HOMES.items()} == imported_for_type_checkers(name)
    for home, names in package._HOMES.items():
        module = importlib.import_module(f"{name}.{home}")
        for one in names:
            assert getattr(package, one) is getattr(module, one)


def test_the_registry_of_operations_has_all_families() -> None:
    assert int(run_python("from fastpipe.ops import REGISTRY; print(len(REGISTRY))")) == len(fastpipe.ops.REGISTRY)


def test_what_is_no_module_is_none() -> None:
    assert not hasattr(fastpipe, "recipes_of_mine")
    assert not hasattr(fastpipe.transforms, "v3")


def test_completion_shows_public_names_alone() -> None:
    modules = {"functional", "autoaugment", "transforms", "v2"}
    assert set(dir(fastpipe.transforms)) == {*fastpipe.transforms.__all__, *modules}
    for module in modules - {"v2"}:
        assert getattr(fastpipe.transforms, module).__name__ == f"fastpipe.transforms.{module}"
    for name in ("datasets", "loading", "readers", "sources", "transforms.functional"):
        package = importlib.import_module(f"fastpipe.{name}")
        assert set(dir(package)) == set(package.__all__)
        assert all(hasattr(package, exported) for exported in dir(package))


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_import_is_light_and_needs_no_torchvision():
    loaded = run_python("import fastpipe, sys; print(*sorted(sys.modules))").split()
    for heavy in ("torch", "cv2", "albumentations", "matplotlib", "torchvision", "PIL.Image"):
        assert heavy not in loaded


def test_everything_works_where_torchvision_and_albumentations_are_missing():
    run_python(
        "import sys\n"
        "for name in ('torchvision', 'albumentations', 'matplotlib', 'imageio'):\n"
        "    sys.modules[name] = None\n"
        "import fastpipe, fastpipe.transforms, fastpipe.readers, fastpipe.datasets, fastpipe.cli\n"
        "import fastpipe.tools.bench\n"
        "from fastpipe import ImageFolder, explain, MachineConfig\n"
    )


def install(folder: Path, name: str, version: str, *files: str) -> None:
    """Writes what pip leaves of a distribution that has these files."""
    about = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    (about / "RECORD").write_text("".join(f"{file},,\n" for file in files), encoding="utf-8")
    for file in files:  # importlib_metadata, which takes the standard library's place, leaves out what isn't there
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).touch()


def test_another_projects_fastpipe_is_named_where_it_was_installed_over_this_one(tmp_path):
    shutil.copytree(ROOT / "fastpipe", tmp_path / "fastpipe", ignore=shutil.ignore_patterns("src", "__pycache__"))
    (tmp_path / "fastpipe" / "__init__.py").write_text("def create(): ...\n", encoding="utf-8")
    for code in ("from fastpipe import transforms", "import fastpipe.readers", "import fastpipe.__main__"):
        ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ran.returncode == 1
        said = ran.stderr.splitlines()[-1]
        assert said.startswith(f"ImportError: {tmp_path / 'fastpipe' / '__init__.py'} is another project's")
        assert "pip uninstall fastpipe, then install torch-fastpipe again" in said


def test_doctor_names_another_project_of_the_same_module(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    install(tmp_path, "torch-fastpipe", fastpipe.__version__, "fastpipe/__init__.py", "fastpipe/errors.py")
    doctor = importlib.import_module("fastpipe.tools.doctor.versions")
    assert "not fastpipe" not in doctor.versions_text(doctor.versions())
    install(tmp_path, "fastpipe", "0.0.1", "fastpipe/__init__.py", "fastpipe/_stream.py")
    importlib.invalidate_caches()  # which know a folder by its time
    found = doctor.versions()
    assert found["other_projects"] == ["fastpipe 0.0.1"]
    assert re.search(r"^not fastpipe +fastpipe 0\.0\.1 is another project", doctor.versions_text(found), re.MULTILINE)


def test_the_distribution_s_name_is_free_and_its_links_are_absolute():
    """``pip install fastpipe`` installs another project: nothing tells a user to run it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == "torch-fastpipe"
    assert all(url.startswith("https://") for url in project["urls"].values())
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", readme) + re.findall(r"^\[[^]]+\]: (\S+)", readme, re.MULTILINE)
    assert links
    assert all(link.startswith(("https://", "#")) for link in links)
    told = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "notebooks").glob("*.ipynb")]
    code = [path for folder in ("fastpipe", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    for path in (*told, *code, *(path for path in (ROOT / "scripts").iterdir() if path.is_file())):
        text = " ".join(path.read_text(encoding="utf-8").split())
        for line in re.findall(r"\binstall (?:-\S+ )*['\"]?fastpipe\b.{,40}", text):
            assert "another project" in line, f"{path}: {line}"


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = fastpipe.nonsense


def test_readme_python_runs(tmp_path, monkeypatch):
    """README's Python blocks, in order, on a folder made for them."""
    import numpy as np
    from PIL import Image

    for label in ("cat", "dog"):
        (tmp_path / "train" / label).mkdir(parents=True)
        for number in range(3):
            pixels = np.random.default_rng(number).integers(0, 256, (300, 400, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "train" / label / f"{number}.jpg")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 2
    namespace: dict[str, object] = {"__name__": "readme"}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
