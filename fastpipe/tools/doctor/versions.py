"""The versions of everything that has a say in the pixels or their speed, for reports of bugs."""

from __future__ import annotations

import platform
from typing import Any

import fastpipe
from fastpipe.environment import installed
from fastpipe.readers import reader_status
from fastpipe.readers.versions import bundled_libraries

_PACKAGES = ("torch", "torchvision", "numpy", "albumentations", "matplotlib")


def versions() -> dict[str, Any]:
    """What is installed, as far as it has a say in pixels or speed.

    Returns:
        ``"fastpipe"``, ``"python"``, ``"platform"``, packages; ``"readers"``: the libraries in each; ``"refused"``:
        what a reader doesn't decode because of a library's defect; ``"unavailable"``: why a reader doesn't load.
    """
    found: dict[str, Any] = {
        "fastpipe": fastpipe.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
    }
    found |= {name: version for name in _PACKAGES if (version := installed(name)) is not None}
    found["readers"] = bundled_libraries()
    status = reader_status()
    found["refused"] = {name: [str(defect) for defect in one.defects] for name, one in status.items() if one.defects}
    found["unavailable"] = {name: one.reason for name, one in status.items() if not one.available}
    return found


def versions_text(found: dict[str, Any]) -> str:
    """The same for people: a line each."""
    rows = [(name, str(value)) for name, value in found.items() if name not in ("readers", "refused", "unavailable")]
    for reader, libraries in found["readers"].items():
        inside = [f"{library} {version}" for library, version in libraries.items()]
        rows.append((f"reader {reader}", ", ".join(inside) or "version not known"))
    rows += [(f"not by {reader}", what) for reader, whats in found["refused"].items() for what in whats]
    rows += [(f"reader {reader}", f"not here: {reason}") for reader, reason in found["unavailable"].items()]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
