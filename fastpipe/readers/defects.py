"""Library versions with a known defect in a path that fastpipe would use: refused for that path, and for no other.

A row names what happens and where it is told; `fastpipe doctor --versions` and `fastpipe bench` print those that hold
here. A defect that no file can reach through fastpipe has no row: of the many in libjpeg-turbo's partial decoding,
most need options that fastpipe never sets (fast upsampling, colour quantisation).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Defect:
    """A range of versions of a library that some formats aren't read with.

    Attributes:
        reader: which reader it concerns.
        formats: what isn't read, by Pillow's names.
        library: as `fastpipe.readers.versions.libraries_of` calls it.
        since: the first version with the defect.
        fixed: the first version without it.
        reason: what happens.
        link: where that is told.
        regions: it is only parts of an image that aren't decoded.
    """

    reader: str
    formats: frozenset[str]
    library: str
    since: str
    fixed: str
    reason: str
    link: str
    regions: bool = False

    def concerns(self, version: str) -> bool:
        """Whether a version has the defect; one that can't be told is taken for whole."""
        number = _number(version)
        return bool(number) and _number(self.since) <= number < _number(self.fixed)

    def __str__(self) -> str:
        formats = ("regions of " if self.regions else "") + ", ".join(sorted(self.formats))
        return (
            f"{formats} with {self.library} before {self.fixed}: {self.reason} ({self.link}); "
            f"install {self.fixed} or later"
        )


_JPEG = frozenset({"JPEG", "MPO"})
_TURBO_CHANGES = "https://github.com/libjpeg-turbo/libjpeg-turbo/blob/main/ChangeLog.md"

DEFECTS = (
    Defect(
        "cv2",
        _JPEG,
        "opencv",
        "0",
        "4.12",
        "a damaged file gets other pixels than Pillow's (before 4.10), or writes to memory that isn't its own and "
        "shows the image decoded before (CVE-2025-53644)",
        "https://github.com/opencv/opencv/issues/26488",
    ),
    Defect(
        "cv2",
        frozenset({"WEBP"}),
        "opencv",
        "0",
        "4.8.1",
        "the libwebp that it bundles writes behind its tables (CVE-2023-4863)",
        "https://github.com/advisories/GHSA-jh2j-j4j9-crg3",
    ),
    Defect(
        "torchvision",
        _JPEG,
        "libjpeg-turbo",
        "0",
        "2.0.3",
        "4:4:0 chroma gets other pixels than Pillow's",
        _TURBO_CHANGES,
    ),
    Defect(
        "turbojpeg",
        _JPEG,
        "libjpeg-turbo",
        "2.1.90",
        "2.1.92",
        "of a reduced image, a part is converted from memory that nobody wrote",
        "https://github.com/libjpeg-turbo/libjpeg-turbo/issues/669",
        regions=True,
    ),
    Defect(
        "pil",
        frozenset({"PSD"}),
        "pillow",
        "10.3",
        "12.2",
        "a made-up file writes outside of the image (CVE-2026-25990, CVE-2026-42311)",
        "https://pillow.readthedocs.io/en/stable/releasenotes/12.2.0.html",
    ),
    Defect(
        "pil",
        frozenset({"FITS"}),
        "pillow",
        "10.3",
        "12.2",
        "a small file unpacks to all of the memory (CVE-2026-40192)",
        "https://github.com/advisories/GHSA-whj4-6x5x-4v2j",
    ),
    Defect(
        "pil",
        frozenset({"FPX"}),
        "pillow",
        "0",
        "13",
        "a made-up file writes outside of the image (CVE-2026-112398)",
        "https://pillow.readthedocs.io/en/stable/releasenotes/13.0.0.html",
    ),
)


def defects_among(reader: str, libraries: Mapping[str, str]) -> tuple[Defect, ...]:
    """The rows that hold for a reader made of these library versions."""
    return tuple(
        defect for defect in DEFECTS if defect.reader == reader and defect.concerns(libraries.get(defect.library, ""))
    )


def _number(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    parts = [int(part) for part in found[0].split(".")] if found else []
    while parts and parts[-1] == 0 and len(parts) > 1:
        parts.pop()
    return tuple(parts)
