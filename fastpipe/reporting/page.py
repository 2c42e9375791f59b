"""The report of a tool as one page of HTML: its pictures, and its tables as a terminal shows them."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from importlib import resources
from string import Template
from typing import TYPE_CHECKING

from fastpipe.reporting.output import check_writable
from fastpipe.reporting.plots import check_matplotlib, to_svg
from fastpipe.reporting.tables import to_html

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console


def check_page(file: str | None) -> None:
    """Makes sure that a page can be drawn and written, before minutes are spent on it; None needs nothing.

    Raises:
        ConfigError: it can't be.
    """
    if file is not None:
        check_writable(file, "--html")
        check_matplotlib()


def page(title: str, subtitle: str, figures: Mapping[str, Figure], show: Callable[[Console], None]) -> str:
    """A file of HTML that needs nothing else: no script, light or dark as the reader likes.

    Args:
        title, subtitle: above all.
        figures: the pictures by what they are called.
        show: prints the report on a console.
    """
    template = Template(resources.files("fastpipe.reporting").joinpath("page.html").read_text(encoding="utf-8"))
    pictures = [f"<figure>{to_svg(figure, f'Chart: {name}')}</figure>" for name, figure in figures.items()]
    body = "\n".join([*pictures, to_html(show)])
    return template.substitute(title=html.escape(title), subtitle=html.escape(subtitle), body=body)
