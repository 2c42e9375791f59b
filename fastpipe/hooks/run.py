"""`run_script`: runs a script or a module as ``python`` does, with the hooks installed."""

from __future__ import annotations

import atexit
import builtins
import io
import os
import signal
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from typing import TYPE_CHECKING, NoReturn, TypedDict

from fastpipe.errors import ConfigError
from fastpipe.foreign_code import outcome_of
from fastpipe.hooks.account_folder import folder_of_ancestor
from fastpipe.hooks.installation import install
from fastpipe.hooks.ledger import LEDGER
from fastpipe.hooks.ranks import LAUNCH, rank
from fastpipe.hooks.summary import report
from fastpipe.standard_error import StandardError

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class Script:
    """A script or module to run, with its arguments.

    Attributes:
        target: the path of a script, or of a folder or zip with a ``__main__.py``; or the name of a module.
        is_module: `target` is the name of a module.
        arguments: the script's ``sys.argv[1:]``.
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


class Options(TypedDict, total=False):
    """The options of `run_script`."""

    check: int
    report_to: str | None
    quiet: bool
    report_on_signal: bool


def run_script(
    script: Script,
    *,
    check: int = 2,
    report_to: str | None = None,
    quiet: bool = False,
    report_on_signal: bool = False,
) -> None:
    """Runs a script as ``__main__``; prints the report on standard error when the process ends.

    ``sys.argv``, ``sys.path``, exit codes and tracebacks are as with ``python``.

    Args:
        script: the script.
        check: see `fastpipe.install`.
        report_to: a ``.json`` or ``.html`` file for the report; ranks other than 0 of a distributed run add their rank
            to its name.
        quiet: print no report.
        report_on_signal: also print it at each SIGUSR1, for which the script finds a handler.

    Raises:
        BaseException: the script's error, including ``SystemExit``.
    """
    report_to = None if report_to is None else os.path.abspath(report_to)
    output = StandardError()
    atexit.register(_report_at_exit, os.getpid(), folder_of_ancestor(), output, report_to, quiet)
    options = [*(["--quiet"] if quiet else []), *([] if report_to is None else ["--report", report_to])]
    if report_on_signal:
        _report_at_signals(output)
        options.append("--report-on-signal")
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
        elif os.path.isdir(script.target) or _is_archive(script.target):
            _run_module("__main__", os.path.abspath(script.target))
        else:
            _run_file(script.target, main)
    except SystemExit:
        raise
    except BaseException:  # also Ctrl-C
        _hide_own_frames()
        raise


def _run_module(name: str, folder: str) -> None:
    """Runs a module as the interpreter does for ``python -m``, and for a folder or a zip."""
    import runpy

    run = runpy._run_module_as_main  # type: ignore[attr-defined] # the function that the interpreter calls
    _set_first_path(folder)
    run(name, alter_argv=name != "__main__")


def _run_file(path: str, main: types.ModuleType) -> None:
    whole = os.path.abspath(path)
    _set_first_path(os.path.dirname(os.path.realpath(path)))
    is_compiled = whole.endswith(".pyc")
    loader = (SourcelessFileLoader if is_compiled else SourceFileLoader)("__main__", whole)
    main.__dict__.update(__cached__=None, __file__=whole, __loader__=loader)
    code: types.CodeType | None
    if is_compiled:
        code = loader.get_code("__main__")
        assert code is not None  # of a file there is code, or an error
    else:
        with io.open_code(whole) as file:
            code = compile(file.read(), whole, "exec", dont_inherit=True)
    exec(code, main.__dict__)
    for name in ("__file__", "__cached__"):  # functions that run at exit don't find them with `python` either
        main.__dict__.pop(name, None)


def _is_archive(path: str) -> bool:
    import zipfile

    return not path.endswith((".py", ".pyw")) and zipfile.is_zipfile(path)


def _set_first_path(folder: str) -> None:
    """Sets the first entry of ``sys.path`` to the script's folder, as ``python`` does."""
    if not getattr(sys.flags, "safe_path", False):  # since Python 3.11
        sys.path[0] = folder


def _hide_own_frames() -> None:
    """Makes the traceback begin at the script's first line, as with ``python``."""
    shown = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
        sys.excepthook = shown
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


def _report_at_signals(output: StandardError) -> None:
    """Prints the report at each SIGUSR1 that this process gets; in forked ones the signal does what it did before."""

    def report_now(*_: object) -> None:
        text = outcome_of(lambda: str(report()))  # in a script's line, such as an import, that isn't finished
        if isinstance(text, Exception):
            text = f"fastpipe: no report could be made just now ({type(text).__name__}: {text})."
        output.write(text)

    def leave() -> None:
        if signal.getsignal(signal.SIGUSR1) is report_now:
            signal.signal(signal.SIGUSR1, before)

    before = signal.signal(signal.SIGUSR1, report_now)
    os.register_at_fork(after_in_child=leave)


def _report_at_exit(owner: int, parent: str | None, output: StandardError, path: str | None, quiet: bool) -> None:
    """Prints and writes the report, and counts this process's images in that of its parent, if that has a folder."""
    if os.getpid() != owner:  # a forked process that ends by exiting normally
        return
    if LAUNCH.is_launcher:
        return
    account = report()
    number = rank()
    if parent is not None and number == "0":
        LEDGER.hand_up(parent)
    if not quiet and number == "0":
        output.write(f"\n{account}")
    if path is not None:
        try:
            account.write(path if number == "0" else _with_rank(path, number))
        except ConfigError as error:  # for example a full disk; the script's exit code isn't changed
            output.write(f"fastpipe: error: {error}")


def _with_rank(path: str, number: str) -> str:
    stem, ending = os.path.splitext(path)
    return f"{stem}.rank{number}{ending}"


class ScriptAsked(Exception):
    """Raised by the command line's ``run``, so that the script runs outside of the command line's frames.

    Attributes:
        script: the script to run.
        options: the arguments of `run_script`.
    """

    def __init__(self, script: Script, **options: Unpack[Options]) -> None:
        super().__init__(script.target)
        self.script = script
        self.options = options


def ask(arguments: Sequence[str], is_module: bool, **options: Unpack[Options]) -> NoReturn:
    """Raises `ScriptAsked` for a command line's arguments, the first of which is the script.

    Raises:
        ConfigError: the script doesn't exist, or the system lacks what an option needs.
    """
    script = Script(arguments[0], is_module, tuple(arguments[1:]))
    script.check()
    if options.get("report_on_signal") and not hasattr(signal, "SIGUSR1"):
        raise ConfigError("--report-on-signal: this system has no SIGUSR1.")
    raise ScriptAsked(script, **options)


def ask_at_once(arguments: Sequence[str]) -> None:
    """Raises `ScriptAsked` for a simple command line ``run [OPTIONS] SCRIPT …`` with options that need no file.

    Returns for any other one, such as one that asks for help or has a mistake. The full command line parser handles
    those; importing it takes longer than many scripts run.

    Raises:
        ConfigError: the script doesn't exist.
    """
    words = [*arguments]
    is_module = False
    options: Options = {}
    if words[:1] != ["run"]:
        return
    del words[0]
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word in ("-m", "--module"):
            is_module = True
        elif word in ("-q", "--quiet"):
            options["quiet"] = True
        elif word == "--report-on-signal":
            options["report_on_signal"] = True
        elif word == "--check" and words and words[0].isdecimal():
            options["check"] = int(words.pop(0))
        else:
            return
    if words:
        ask(words, is_module, **options)
