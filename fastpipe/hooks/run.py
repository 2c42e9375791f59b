"""`run_script`: a script or a module run as ``python`` runs it, with the hooks installed."""

from __future__ import annotations

import atexit
import builtins
import io
import os
import signal
import sys
import threading
import types
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from typing import Any, NoReturn

from fastpipe.errors import ConfigError
from fastpipe.hooks.installation import install
from fastpipe.hooks.ranks import LAUNCH, rank
from fastpipe.hooks.summary import report


@dataclass(frozen=True)
class Script:
    """A script or module to be run, and its arguments.

    Attributes:
        target: the path of a script, or of a folder or zip that has a ``__main__.py``; or the name of a module.
        is_module: it is the name of a module.
        arguments: of the script, its ``sys.argv[1:]``.
    """

    target: str
    is_module: bool
    arguments: tuple[str, ...]

    def check(self) -> None:
        """Raises ConfigError if there is no such script."""
        if not self.is_module and not os.path.exists(self.target):
            raise ConfigError(
                f"there is no script {self.target}: give the path of a Python file, or -m and a module's name."
            )


def run_script(script: Script, *, check: int = 2, report_to: str | None = None, quiet: bool = False) -> None:
    """Runs a script as ``__main__``; what was taken over is reported on standard error when the process ends.

    ``sys.argv``, ``sys.path``, exit codes and tracebacks are as with ``python``.

    Args:
        script: what is to be run.
        check: as of `fastpipe.install`.
        report_to: a ``.json`` or ``.html`` file that gets the report; of other ranks than 0 of a distributed run it is
            another file, with the rank in its name.
        quiet: print no report.

    Raises:
        BaseException: whatever the script raises, ``SystemExit`` among it.
    """
    report_to = None if report_to is None else os.path.abspath(report_to)
    atexit.register(_report_at_exit, os.getpid(), report_to, quiet)
    if hasattr(signal, "SIGUSR1") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGUSR1, _report_now)
    options = [*(["--quiet"] if quiet else []), *([] if report_to is None else ["--report", report_to])]
    LAUNCH.command = ("-m", "fastpipe", "run", "--check", str(check), *options)
    install(check=check)
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins)
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    sys.modules["__main__"] = main
    sys.argv[:] = [script.target, *script.arguments]
    try:
        if script.is_module:
            _run_module(script.target, os.getcwd())
        elif os.path.isdir(script.target) or (
            not script.target.endswith((".py", ".pyw")) and _is_archive(script.target)
        ):
            _run_module("__main__", os.path.abspath(script.target))
        else:
            _run_file(script.target, main)
    except BaseException:
        _hide_own_frames()
        raise


def _run_module(name: str, folder: str) -> None:
    """Runs a module as the interpreter itself does for ``python -m``, and for a folder or a zip."""
    import runpy

    run: Any = runpy._run_module_as_main  # type: ignore[attr-defined] # what the interpreter calls
    _set_first_path(folder)
    run(name, alter_argv=name != "__main__")


def _run_file(path: str, main: types.ModuleType) -> None:
    whole = os.path.abspath(path)
    _set_first_path(os.path.dirname(os.path.realpath(path)))
    is_compiled = whole.endswith(".pyc")
    loader: Any = (SourcelessFileLoader if is_compiled else SourceFileLoader)("__main__", whole)
    main.__dict__.update(__cached__=None, __file__=whole, __loader__=loader)
    if is_compiled:
        code = loader.get_code("__main__")
    else:
        with io.open_code(whole) as file:
            code = compile(file.read(), whole, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def _is_archive(path: str) -> bool:
    import zipfile

    return not path.endswith((".py", ".pyw")) and zipfile.is_zipfile(path)


def _set_first_path(folder: str) -> None:
    """Puts a folder where ``python`` puts the script's: in the place of that of the command that runs it."""
    if not getattr(sys.flags, "safe_path", False):  # since Python 3.11
        sys.path[0] = folder


def _hide_own_frames() -> None:
    """Has the error be shown as ``python`` shows it: from the script's first line on."""
    shown = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
        if trace is not None:
            error.__traceback__ = trace = _behind_own_frames(trace)
        shown(kind, error, trace)

    sys.excepthook = show


def _behind_own_frames(trace: types.TracebackType) -> types.TracebackType | None:
    frames = []
    rest: types.TracebackType | None = trace
    while rest is not None:
        frames.append(rest)
        rest = rest.tb_next
    own = [place for place, frame in enumerate(frames) if frame.tb_frame.f_code.co_filename == __file__]
    return frames[own[-1]].tb_next if own else trace


# -- the report


def _report_now(*_: object) -> None:
    print(report(), file=sys.stderr, flush=True)


def _report_at_exit(owner: int, path: str | None, quiet: bool) -> None:
    if os.getpid() != owner:  # a forked process that ended as this one does
        return
    if LAUNCH.is_launcher:
        return
    made = report()
    number = rank()
    if not quiet and number == "0":
        print(f"\n{made}", file=sys.stderr, flush=True)
    if path is not None:
        try:
            made.write(path if number == "0" else _with_rank(path, number))
        except ConfigError as error:  # such as a full disk: the script is done, and ends as it would
            print(f"fastpipe: error: {error}", file=sys.stderr, flush=True)


def _with_rank(path: str, number: str) -> str:
    stem, ending = os.path.splitext(path)
    return f"{stem}.rank{number}{ending}"


class ScriptAsked(Exception):
    """Raised by the command line's ``run``, so that the script runs outside of the command's own frames.

    Attributes:
        script: what is to be run.
        options: arguments of `run_script`.
    """

    def __init__(self, script: Script, **options: Any) -> None:
        super().__init__(script.target)
        self.script = script
        self.options = options


def ask(arguments: Sequence[str], is_module: bool, **options: Any) -> NoReturn:
    """Raises `ScriptAsked` for a command line's arguments, the first of which is the script.

    Raises:
        ConfigError: there is no such script.
    """
    script = Script(arguments[0], is_module, tuple(arguments[1:]))
    script.check()
    raise ScriptAsked(script, **options)


def ask_at_once(arguments: Sequence[str]) -> None:
    """Raises `ScriptAsked` for a plain command line ``run [-m] [-q] [--check N] SCRIPT …``.

    Any other one, such as one that asks for help or has a mistake, is for the command line, whose imports take longer
    than many a script.

    Raises:
        ConfigError: there is no such script.
    """
    words = [*arguments]
    is_module = False
    options: dict[str, Any] = {}
    if words[:1] != ["run"]:
        return
    del words[0]
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word in ("-m", "--module"):
            is_module = True
        elif word in ("-q", "--quiet"):
            options["quiet"] = True
        elif word == "--check" and words and words[0].isdecimal():
            options["check"] = int(words.pop(0))
        else:
            return
    if words:
        ask(words, is_module, **options)
