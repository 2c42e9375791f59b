"""Registers the commands, each of which has its own file."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fastpipe import __version__
from fastpipe.cli._interrupt import INTERRUPTED, say_interrupted
from fastpipe.cli.bench import bench
from fastpipe.cli.cache import cache
from fastpipe.cli.check import check
from fastpipe.cli.configure import configure
from fastpipe.cli.doctor import doctor
from fastpipe.cli.explain import explain
from fastpipe.cli.index import index
from fastpipe.cli.pack import pack, unpack
from fastpipe.cli.preview import preview
from fastpipe.cli.run import run
from fastpipe.cli.verify import verify


class _Commands(TyperGroup):
    """Ends a command with one line at Ctrl-C, with any version of typer."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            say_interrupted()
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    cls=_Commands,
    name="fastpipe",
    help="Decodes and augments images for PyTorch training.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        from fastpipe import core

        print(f"fastpipe {__version__}")
        print(f"core: {core.build()}; {core.isa()}" if core.available() else f"core: none, {core.why_not()}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Print the version, how the core was built and its instruction set.",
        ),
    ] = False,
) -> None:
    """Decodes and augments images for PyTorch training, several times as fast."""


for command in (bench, cache, check, configure, doctor, explain, index, pack, preview, unpack, verify):
    app.command()(command)
app.command(context_settings={"allow_interspersed_args": False})(run)  # options after the script belong to the script
