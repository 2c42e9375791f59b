"""Tables by rich, and what is printed on a console as text or HTML."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import rich.box
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from fastpipe.environment import line_width


@dataclass(slots=True)
class ReportTable:
    """Cells in rows under headings."""

    title: str  # above it
    headings: Sequence[str]  # of the columns
    right: Sequence[str] = ()  # headings of the columns of figures, which are set flush right
    least: int = 0  # the width of these, in characters
    framed: bool = True  # with lines on a terminal; else columns alone
    rows: list[Sequence[Any]] = field(default_factory=list)  # of cells, which may be rich's texts
    styles: dict[int, str] = field(default_factory=dict)  # rich's, by the row's number
    sections: set[int] = field(default_factory=set)  # numbers of the rows that have a line above
    caption: str = ""  # below it

    def add(self, *cells: Any, style: str = "", section: bool = False) -> None:
        """Adds a row."""
        if section:
            self.sections.add(len(self.rows))
        self.styles[len(self.rows)] = style
        self.rows.append(cells)

    def to_rich(self) -> RichTable:
        """The table as one of rich's, for a terminal; it looks the same in a file."""
        box = rich.box.ASCII if self.framed else None
        made = RichTable(
            title=self.title or None,
            title_justify="left",
            caption_justify="left",
            box=box,
            pad_edge=bool(box),
            show_header=any(map(str.strip, self.headings)),
        )
        for heading in self.headings:
            figures = heading in self.right
            made.add_column(
                heading,
                justify="right" if figures else "left",
                no_wrap=figures,  # text goes on in a line below; a figure never does
                overflow="fold",
                min_width=self.least if figures else None,
            )
        for number, cells in enumerate(self.rows):
            if number in self.sections:
                made.add_section()
            made.add_row(
                *(one if isinstance(one, Text) else escape(_text(one)) for one in cells),
                style=self.styles.get(number) or None,
            )
        made.caption = escape(self.caption) or None
        return made

    def to_text(self, width: int | None = None) -> str:
        """The table as plain text, at most as wide as `line_width` says, or as told."""
        return render_text(lambda console: console.print(self.to_rich()), width)


def _text(cell: Any) -> str:
    return "–" if cell is None else f"{cell:,.0f}" if isinstance(cell, (int, float)) else str(cell)


def render_text(show: Callable[[Console], None], width: int | None = None) -> str:
    """The text that is printed on a console, as wide as `line_width` says, or as told."""
    out = io.StringIO()
    show(Console(file=out, width=width or line_width(), no_color=True, highlight=False, emoji=False))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def render_html(show: Callable[[Console], None], width: int = 110) -> str:
    """The HTML of what is printed on a console, for a notebook or a page."""
    console = Console(file=io.StringIO(), width=width, record=True, highlight=False, force_terminal=True)
    show(console)
    style = "font-family:Menlo,DejaVu Sans Mono,Consolas,monospace;line-height:1.2"
    return console.export_html(inline_styles=True, code_format=f'<pre style="{style}">{{code}}</pre>')
