"""All that belongs to the whole process is as without fastpipe, as far as others can see; and where the report goes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import process_manners
import pytest
from run_scripts import both_ways, run_python, variables

POSIX = pytest.mark.skipif(os.name == "nt", reason="signals and descriptors are others")


def changed(before: dict[str, object], after: dict[str, object]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


@pytest.mark.parametrize("options", [["-q"], ["--report", "report.json"], ["--check=0", "-q"]], ids=" ".join)
def test_a_script_finds_the_process_as_python_has_it(options: list[str], tmp_path: Path) -> None:
    plain, ours = (json.loads(made.stdout) for made in both_ways([process_manners.__file__], tmp_path, options))
    assert changed(plain, ours) == {"finders"}
    assert ours["finders"] == ["fastpipe.hooks.imports.ImportHook", *plain["finders"]]


IN_CODE = """
import json, os, sys
from torchvision_here import torchvision
import torch.utils.data
from PIL import Image
from process_manners import manners
Image.init()
transforms = torchvision.transforms
steps = [transforms.RandomResizedCrop(20), transforms.ColorJitter(0.1), transforms.ToTensor()]
loader = torch.utils.data.DataLoader(torchvision.datasets.ImageFolder(".", transforms.Compose(steps)), 2)
list(loader)
before = manners()
import fastpipe
fastpipe.install()
installed = manners()
Image.open(sys.argv[1]).convert("RGB").resize((20, 30)).tobytes()
transforms.ToTensor()(Image.open(sys.argv[1]))
list(loader)
used = manners()
child = os.fork() if hasattr(os, "fork") else 1
if child == 0:
    os._exit(0)
hasattr(os, "fork") and os.waitpid(child, 0)
forked = manners()
fastpipe.uninstall()
print(json.dumps([before, installed, used, forked, manners()]))
"""


def test_install_takes_nothing_that_others_can_look_at(tmp_path: Path) -> None:
    from PIL import Image

    (tmp_path / "class").mkdir()
    for name in ("photo.jpg", "other.jpg"):
        Image.linear_gradient("L").convert("RGB").save(tmp_path / "class" / name)
    (tmp_path / "script.py").write_text(IN_CODE)
    made = run_python("script.py", os.path.join("class", "photo.jpg"), cwd=tmp_path)
    before, installed, used, forked, after = json.loads(made.stdout)
    assert changed(before, installed) == changed(before, used) == {"finders"}
    assert changed(before, forked) <= {"finders", "open files"}  # a child's account has a folder, with a lock
    assert changed(before, after) <= {"open files"}


@pytest.mark.parametrize(
    "code",
    [
        # what is registered later is called earlier; logging and multiprocessing register functions of their own
        """
        import atexit
        atexit.register(print, "first")
        import logging, sys
        class Last(logging.StreamHandler):
            def close(self):
                print("logging ends")
        logging.getLogger().addHandler(Last(sys.stdout))
        atexit.register(print, "second")
        atexit.register(lambda: print(sorted(vars(sys.modules["__main__"]))))
        from multiprocessing import util
        util.Finalize(None, print, ("multiprocessing ends",), exitpriority=0)
        atexit.register(print, "third")
        """,
        # hooks, as the script's last functions see them
        """
        import atexit, sys, threading
        atexit.register(lambda: print(sys.excepthook is sys.__excepthook__, threading.excepthook))
        def fail():
            raise ValueError("an error")
        fail()
        """,
        """
        import sys
        def hook(kind, error, trace):
            print(sys.excepthook is hook, kind, trace.tb_frame.f_code.co_name)
        sys.excepthook = hook
        raise ValueError("an error")
        """,
        # a method can still be chosen
        """
        import multiprocessing, os, tempfile
        if hasattr(os, "fork"):
            os.fork() or os._exit(0)
            os.wait()
        os.makedirs("own", exist_ok=True)
        os.environ["TMPDIR"] = os.environ["TEMP"] = os.environ["TMP"] = os.path.abspath("own")
        print(os.path.basename(tempfile.gettempdir()))
        multiprocessing.set_start_method("spawn")
        """,
    ],
    ids=["atexit", "hooks", "excepthook", "start method"],
)
def test_what_a_script_sets_up_works_as_with_python(code: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(textwrap.dedent(code))
    plain, ours = both_ways(["script.py"], tmp_path)
    assert plain.stdout
    assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)


# -- where the report goes

REPORT = "fastpipe: nothing was"
MADE = "print('made', flush=True)\n"


def ran(folder: Path, code: str, shell: str = "", way: str = "-m fastpipe run") -> subprocess.CompletedProcess[str]:
    """A script that has run in a shell."""
    (folder / "script.py").write_text(f"{code}\n{MADE}")
    command = f"'{sys.executable}' {way} script.py {shell}"
    return subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, cwd=folder, env=variables(), timeout=300, check=False
    )


PLACES = [
    ("", "", True),
    ("", "2>&-", False),
    ("import os\nos.close(2)\nos.write(os.open('data', os.O_CREAT | os.O_RDWR), b'1')", "", False),
    ("", ">&-", True),
    ("", "2>&- >&-", False),
    ("", "2>report.txt", True),
    ("", "2>&1", True),
    ("import io, sys\nsys.stderr = io.StringIO()", "", True),
    ("import sys\nsys.stderr = sys.stdout", "2>report.txt", True),
    ("import sys\nsys.stderr = None", "", True),
    ("import sys\nsys.stderr = sys.__stderr__ = None", "", True),
    ("import sys\nsys.stderr = open('data', 'w')", "", True),
    ("import io, sys\nsys.stderr = io.TextIOWrapper(sys.stderr.detach(), 'ascii')", "", True),
    ("import sys\nsys.stderr.close()", "", False),
    ("import os\nos.close(2)", "", False),
    ("import os\nos.close(2)\nos.write(os.open('data', os.O_CREAT | os.O_RDWR), b'1')", "2>report.txt", False),
    ("import os\nos.write(os.open('data', os.O_CREAT | os.O_RDWR), b'1')", "2>&-", False),
    ("import os\nos.dup2(os.open('data', os.O_CREAT | os.O_RDWR), 2)", "", False),
    ("import os\nos.dup2(1, 2)", "", False),
    ("import os, socket\nos.close(2)\nends = socket.socketpair()\nprint(ends[0].fileno() == 2)", "", False),
]
"""A script's last lines, the shell's redirections, and whether standard error is still there then."""


@POSIX
@pytest.mark.parametrize(
    ("code", "shell", "is_shown"),
    [*PLACES[:3], *(pytest.param(*place, marks=pytest.mark.slow) for place in PLACES[3:])],
)
def test_the_report_goes_to_standard_error_and_nowhere_else(
    code: str, shell: str, is_shown: bool, tmp_path: Path
) -> None:
    plain, ours = ran(tmp_path, code, shell, way=""), ran(tmp_path, code, shell)
    written = tmp_path / "report.txt"
    found = ours.stderr + (written.read_text() if written.exists() else "")
    data = tmp_path / "data"
    assert ours.returncode == plain.returncode
    if shell == "2>&1":
        assert ours.stdout.startswith(plain.stdout + "\n" + REPORT)
    else:
        assert ours.stdout == plain.stdout
        assert (REPORT in found) == is_shown
    assert not data.exists() or REPORT not in data.read_text()


@POSIX
@pytest.mark.parametrize("action", ["", "import signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"])
@pytest.mark.parametrize("way", [[], ["-m", "fastpipe", "run"]], ids=" ".join)
def test_a_reader_of_standard_error_that_has_ended_changes_nothing(way: list[str], action: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(action + MADE)
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as pipe:
        made = subprocess.run(
            [sys.executable, *way, "script.py"], stdout=subprocess.PIPE, stderr=pipe, env=variables(), cwd=tmp_path,
            text=True, check=False,
        )  # fmt: skip
    assert (made.returncode, made.stdout) == (0, "made\n")


@POSIX
def test_errors_of_a_command_never_go_to_standard_output(tmp_path: Path) -> None:
    for words, status in (("run nowhere.py", 2), ("check nowhere", 1)):
        made = subprocess.run(
            ["sh", "-c", f"'{sys.executable}' -m fastpipe {words} 2>&-"],
            stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=variables(), check=False,
        )  # fmt: skip
        assert (made.returncode, made.stdout) == (status, "")


# -- signals

WAITS = """
import os, signal, time
print(signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL, flush=True)
child = os.fork() or time.sleep(60)
time.sleep(0.2)
os.kill(child, signal.SIGUSR1)
print("the child's end", os.waitpid(child, 0)[1], flush=True)
os.kill(os.getpid(), signal.SIGUSR1)
"""


@POSIX
def test_signals_do_what_they_do_with_python_unless_a_report_is_asked_for(tmp_path: Path) -> None:
    plain, ours = ran(tmp_path, WAITS, way=""), ran(tmp_path, WAITS)
    assert "True\nthe child's end 10\n" in plain.stdout.replace("end 30", "end 10")  # 30 on macOS
    assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    asked = ran(tmp_path, WAITS, way="-m fastpipe run --report-on-signal")
    assert asked.stdout == plain.stdout.replace("True", "False") + "made\n"
    assert asked.stderr.count(REPORT) == 2  # at the signal to this process, and at the end
