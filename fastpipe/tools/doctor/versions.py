"""The versions of everything that affects pixels or speed, for bug reports."""

from __future__ import annotations

import platform
from typing import Any

from fastpipe import environment
from fastpipe.readers import bundled_libraries, reader_status
from fastpipe.readers.pil import PillowReader
from fastpipe.reporting.tables import ReportTable

_PACKAGES = ("torch", "torchvision", "numpy", "albumentations", "matplotlib")


def versions() -> dict[str, Any]:
    """The versions of installed packages and libraries that affect pixels or speed.

    ``"refused"`` has the images that a reader doesn't decode because of a library's defect; ``"unavailable"``, why a
    reader doesn't load.
    """
    report: dict[str, Any] = environment.versions(*_PACKAGES)
    report["python"] = f"{platform.python_implementation()} {report['python']}"
    report["platform"] = platform.platform()
    report["readers"] = bundled_libraries()
    report["refused"] = {"pil": list(PillowReader().defects.values())}
    report["unavailable"] = {name: one.reason for name, one in reader_status().items() if not one.available}
    report["other_projects"] = environment.other_projects()
    return report


def versions_text(found: dict[str, Any]) -> str:
    """Formats the result of `versions`, one line for each entry."""
    table = ReportTable(("", ""), framed=False)
    for name, value in found.items():
        if isinstance(value, str):
            table.add_row(name, value)
    for reader, libraries in found["readers"].items():
        inside = [f"{library} {version}" for library, version in libraries.items()]
        table.add_row(f"reader {reader}", ", ".join(inside) or "version not known")
    for reader, whats in found["refused"].items():
        for what in whats:
            table.add_row(f"not by {reader}", what)
    for reader, reason in found["unavailable"].items():
        table.add_row(f"reader {reader}", f"not here: {reason}")
    for other in found["other_projects"]:
        remedy = f"pip uninstall {other.split()[0]}, then install torch-fastpipe again"
        table.add_row("not fastpipe", f"{other} is another project with a module of the same name: {remedy}")
    return str(table)
