"""``fastpipe configure``: measures and stores the reader of each format for this machine."""

from __future__ import annotations

from typing import Annotated

import click

from fastpipe.cli import _options as options
from fastpipe.cli.parameters import Option


def configure(
    path: options.PathArgument = None,
    readers: options.ReadersOption = None,
    format: options.FormatOption = None,
    workers: options.WorkersOption = None,
    images: options.ImagesOption = 24,
    rounds: options.RoundsOption = 7,
    json: options.JsonOption = None,
    quiet: options.QuietOption = False,
    show: Annotated[bool, Option("--show", help="Only print the config in use; exit status 1 if it is stale.")] = False,
    reset: Annotated[bool, Option("--reset", help="Only remove the config file; built-in defaults are used.")] = False,
    set_: Annotated[
        list[str] | None,
        Option("--set", metavar="FORMAT=READER", help="Only set this reader; may be repeated."),
    ] = None,
) -> None:
    """Measure readers, and store each format's fastest.

    The config file is for this machine, and isn't used on another.

    Example: fastpipe configure ~/photos/train

    By hand: fastpipe configure --set jpeg=cv2 --set png=pil
    """
    if sum((show, reset, bool(set_))) > 1:
        raise click.BadParameter("give one of --show, --reset and --set")
    if (show or reset or set_) and (path or readers or format or workers is not None):
        raise click.BadParameter(
            "--show, --reset and --set measure nothing: leave out PATH, --readers, --format and --workers"
        )
    if (reset or set_) and json is not None:
        raise click.BadParameter("--reset and --set have nothing to write: leave out --json")
    if show:
        _show(json, quiet)
    elif reset:
        _reset(quiet)
    elif set_:
        _choose_by_hand(set_, quiet)
    else:
        _measure(json, quiet, path, readers=readers, formats=format, workers=workers, images=images, rounds=rounds)


def _measure(json: str | None, quiet: bool, path: str | None, **options: object) -> None:
    from fastpipe.progress_bar import SlowBar
    from fastpipe.reporting.output import give_report
    from fastpipe.tools import config_file

    result, config, written = config_file.measure(path, SlowBar(shown=not quiet), options)
    if give_report(result, json, quiet):  # written before, as printing fails if the pipe is closed
        print(f"\nWritten to {written}:", config_file.readers_in_words(config), sep="\n")


def _show(json: str | None, quiet: bool) -> None:
    """Prints the file's path, whether it is used, and each format's reader; exits with 1 if it is stale."""
    from fastpipe.reporting.output import wrap_text, write_json_if_asked
    from fastpipe.tools import config_file

    state = config_file.state()
    if write_json_if_asked(json, state.to_dict(), quiet):
        file, created = state.file, state.stored.created
        if state.problem:
            print(wrap_text(f"{state.problem} Until then built-in defaults apply."))
        elif not state.exists:
            message = f"No config file ({file}): built-in defaults. `fastpipe configure` measures and writes one."
            print(wrap_text(message))
        elif state.differs:
            print(wrap_text(f"{file} is not used, because it was not measured here:"))
            print(*(wrap_text(f"  {phrase}") for phrase in state.differs), sep="\n")
            print("Built-in defaults apply; `fastpipe configure` measures this machine.")
        else:
            print(wrap_text(f"{file}{f', measured {created}' if created else ''}:"))
            print(config_file.readers_in_words(state.stored))
        if state.override:
            print(f"FASTPIPE_READER={state.override} overrides it:")
            print(config_file.readers_in_words(state.effective))
    if state.differs:
        raise click.exceptions.Exit(1)


def _reset(quiet: bool) -> None:
    from fastpipe.reporting.output import wrap_text
    from fastpipe.tools import config_file

    file, existed = config_file.reset()
    said = f"Removed {file}: built-in defaults." if existed else f"No config file ({file}): built-in defaults already."
    if not quiet:
        print(wrap_text(said))


def _choose_by_hand(items: list[str], quiet: bool) -> None:
    from fastpipe.reporting.output import wrap_text
    from fastpipe.tools import config_file

    config, written, dropped = config_file.choose_by_hand(items)
    if quiet:
        return
    if dropped:
        print(wrap_text(f"The entries of {written} were not measured here and are dropped."))
    print(f"Written to {written}:", config_file.readers_in_words(config), sep="\n")
