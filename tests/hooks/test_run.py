"""``fastpipe run``: everything that a script can see of its process is as with ``python``."""

from __future__ import annotations

import ast
import json
import os
import py_compile
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import corpus
import pytest
from run_scripts import both_ways, run_python

from fastpipe.hooks.run import ScriptAsked, ask_at_once

LOOKS_AROUND = """
import __main__, sys, os
print(__name__, os.path.basename(__file__), sys.argv[1:], sys.path[0], __spec__ and __spec__.name, __package__)
print(type(__loader__).__name__, type(__builtins__).__name__, __doc__, __cached__, sorted(vars(__main__))[:9])
print(__main__.__dict__ is globals(), sys.modules["__main__"] is __main__, vars().get("__annotations__"))
print(sys.stdin.read() == "", os.getcwd(), [name for name in sys.flags])
"""


def same(plain: subprocess.CompletedProcess[str], ours: subprocess.CompletedProcess[str]) -> None:
    assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "look.py").write_text(LOOKS_AROUND)
    py_compile.compile(str(tmp_path / "look.py"), str(tmp_path / "compiled.pyc"))
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "__main__.py").write_text(LOOKS_AROUND)
    (tmp_path / "package" / "part.py").write_text("from package import __main__" + LOOKS_AROUND)
    with zipfile.ZipFile(tmp_path / "archive.pyz", "w") as archive:
        archive.writestr("__main__.py", LOOKS_AROUND)
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ["look.py", "--epochs", "3", "-q", "--check", "x"],
        ["./look.py"],
        ["compiled.pyc", "a"],
        ["package"],
        ["archive.pyz", "a"],
        ["-m", "package", "a", "--help"],
        ["-m", "package.part"],
    ],
    ids=" ".join,
)
def test_the_script_sees_what_it_sees_with_python(folder: Path, arguments: list[str]) -> None:
    plain, ours = both_ways(arguments, folder)
    assert plain.returncode == 0, plain.stderr
    same(plain, ours)


def test_a_link_to_a_script_finds_the_modules_beside_the_file(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    try:
        (folder / "elsewhere" / "link.py").symlink_to(folder / "look.py")
    except OSError:
        pytest.skip("no links on this system")
    same(*both_ways([os.path.join("elsewhere", "link.py")], folder))


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.exit(7)",
        "import sys; sys.exit('what went wrong')",
        "raise SystemExit",
        "import os; os._exit(3)",
        "def inner():\n    raise ValueError('boom')\ninner()",
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise KeyError('x') from error",
        "raise ExceptionGroup('several', [ValueError(1), TypeError(2)])" if sys.version_info >= (3, 11) else "1 / 0",
        "import sys\nsys.excepthook = lambda kind, error, trace: print(kind, trace.tb_lineno)\nraise ValueError",
        "import atexit\natexit.register(print, 'at exit')\nraise ValueError",
        "this is no Python",
        "import threading, time\nthreading.Thread(target=lambda: (time.sleep(.2), print('late'))).start()",
        "import warnings\nwarnings.warn('careful')",
        "import logging\nlogging.warning('careful')",
        "import nowhere_at_all",
        "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f))",
        "import pickle\nclass A: pass\nprint(pickle.dumps(A()), type(pickle.loads(pickle.dumps(A()))) is A)",
    ],
)
def test_ends_as_with_python(tmp_path: Path, code: str) -> None:
    (tmp_path / "script.py").write_text(code + "\n")
    same(*both_ways(["script.py"], tmp_path))


@pytest.mark.skipif(os.name == "nt", reason="signals are others")
def test_ctrl_c_ends_it_as_it_ends_python(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(60)\n")
    ended = []
    for way in ([], ["-m", "fastpipe", "run", "-q"]):
        with subprocess.Popen(
            [sys.executable, *way, "script.py"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests may run where it is ignored
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            time.sleep(1)  # until it sleeps
            process.send_signal(signal.SIGINT)
            ended.append((process.communicate(timeout=60)[1], process.returncode))
    assert ended[0] == ended[1]


def test_a_debugger_steps_through_the_script(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("x = 1\nprint('x is', x)\n")
    commands = ["-c", "break 2", "-c", "continue", "-c", "p x + 41", "-c", "continue", "-c", "quit"]
    plain, ours = both_ways(["-m", "pdb", *commands, "script.py"], tmp_path)
    assert "42" in plain.stdout
    same(plain, ours)


def test_a_profiler_and_a_tracer_see_the_script(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("def slow():\n    return sum(range(9))\nslow()\n")
    made = run_python("-m", "cProfile", "-m", "fastpipe", "run", "-q", "script.py", cwd=tmp_path)
    assert "script.py:1(slow)" in made.stdout
    made = run_python("-m", "trace", "--count", "--missing", "-C", "counts", "--module", "fastpipe", "run", "-q",
                      "script.py", cwd=tmp_path)  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "counts" / "script.cover").exists()


def test_nothing_heavy_is_imported_for_a_script_that_needs_nothing(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import sys\n"
        "print([n for n in ('torch', 'numpy', 'PIL', 'torchvision', 'cv2', 'albumentations') if n in sys.modules])\n"
    )
    assert run_python("-m", "fastpipe", "run", "-q", "script.py", cwd=tmp_path).stdout == "[]\n"


_NOT_NEEDED = {"click", "cv2", "filelock", "pandas", "pydantic", "rich", "sqlite3", "typer"}


@pytest.mark.parametrize("options", [["-q"], ["-q", "--check", "0"]], ids=" ".join)
@pytest.mark.needs_core
def test_images_need_no_further_library(photos: Path, options: list[str]) -> None:
    (photos / "script.py").write_text(
        f"{SCRIPT_OF_IMAGES}\nprint(sorted({{name.partition('.')[0] for name in sys.modules}}))"
    )
    plain, ours = (
        set(ast.literal_eval(made.stdout.splitlines()[-1])) for made in both_ways(["script.py"], photos, options)
    )
    assert "fastpipe" in ours
    assert not (ours - plain) & _NOT_NEEDED


class TestACommandLineThatIsAsItShouldBe:
    """It is read before the command line's own libraries are imported, and says the same."""

    @pytest.mark.parametrize(
        "words",
        [
            ["script.py"],
            ["script.py", "--check", "3", "-q"],
            ["-q", "script.py", "-m"],
            ["--quiet", "--check", "7", "script.py", "--", "-x"],
            ["-m", "package", "a"],
            ["--module", "package.part", "--check", "0"],
            ["--report-on-signal", "script.py"],
        ],
        ids=" ".join,
    )
    def test_it_is_what_the_command_makes_of_it(
        self, words: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from fastpipe.cli.app import app

        (folder / "script.py").touch()
        monkeypatch.chdir(folder)
        with pytest.raises(ScriptAsked) as known:
            app(args=["run", *words], standalone_mode=False)
        with pytest.raises(ScriptAsked) as asked:
            ask_at_once(["run", *words])
        defaults = {"check": 2, "report_to": None, "quiet": False, "report_on_signal": False}
        assert asked.value.script == known.value.script
        assert {**defaults, **asked.value.options} == {**defaults, **known.value.options}

    @pytest.mark.parametrize(
        "words",
        [
            [],
            ["doctor"],
            ["run"],
            ["run", "-q"],
            ["run", "--help"],
            ["run", "--check", "-1", "x.py"],
            ["run", "--check"],
            ["run", "--report", "x.json", "x.py"],
            ["run", "-mq", "x"],
            ["run", "--", "x.py"],
        ],
        ids=" ".join,
    )
    def test_any_other_is_for_the_command(self, words: list[str]) -> None:
        ask_at_once(words)


SCRIPT_OF_IMAGES = """
import glob, sys
from torchvision_here import torchvision
import torch
from PIL import Image
from torchvision import transforms as T
torch.manual_seed(0)
transform = T.Compose([T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.ToTensor()])
for path in sorted(glob.glob("*.jpg")) * 3:
    print(float(transform(Image.open(path).convert("RGB")).sum()))
print(torch.rand(1))
"""


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number in range(5):
        (tmp_path / f"{number}.jpg").write_bytes(corpus.jpeg(60 + number, 80, "444" if number % 2 else "420", number))
    (tmp_path / "script.py").write_text(SCRIPT_OF_IMAGES)
    return tmp_path


def test_samples_are_the_same_and_the_report_says_what_was_accelerated(photos: Path) -> None:
    plain, ours = both_ways(["script.py"], photos, ["--report", "report.json"])
    assert plain.returncode == 0, plain.stderr
    assert ours.stdout == plain.stdout
    assert "Compose(RandomResizedCrop, RandomHorizontalFlip, ToTensor)" in ours.stderr
    rows = json.loads((photos / "report.json").read_text())["sites"]
    row = next(row for row in rows if row["name"].startswith("Compose("))
    assert (row["images"], row["checked"], row["differed"]) == (15, 2, 0)
    assert row["now_ms"] > 0
    page = run_python("-m", "fastpipe", "run", "-q", "--report", "report.html", "script.py", cwd=photos)
    assert page.stderr == ""
    assert "RandomResizedCrop" in (photos / "report.html").read_text()


def test_only_the_first_rank_prints_and_each_writes_a_report_of_its_own(photos: Path) -> None:
    command = ["-m", "fastpipe", "run", "--report", "report.json", "script.py"]
    first = run_python(*command, cwd=photos, RANK="0")
    second = run_python(*command, cwd=photos, RANK="1")
    assert "RandomResizedCrop" in first.stderr
    assert second.stderr == ""
    assert sorted(path.name for path in photos.glob("report*")) == ["report.json", "report.rank1.json"]


@pytest.mark.skipif(os.name == "nt", reason="no such signal")
def test_a_signal_has_it_report_while_it_runs(photos: Path) -> None:
    code = SCRIPT_OF_IMAGES + "print('made', flush=True)\nimport time\nfor _ in range(600):\n    time.sleep(0.1)\n"
    (photos / "script.py").write_text(code)
    path = os.pathsep.join([str(Path(corpus.__file__).parent), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [sys.executable, "-m", "fastpipe", "run", "--report-on-signal", "script.py"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=photos, env={**os.environ, "PYTHONPATH": path},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        while process.stdout.readline() != "made\n":
            assert process.poll() is None, process.stderr.read()
        process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + 60
        while "RandomResizedCrop" not in process.stderr.readline():
            assert time.monotonic() < deadline
        process.kill()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.py"], ["nowhere.py", "-m"]),
        (["--report", "report.txt", "script.py"], ["report.txt", ".json"]),
        (["--report", os.path.join("no", "place.json"), "script.py"], ["place.json", "--report"]),
    ],
)
def test_mistakes_are_told_in_a_line_before_anything_runs(
    tmp_path: Path, arguments: list[str], words: list[str]
) -> None:
    (tmp_path / "script.py").write_text("print('ran')")
    made = run_python("-m", "fastpipe", "run", *arguments, cwd=tmp_path)
    assert (made.returncode, made.stdout) == (2, "")
    assert made.stderr.count("\n") == 1
    assert all(word in made.stderr for word in words)
