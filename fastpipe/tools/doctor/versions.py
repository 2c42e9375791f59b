"""The versions of everything that has a say in the pixels or their speed, for reports of bugs."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

import fastpipe
from fastpipe.readers import reader_status
from fastpipe.readers.versions import bundled_libraries

__all__ = ["versions", "versions_text"]

_PACKAGES = ("torch", "torchvision", "numpy", "albumentations", "matplotlib")


def versions() -> dict[str, Any]:
    """``"fastpipe"``, ``"python"``, ``"platform"``, packages, ``"readers"`` and ``"unavailable"`` readers' reasons."""
    found: dict[str, Any] = {
        "fastpipe": fastpipe.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
    }
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    found["readers"] = bundled_libraries()
    found["unavailable"] = {name: status.reason for name, status in reader_status().items() if not status.available}
    return found


def versions_text(found: dict[str, Any]) -> str:
    """The same for people: a line each."""
    rows = [(name, str(value)) for name, value in found.items() if name not in ("readers", "unavailable")]
    for reader, libraries in found["readers"].items():
        inside = [f"{library} {version}" for library, version in libraries.items()]
        rows.append((f"reader {reader}", ", ".join(inside) or "version not known"))
    rows += [(f"reader {reader}", f"not here: {reason}") for reader, reason in found["unavailable"].items()]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
