"""Commands of the command line, made from functions: their parameters' annotations say what each option is.

``Annotated[int, Option(metavar="N", min=1, help="…")]`` declares an option, and ``Argument`` an argument. The types are
`str`, `int`, `float`, `bool` (an option without a value), `Path`, a ``Literal`` of texts, lists (an option given
several times, an argument of several words), and one of these or None. click parses the command line.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click

Function = Callable[..., None]


class Option:
    """An option.

    Args:
        names: such as ``"--jobs", "-j"``; by default the parameter's name.
        metavar: the word for its value.
        help: a sentence.
        min: the least number.
        max: the greatest number.
        parser: makes the value of its text; a ValueError is a wrong usage.
        callback: gets the context, the option and the value; returns the value.
        is_eager: run the callback before other options are checked.
    """

    def __init__(
        self,
        *names: str,
        help: str,
        metavar: str | None = None,
        min: int | None = None,
        max: int | None = None,
        parser: Callable[[str], Any] | None = None,
        callback: Callable[[click.Context, click.Parameter, Any], Any] | None = None,
        is_eager: bool = False,
    ) -> None:
        self.names, self.help, self.metavar = names, help, metavar
        self.min, self.max, self.parser = min, max, parser
        self.callback, self.is_eager = callback, is_eager


@dataclass(frozen=True)
class Argument:
    """An argument; the parameter's default makes it one that can be left out.

    Attributes:
        help: a sentence.
        metavar: the word for it; by default the parameter's name in capitals.
    """

    help: str
    metavar: str | None = None


class _Argument(click.Argument):
    """An argument with a sentence about it, which click has from version 8.5 on, under another heading."""

    def __init__(self, *, about: str, **options: Any) -> None:
        super().__init__(**options)
        self.about = about


class Command(click.Command):
    """A command whose help lists its arguments, too."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(str(one.metavar), one.about) for one in self.params if isinstance(one, _Argument)]
        if rows:
            with formatter.section("Arguments"):
                formatter.write_dl(rows)
        super().format_options(ctx, formatter)


def command(function: Function, **settings: Any) -> Command:
    """Makes the command of a function, whose name and docstring it has; `settings` are `click.Command`'s."""
    lists: dict[str, Any] = {}
    hints = get_type_hints(function, include_extras=True)
    parameters = []
    for name, parameter in inspect.signature(function).parameters.items():
        hint = hints[name]
        if get_origin(hint) is Union:  # Python 3.10 adds None to what has it as its default
            hint = get_args(hint)[0]
        kind, declared = get_args(hint)
        if get_origin(kind) in (Union, types.UnionType):
            (kind,) = (one for one in get_args(kind) if one is not types.NoneType)
        is_list = get_origin(kind) is list
        if is_list:
            (kind,) = get_args(kind)
            lists[name] = parameter.default
        parameters.append(_parameter(name, parameter.default, kind, is_list, declared))

    def run(**given: Any) -> None:
        for name, default in lists.items():
            given[name] = list(given[name]) or default
        function(**given)

    return Command(function.__name__, callback=run, params=parameters, help=inspect.getdoc(function), **settings)


def _parameter(name: str, default: Any, kind: type, is_list: bool, declared: Option | Argument) -> click.Parameter:
    required = default is inspect.Parameter.empty
    what: Any = kind
    if kind is Path:
        what = click.Path(path_type=Path)
    elif get_origin(kind) is Literal:
        what = click.Choice(get_args(kind))
    given: dict[str, Any] = {} if required or is_list or default is None else {"default": default}
    if isinstance(declared, Argument):
        word = declared.metavar or name.upper()
        metavar = word if required else f"[{word}]"
        count = -1 if is_list else 1
        about = f"{declared.help}  [required]" if required else declared.help
        return _Argument(
            param_decls=[name], about=about, metavar=metavar, nargs=count, required=required, type=what, **given
        )
    if kind is int and (declared.min is not None or declared.max is not None):
        what = click.IntRange(declared.min, declared.max)
    if declared.parser is not None:
        what = declared.parser
    if kind is bool:
        given |= {"is_flag": True}
    names = declared.names or (f"--{name.replace('_', '-')}",)
    return click.Option(
        [*names, name],
        help=declared.help,
        metavar=declared.metavar,
        multiple=is_list,
        callback=declared.callback,
        is_eager=declared.is_eager,
        show_default="default" in given and kind is not bool,
        type=None if kind is bool else what,
        **given,
    )
