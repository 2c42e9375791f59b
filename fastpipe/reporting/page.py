"""The report of a tool as one page of HTML: its picture, and its tables as a terminal shows them."""

from __future__ import annotations

import html
from collections.abc import Callable
from importlib import resources
from string import Template
from typing import TYPE_CHECKING

from fastpipe.reporting.plots import to_svg
from fastpipe.reporting.tables import render_html

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console


def page(title: str, subtitle: str, show: Callable[[Console], None], figure: Figure | None = None) -> str:
    """A file of HTML that needs nothing else: no script, light or dark as the reader likes.

    Args:
        title, subtitle: above all.
        show: prints the report on a console.
        figure: the picture above it; None for none.
    """
    template = Template(resources.files("fastpipe.reporting").joinpath("page.html").read_text(encoding="utf-8"))
    body = render_html(show)
    if figure is not None:
        body = f"<figure>{to_svg(figure, f'Chart: {title}')}</figure>\n{body}"
    return template.substitute(title=html.escape(title), subtitle=html.escape(subtitle), body=body)
