"""Tables, for a terminal by rich and for a page as HTML, and the page around them."""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from string import Template
from typing import Any

import rich.box
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from fastpipe.environment import line_width

_GOOD = {"faster": "green", "slower": "red"}


@dataclass(slots=True)
class Table:
    """Cells in rows under headings."""

    title: str  # above it
    headings: Sequence[str]  # of the columns
    right: Sequence[str] = ()  # headings of the columns of figures, which are set flush right
    least: int = 0  # the width of these, in characters
    framed: bool = True  # with lines on a terminal; else columns alone
    # of cells, which may be rich's texts where it isn't for a page
    rows: list[Sequence[Any]] = field(default_factory=list)
    styles: dict[int, str] = field(default_factory=dict)  # rich's, by the row's number
    sections: set[int] = field(default_factory=set)  # numbers of the rows that have a line above
    caption: str = ""  # below it

    def add(self, *cells: Any, style: str = "", section: bool = False) -> None:
        """A row; verdicts are coloured by themselves."""
        if section:
            self.sections.add(len(self.rows))
        self.styles[len(self.rows)] = style or next((_GOOD[one] for one in cells if one in ("faster", "slower")), "")
        self.rows.append(cells)

    def to_rich(self) -> RichTable:
        """For a terminal; looks the same in a file."""
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
        """As plain text, at most as wide as `line_width` says, or as told."""
        return plain(lambda console: console.print(self.to_rich()), width)

    def to_html(self) -> str:
        """For a page: everything escaped."""
        figures = [heading in self.right for heading in self.headings]
        lines = [*([heading(self.title, 3)] if self.title else []), '<div class="wide"><table>']
        if any(self.headings):
            cells = (
                f"<th{_class(figure)}>{html.escape(name)}</th>"
                for name, figure in zip(self.headings, figures, strict=True)
            )
            lines.append(f"<thead><tr>{''.join(cells)}</tr></thead>")
        lines.append("<tbody>")
        for row in self.rows:
            padded = [*map(_text, row), *[""] * (len(figures) - len(row))]
            cells = (
                f"<td{_class(figure, text)}>{html.escape(text)}</td>"
                for text, figure in zip(padded, figures, strict=True)
            )
            lines.append(f"<tr>{''.join(cells)}</tr>")
        below = bullets(self.caption.splitlines())
        return "\n".join([*lines, "</tbody></table></div>", *([below] if below else [])])


def _text(cell: Any) -> str:
    return "–" if cell is None else f"{cell:,.0f}" if isinstance(cell, (int, float)) else str(cell)


def _class(figures: bool, text: str = "") -> str:
    name = "number" if figures else text if text in _GOOD else "text" if len(text) > 60 else ""
    return f' class="{name}"' if name else ""


def heading(text: str, level: int = 2) -> str:
    return f"<h{level}>{html.escape(text)}</h{level}>"


def paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def code(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"


def bullets(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def page(title: str, subtitle: str, body: Iterable[str]) -> str:
    """A file of HTML that needs nothing else: no script, light or dark as the reader likes."""
    template = Template(resources.files("fastpipe.reporting").joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(title=html.escape(title), subtitle=html.escape(subtitle), body="\n".join(body))


def plain(show: Callable[[Console], None], width: int | None = None) -> str:
    """What is printed on a console, as plain text, as wide as `line_width` says, or as told."""
    out = io.StringIO()
    show(Console(file=out, width=width or line_width(), no_color=True, highlight=False, emoji=False))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def notebook(show: Callable[[Console], None], width: int = 110) -> str:
    """What is printed on a console, as HTML for a notebook."""
    console = Console(file=io.StringIO(), width=width, record=True, highlight=False, force_terminal=True)
    show(console)
    style = "font-family:Menlo,DejaVu Sans Mono,Consolas,monospace;line-height:1.2"
    return console.export_html(inline_styles=True, code_format=f'<pre style="{style}">{{code}}</pre>')
