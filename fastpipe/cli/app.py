"""Registers the commands, each of which has its own file."""

from __future__ import annotations

from typing import Any

import click

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
from fastpipe.cli.parameters import command
from fastpipe.cli.preview import preview
from fastpipe.cli.run import run
from fastpipe.cli.verify import verify


class _Commands(click.Group):
    """Lists its commands as they were added, and ends one with one line at Ctrl-C."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            say_interrupted()
            raise click.exceptions.Exit(INTERRUPTED) from None


def _show_version(context: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        from fastpipe import core

        print(f"fastpipe {__version__}")
        print(f"core: {core.build()}; {core.isa()}" if core.available() else f"core: none, {core.why_not()}")
        context.exit()


_VERSION = click.Option(
    ["--version"],
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Print the version, how the core was built and its instruction set.",
)

app = _Commands(
    "fastpipe",
    help="Decodes and augments images for PyTorch training, several times as fast.",
    params=[_VERSION],
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# Options after the script belong to the script.
app.add_command(command(run, context_settings={"allow_interspersed_args": False}))
for function in (bench, cache, check, configure, doctor, explain, index, pack, preview, unpack, verify):
    app.add_command(command(function))
