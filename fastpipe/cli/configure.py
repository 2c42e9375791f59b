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
    from fastpipe.cli import _config_file

    if show:
        _config_file.show(json, quiet)
    elif reset:
        _config_file.reset(quiet)
    elif set_:
        _config_file.choose_by_hand(set_, quiet)
    else:
        _config_file.measure(
            json, quiet, path, readers=readers, formats=format, workers=workers, images=images, rounds=rounds
        )
