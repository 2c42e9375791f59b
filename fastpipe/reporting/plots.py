"""Plots by matplotlib, the extra ``bench``: figures without pyplot, so that nothing of the user's changes."""

from __future__ import annotations

import importlib
import io
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from fastpipe.errors import ConfigError
from fastpipe.reporting.output import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, FAINT = "#1f2328", "#c9ced6"
_STYLE: Mapping[str, Any] = {
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "grid.color": FAINT,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "text.color": INK,
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.color": FAINT,
    "ytick.labelcolor": INK,
}


def check_matplotlib(file: str | os.PathLike[str] | None = None) -> None:
    """Makes sure that pictures can be drawn, before minutes are spent on what they are to show.

    Raises:
        ConfigError: matplotlib doesn't load, or the file's ending names no format that it writes.
    """
    try:
        importlib.import_module("matplotlib.figure")
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    except ImportError as error:
        raise ConfigError(f"plots need matplotlib ({error}): pip install matplotlib") from error
    formats = FigureCanvasAgg.get_supported_filetypes()
    if file is not None and os.path.splitext(file)[1][1:].lower() not in formats:
        raise ConfigError(f"can't write the picture {file}: its ending names none of the formats {', '.join(formats)}")


def style() -> AbstractContextManager[None]:
    """The house's look, for what is drawn inside."""
    check_matplotlib()
    import matplotlib as mpl

    context: AbstractContextManager[None] = mpl.rc_context(dict(_STYLE))
    return context


def save(figure: Figure, file: str | os.PathLike[str]) -> None:
    """Writes a figure in the format that the file's ending names.

    Raises:
        ConfigError: it can't be written.
    """
    out = io.BytesIO()
    try:
        with style():
            figure.savefig(out, format=os.path.splitext(file)[1][1:].lower() or "png", dpi=150)
    except ValueError as error:
        raise ConfigError(f"can't write the picture {file}: {error}; give a file such as picture.png") from error
    write_bytes(file, [out.getbuffer()], "--plot")
