"""Tables made with rich, and the rendering of console output as text or HTML."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Sequence

import rich.box
from rich.console import Console
from rich.markup import escape
from rich.style import StyleType
from rich.table import Table
from rich.text import Text

from fastpipe.environment import line_width
from fastpipe.reporting.output import wrap_text

_HTML_WIDTH = 110  # in characters


class ReportTable(Table):
    """A rich table in the reports' style, which looks the same in a terminal and in a file.

    Args:
        headings: the columns' headings.
        right: the headings of columns of figures, which are right-aligned and not wrapped.
        title: the title above the table.
        least_width: the smallest width of columns of figures, in characters.
        framed: draw lines around and in the table.
    """

    def __init__(
        self,
        headings: Sequence[str],
        right: Sequence[str] = (),
        *,
        title: str | None = None,
        least_width: int | None = None,
        framed: bool = True,
    ) -> None:
        super().__init__(
            title=title,
            title_justify="left",
            caption_justify="left",
            box=rich.box.ASCII if framed else None,
            pad_edge=framed,
            show_header=any(map(str.strip, headings)),
        )
        for heading in headings:
            if heading in right:
                self.add_column(heading, justify="right", no_wrap=True, overflow="fold", min_width=least_width)
            else:
                self.add_column(heading, overflow="fold")

    def add_row(self, *cells: object, style: StyleType | None = None, end_section: bool = False) -> None:
        """Adds a row of plain texts, numbers, None for a dash, and rich's own texts."""
        texts = (cell if isinstance(cell, Text) else escape(_text(cell)) for cell in cells)
        super().add_row(*texts, style=style, end_section=end_section)

    def __str__(self) -> str:
        return render_text(lambda console: console.print(self))


def _text(cell: object) -> str:
    return "–" if cell is None else f"{cell:,.0f}" if isinstance(cell, (int, float)) else str(cell)


def print_text(console: Console, text: str, indent: str = "", style: str = "") -> None:
    """Prints text with an indentation, wrapped to fit the console."""
    lines = wrap_text(textwrap.indent(text, indent), width=console.width)
    console.print(Text(lines, style), soft_wrap=True)


def render_text(show: Callable[[Console], None]) -> str:
    """Returns as text what `show` prints on a console `line_width` wide."""
    out = io.StringIO()
    show(Console(file=out, width=line_width(), no_color=True, highlight=False, emoji=False))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def render_html(show: Callable[[Console], None]) -> str:
    """Returns as HTML what `show` prints on a console, for a notebook or a page."""
    console = Console(file=io.StringIO(), width=_HTML_WIDTH, record=True, highlight=False, force_terminal=True)
    show(console)
    style = "font-family:Menlo,DejaVu Sans Mono,Consolas,monospace;line-height:1.2"
    return console.export_html(inline_styles=True, code_format=f'<pre style="{style}">{{code}}</pre>')
