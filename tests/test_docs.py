"""The Python in the documentation runs, from the first block of a page to its last.

A page's blocks run in order and share their names, in a folder with photos in ``train/cat``, ``train/dog`` and
``val/…``. A page that says ``<!-- sections run apart -->`` is run section by section (each behind what stands before
the first one), and a section whose libraries aren't installed is skipped. A block with a title is a file that the page
tells its reader to write: it is written, not run.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import itertools
import json
import re
import runpy
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing
import torchvision_here  # noqa: F401  (pages import torchvision, also beside a torch without CUDA)

import fastpipe
from fastpipe.tools.bench.samples import encode, photo

DOCS = Path(__file__).resolve().parents[1] / "docs"
APART = "<!-- sections run apart -->"
FENCE = re.compile(r'^( *)```python(?: +title="([^"]+)")?\n(.*?)^ *```', re.DOTALL | re.MULTILINE)
WRITTEN = [DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
FOR_WORKERS = (
    *("CONTRIBUTING.md", "RELEASING.md", "fastpipe/README.md", "fastpipe/core/README.md", "tests/fuzz/README.md"),
)
"""Pages for whoever works on fastpipe."""
PARTS = {"train/cat": 8, "train/dog": 8, "val/cat": 2, "val/dog": 2}


def sections(text: str) -> Iterator[tuple[str, str]]:
    """``(heading, text)`` of each part of a page; what stands before the first heading has none."""
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    yield "", parts[0]
    yield from zip(parts[1::2], parts[2::2], strict=True)


def cases() -> Iterator[Any]:
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(DOCS).as_posix()
        if APART not in text:
            if runs(text):
                yield pytest.param(text, id=name)
            continue
        (_, opening), *rest = sections(text)
        yield from (pytest.param(opening + part, id=f"{name}: {head}") for head, part in rest if runs(part))


def runs(text: str) -> bool:
    return any(not title for title, _ in blocks(text))


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """``(title, code)`` of each block of Python."""
    for indent, title, code in FENCE.findall(text):
        yield title, re.sub(rf"^{indent}", "", code, flags=re.MULTILINE)


def skip_without_libraries(code: str) -> None:
    for node in ast.walk(ast.parse(code)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        packages = {name.partition(".")[0] for name in names}
        for name in packages | ({"accelerate"} if "transformers" in packages else set()):  # its Trainer needs that
            if name not in sys.modules and importlib.util.find_spec(name) is None:
                pytest.skip(f"{name} isn't installed")
            if name in ("torchvision", "timm"):  # timm imports torchvision
                import torchvision_here  # noqa: F401  # makes it importable beside a CPU-only torch


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("photos")
    for folder, count in PARTS.items():
        (root / folder).mkdir(parents=True)
        for number in range(count):
            data = encode(photo(number, *((150, 200) if number % 2 else (231, 187))), "jpeg-420")
            (root / folder / f"{number}.jpg").write_bytes(data)
    return root


@pytest.fixture
def _here(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the photos, and workers that know what the page defines."""
    for part in photos.iterdir():
        (tmp_path / part.name).symlink_to(part, target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    # A block isn't a module that a worker could import: only a fork has its classes.
    before = torch.multiprocessing.get_start_method(allow_none=True)
    torch.multiprocessing.set_start_method("fork", force=True)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.multiprocessing.set_start_method(before, force=True)


@pytest.mark.slow
@pytest.mark.needs_fork
@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize("text", list(cases()))
def test_page_runs(text, monkeypatch):
    for _, code in blocks(text):
        skip_without_libraries(code)
    # Libraries look for others by name, and this folder's `datasets` isn't the one that they mean.
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if Path(folder).resolve() != DOCS.parent / "tests"])
    page = types.ModuleType("docs_page")
    monkeypatch.setitem(sys.modules, "docs_page", page)
    for number, (title, code) in enumerate(blocks(text)):
        if title:
            Path(title).write_text(code, encoding="utf-8")
        else:
            exec(compile(code, f"block {number}", "exec", dont_inherit=True), page.__dict__)


@pytest.mark.slow
@pytest.mark.needs_fork
@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch was built without torch.distributed")
@pytest.mark.usefixtures("_here")
def test_the_script_for_several_gpus_runs_on_two_ranks():
    text = (DOCS / "several_gpus.md").read_text(encoding="utf-8")
    for title, code in blocks(text):
        if title:
            Path(title).write_text(code, encoding="utf-8")
    found = re.search(r"^torchrun (--standalone.*)$", text, re.MULTILINE)
    assert found
    command = [sys.executable, "-m", "torch.distributed.run", *found[1].split()]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    # 16 photos are 8 a rank, in batches of 4; only rank 0 prints.
    assert [line.partition(", loss")[0] for line in ran.stdout.splitlines()] == [
        "epoch 0: 2 batches a rank",
        "epoch 1: 2 batches a rank",
    ]


def benchmark(name: str) -> types.ModuleType:
    """A script of benchmarks/ as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS.parent / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look there for their module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def figures():
    return benchmark("figures")


@pytest.fixture(scope="module")
def pages(figures):  # which it imports
    return benchmark("pages")


@pytest.fixture(scope="module")
def outputs():
    return benchmark("outputs")


def test_no_output_and_no_figure_that_is_shown_is_older_than_this_version(figures, outputs):
    remedy = "is of another version: run benchmarks/outputs.py (pages.py --take for figures)"
    shown = [(path.name, output) for path in WRITTEN for output in outputs.shown(path.read_text("utf-8"))]
    assert shown
    for name, output in shown:
        assert output.version == fastpipe.__version__, f"{name}: the output of {output.command} {remedy}"
    for name, data in figures.read().items():
        assert data["about"]["versions"]["fastpipe"] == fastpipe.__version__, f"docs/data/{name}.json {remedy}"


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_every_output_that_is_shown_says_what_made_it(path, outputs):
    """Else nobody could make it again: a block with a prompt is behind a mark of benchmarks/outputs.py."""
    text = path.read_text(encoding="utf-8")
    marked = "".join(output.text for output in outputs.shown(text))
    assert text.count("\n$ fastpipe ") == ("\n" + marked).count("\n$ fastpipe ")


@pytest.mark.needs_core
@pytest.mark.slow
def test_what_the_pages_show_of_explain_is_what_it_prints_today(outputs, tmp_path):
    outputs.make_project(tmp_path)
    shown = [output for path in WRITTEN for output in outputs.shown(path.read_text("utf-8"))]
    explained = [output for output in shown if output.command.startswith("fastpipe explain")]
    assert explained
    for output in explained:
        printed = outputs.run(output.command, tmp_path)
        assert printed == output.text, f"run benchmarks/outputs.py '{output.command}'"


def test_the_performance_page_shows_the_figures_that_are_kept(pages, figures):
    found = figures.read()
    assert set(pages.PARTS) == {*found, *pages.MISSING}
    assert (DOCS / "performance.md").read_text(encoding="utf-8") == pages.page(found)
    assert (DOCS / "images" / "speed.svg").read_text(encoding="utf-8") == pages.picture(found)
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert pages.fill(text, pages.readme_part(found)) == text, "run benchmarks/pages.py"


def test_fresh_figures_are_taken_without_paths(pages, figures, tmp_path, monkeypatch):
    data = tmp_path / "docs" / "data"
    monkeypatch.setattr(figures, "DATA", data)
    data.mkdir(parents=True)
    rounds = {"torchvision": [2500.0, 2520.0, 2480.0], "fastpipe": [1200.0, 1200.0, 1190.0]}
    epochs = {"torchvision": [2000.0, 2000.0, 2000.0], "float32": [500.0, 400.0, 500.0]}
    rows = {"train": {"rounds_us": rounds, "equal": True}, "loaders: epoch": {"rounds_us": epochs, "equal": None}}
    raw = {"rows": rows, "command": ["/home/me/photos"], "workers": 2}
    (tmp_path / "pipeline.json").write_text(json.dumps(raw), encoding="utf-8")
    assert figures.take(tmp_path, "On battery.") == ["pipeline", "loader"]
    assert "/home/me" not in (data / "pipeline.json").read_text(encoding="utf-8")
    found = figures.read()
    assert found["loader"]["rows"] == {
        "epoch": {"torchvision": {"us": 2000.0, "times": 1.0}, "float32": {"us": 500.0, "times": 4.0}}
    }
    assert found["loader"]["workers"] == 2
    assert {"torch", "torchvision", "pillow"} <= set(found["loader"]["about"]["versions"])
    text = pages.page({"pipeline": found["pipeline"]})
    assert "Not measured yet; `scripts/gpu PHOTOS`" in text
    assert "| train | 1.20 | 2.50 | 2.08× |" in text
    assert "On battery." in text
    assert ", 3 rounds." in text


def test_figures_of_feeds_are_shown(pages):
    rows = [
        {"feed": "torchvision", "cpus": 8, "images_per_s": 1500.0, "waited": 0.5},
        {"feed": "fastpipe", "cpus": 8, "images_per_s": 2985.0, "waited": 0.004},
    ]
    data = {"network": "resnet50", "device": "a GPU", "batch_size": 256, "resident_images_per_s": 3000.0, "rows": rows}
    text = pages.PARTS["feeds"][0](data | {"cpus_needed": {"torchvision": None, "fastpipe": 8}})
    assert "| torchvision | 8 | 1,500 | 50% | 50% |" in text
    assert "| fastpipe | 8 | 2,985 | 100% | 0% |" in text
    assert "CPUs needed for 99%: torchvision more than 8, fastpipe 8." in text


PACKAGES = [
    "fastpipe.config",
    "fastpipe.datasets",
    "fastpipe.environment",
    "fastpipe.errors",
    "fastpipe.tools.explain",
    "fastpipe.loading",
    "fastpipe.loading.samplers",
    "fastpipe.ops",
    "fastpipe.program",
    "fastpipe.readers",
    "fastpipe.rng",
    "fastpipe.sources",
    "fastpipe.tools.doctor",
    "fastpipe.tools.preview",
    "fastpipe.tools.verify",
    "fastpipe.transforms",
    "fastpipe.transforms.functional",
    "fastpipe.types",
]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_reference_has_every_public_name(package):
    pages = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "api").glob("*.md"))
    shown = set(re.findall(r"^::: (\S+)$", pages, re.MULTILINE))
    module = importlib.import_module(package)
    for name in module.__all__:
        value = getattr(module, name)
        home = getattr(value, "__module__", package)
        alone = {f"{package}.{name}", f"{home}.{name}"}
        with_its_module = home in shown and value.__doc__  # a module's page leaves out what has no docstring
        assert alone & shown or with_its_module or isinstance(value, types.ModuleType), name


def test_the_reference_s_first_page_has_the_names_of_the_package():
    text = (DOCS / "api" / "index.md").read_text(encoding="utf-8")
    assert all(f"`fastpipe.{name}`" in text for name in fastpipe.__all__)


def test_the_pages_have_at_most_24_000_words():
    """With their code, without the reference and the lines of tables."""
    words = [word for path in DOCS.glob("*.md") for word in path.read_text(encoding="utf-8").split()]
    assert sum(bool(re.search(r"\w", word)) for word in words) <= 24_000


def test_no_line_of_code_is_cut_off_on_the_site():
    """`scripts/docs_hooks.py` says how long one may be, and breaks what notebooks print."""
    pages = DOCS.rglob("*.md")
    code = [block for path in pages for block in re.findall(r"^ *```.*?^ *```", path.read_text("utf-8"), re.M | re.S)]
    for path in (DOCS.parent / "notebooks").glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code += ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) > 100
    assert not [line for block in code for line in block.splitlines() if len(line) > 90]


def test_the_site_is_built_with_warnings_as_errors():
    """mkdocs counts no warning where it is told to be quiet."""
    (command,) = re.findall(r"^exec mkdocs build .*$", (DOCS.parent / "scripts/docs").read_text("utf-8"), re.M)
    assert "--strict" in command
    assert not {"--quiet", "-q"} & {*command.split()}


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_commands_on_the_pages_exist(path):
    from fastpipe.cli.app import app

    commands = app.commands
    text = path.read_text(encoding="utf-8")
    blocks_of_any_kind = re.findall(r"^```(\w*)[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    fenced = "\n".join(block for language, block in blocks_of_any_kind if language in ("", "bash"))
    lines = re.findall(r"^(?:\$ )?fastpipe +(.+)$", fenced, re.MULTILINE) + re.findall(r"`fastpipe +([^`]+)`", text)
    for line in lines:
        words = line.partition("#")[0].split()
        if words[0].startswith("--"):
            continue  # of all commands, such as --version
        assert words[0] in commands, line
        if words[0] == "run":  # behind the script stand its own options
            words = ["run", *itertools.takewhile(lambda word: word.startswith("-"), words[1:])]
        known = {option for each in commands[words[0]].params for option in (*each.opts, *each.secondary_opts)}
        given = {word.partition("=")[0].strip("[],") for word in words if word.startswith(("-", "[-"))}
        assert given - {"-"} <= known | {"--help"}, line


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.relative_to(DOCS).as_posix())
def test_links_of_pages_lead_to_files_of_the_repository(page):
    """As they are read there; the site's own build checks the links of its pages."""
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        file = link.partition("#")[0]
        if file and "://" not in link:
            assert (page.parent / file).exists(), link


def test_links_to_notebooks_lead_to_their_pages_on_the_site():
    pytest.importorskip("griffe", reason="the site's hooks import griffe")
    hooks = runpy.run_path(str(DOCS.parent / "scripts" / "docs_hooks.py"))
    linked = set()
    for page in DOCS.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        notebooks = re.findall(r"\]\(\.\./notebooks/(\w+)\.ipynb\)", text)
        built = hooks["on_page_markdown"](text)
        assert ".ipynb" not in re.findall(r"\]\(([^)]*)\)", built)
        assert re.findall(r"\]\(notebooks/(\w+)\.md\)", built) == notebooks
        linked |= set(notebooks)
    assert len(linked) >= 5


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", *FOR_WORKERS])
def test_links_outside_of_the_site_lead_somewhere(name):
    text = (DOCS.parent / name).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text) + re.findall(r"^\[[^]]+\]: (\S+)", text, re.MULTILINE)
    for named in set(re.findall(r"\]\[([^]]+)\]", text)):
        assert re.search(rf"^\[{re.escape(named)}\]: ", text, re.MULTILINE | re.IGNORECASE), named
    for absolute in links:
        link = re.sub(
            r"^https://(?:raw\.githubusercontent|github)\.com/torch-fastpipe/torch-fastpipe/(?:blob/)?main/",
            "",
            absolute,
        )
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (DOCS.parent / name).parent / file if file else DOCS.parent / name
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}, link


def test_what_doctor_is_said_to_find_it_can_find():
    code = (DOCS.parent / "fastpipe" / "tools" / "doctor" / "findings.py").read_text(encoding="utf-8")
    for name in ("why_it_hangs.md", "batch_size_and_workers.md", "doctor.md"):
        text = (DOCS / name).read_text(encoding="utf-8")
        for part in re.findall(r"\*\*doctor finds\*\*(.*?)(?:\n\n|\Z)", text, re.DOTALL):
            for finding in re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", part):
                assert f'"{" ".join(finding.split())}"' in code, f"{name}: {finding}"


def test_every_environment_variable_is_on_one_page() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (DOCS.parent / "fastpipe").rglob("*.py"))
    page = (DOCS / "command_line.md").read_text(encoding="utf-8")
    clicks = {"FASTPIPE_COMPLETE"}  # with an underscore before it, for completion
    assert set(re.findall(r"FASTPIPE_[A-Z_]+", code)) | clicks == set(re.findall(r"FASTPIPE_[A-Z_]+", page))


CONTRIBUTING = DOCS.parent / "CONTRIBUTING.md"


def test_pages_for_workers_name_files_and_tests_that_are_there():
    pages = "".join((DOCS.parent / name).read_text(encoding="utf-8") for name in FOR_WORKERS)
    named = re.findall(r"`((?:tests|fastpipe|benchmarks|scripts)/[\w./]*\w)(?:::(\w+))?`", pages)
    assert len(named) > 20
    for file, test in named:
        path = DOCS.parent / file
        assert path.exists() or file.endswith("NAME.py"), file
        assert not test or f"def {test}(" in path.read_text(encoding="utf-8"), f"{file}::{test}"


def test_the_map_has_each_room_once():
    map_ = re.search(r"^fastpipe/\n(.*?)^tests/", CONTRIBUTING.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    rooms = re.findall(r"^  (\w+)/", map_[1], re.MULTILINE)
    there = {path.parent.name for path in (DOCS.parent / "fastpipe").glob("*/__init__.py")}
    assert sorted(rooms) == sorted(there)
    files = re.findall(r"(?<![\w/])(\w+\.py)\b", map_[1])
    found = {path.name for path in (DOCS.parent / "fastpipe").rglob("*.py")}
    assert set(files) <= found
