"""Measures in a quiet moment, on two of the script's own images, how much faster they decode packed: for the report."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Protocol

from fastpipe.clock import clock, uncounted
from fastpipe.foreign_code import outcome_of
from fastpipe.paths import shell_quoted
from fastpipe.plain_way import raise_interruption

if TYPE_CHECKING:
    from fastpipe.program.core_job import Encoded
    from fastpipe.types import Box

MOST_IMAGES = 2
"""The number of images of a site that a process measures."""
_MOST_BYTES = 1 << 20  # of a file that is measured: packing it takes up to 50 ms
_ROUNDS = 5
_LEAST_GAIN = 1.3
_MOST_SAVED = 0.9  # of an image's time; where more seems to be saved, the two times aren't of the same work


@dataclass
class PackingSamples:
    """Sums over images that were decoded as they are, and packed.

    Attributes:
        images: number of images; those that can't be packed among them, with the same time twice.
        seconds: the time that they took as they are: the median of some rounds.
        packed_seconds: this time without what packing saves: the median of the differences of each round.
        jpeg_bytes: bytes of the files.
        packed_bytes: bytes of the packed files.
        folders: the folders that they lie in, each once.
        root: the data set's folder, if the data set says it.
    """

    images: int = 0
    seconds: float = 0.0
    packed_seconds: float = 0.0
    jpeg_bytes: int = 0
    packed_bytes: int = 0
    folders: list[str] = field(default_factory=list)
    root: str = ""

    @property
    def saved_s(self) -> float:
        """Seconds an image that packing saves; 0 if nothing was measured."""
        return (self.seconds - self.packed_seconds) / self.images if self.images else 0.0

    def add(self, other: PackingSamples) -> None:
        """Adds the sums over other images."""
        self.root = self.root or other.root
        self.folders += [folder for folder in other.folders if folder not in self.folders]
        for name in ("images", "seconds", "packed_seconds", "jpeg_bytes", "packed_bytes"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def folder(self) -> str:
        """The data set's folder; ``""`` if unknown: the folder of all images that were measured may be one class's."""
        if self.root or len(self.folders) < 2:
            return self.root
        try:
            common = os.path.commonpath(self.folders)
        except ValueError:  # on two drives
            return ""
        return "" if os.path.dirname(common) == common else common

    def measure(self, data: bytes, make: Callable[[bytes], object], path: str, root: str = "") -> None:
        """Packs an image in memory, and makes both files' pixels in turns.

        Args:
            data: the file; nothing is done with one that is packed, or of more than a MiB.
            make: makes pixels from a file's bytes.
            path: the file's path, or another name.
            root: see the attributes.
        """
        from fastpipe.core.packed import is_packed, pack
        from fastpipe.errors import FastpipeError

        if self.images >= MOST_IMAGES or is_packed(data) or not 0 < len(data) <= _MOST_BYTES:
            return
        with uncounted():
            folders = [os.path.dirname(os.path.abspath(path))] if os.path.isfile(path) else []
            found = PackingSamples(1, 0.0, 0.0, len(data), len(data), folders, root)
            try:
                packed = pack(data)
            except FastpipeError:  # such as a PNG, which stays as it is
                self.add(found)
                return
            rounds = outcome_of(lambda: [(_seconds(make, data), _seconds(make, packed)) for _ in range(_ROUNDS)])
            if isinstance(rounds, Exception):  # of a file or step that the script meets elsewhere
                raise_interruption(rounds)
                return
            found.seconds = median(seconds for seconds, _ in rounds)
            found.packed_seconds = found.seconds - median(seconds - packed_s for seconds, packed_s in rounds)
            found.packed_bytes = len(packed)
            self.add(found)


class Measured(Protocol):
    """The counts of a `fastpipe.hooks.ledger.Site` that this module reads."""

    kind: str
    images: int
    timed: int
    seconds: float
    compared: int
    fast_seconds: float
    packing: PackingSamples


class DecodesToMeasure:
    """Decodes of checked images, kept with the files' bytes until there is time to measure them."""

    def __init__(self) -> None:
        self._noted: list[tuple[Measured, bytes, str, Box | None]] = []

    def note(self, site: Measured, encoded: Encoded, box: Box | None) -> None:
        """Notes that a box of an image is decoded; None for the whole image."""
        noted = sum(other is site for other, *_ in self._noted)
        if site.packing.images + noted < MOST_IMAGES and len(encoded.content) <= _MOST_BYTES:
            self._noted.append((site, encoded.content, encoded.source, box))

    def measure(self) -> None:
        """Measures the decodes that were noted."""
        if not self._noted:
            return
        from fastpipe.core.encoded import JpegOrPng, jpeg_or_png
        from fastpipe.program.core_job import Encoded

        noted, self._noted = self._noted, []
        for site, content, source, box in noted:

            def decode(data: bytes, box: Box | None = box) -> object:
                found = jpeg_or_png(data)
                if isinstance(found, JpegOrPng):
                    found.is_intact()  # looks at all checksums of a packed image, as when it is opened
                return Encoded.of(data).decode(box)

            site.packing.measure(content, decode, source)


def _seconds(make: Callable[[bytes], object], data: bytes) -> float:
    begun = clock()
    make(data)
    return clock() - begun


def _seconds_now(site: Measured) -> float:
    """Seconds of an image; of the checked images, which are those that were packed, if they took longer than others."""
    checked_s = site.fast_seconds / site.compared if site.compared else 0.0
    return max(site.seconds / site.timed, checked_s)


def packing_lines(sites: Sequence[Measured]) -> list[str]:
    """A line that says what packing would give a run; none where it is little, or nothing was measured."""
    timed = [site for site in sites if site.timed and site.kind != "loader"]
    now_s = sum(_seconds_now(site) * site.images for site in timed)
    total, saved_s = PackingSamples(), 0.0
    for site in sites:
        total.add(site.packing)
        saved_s += site.packing.saved_s * site.images
    if total.images < MOST_IMAGES or saved_s > _MOST_SAVED * now_s or now_s < _LEAST_GAIN * (now_s - saved_s):
        return []
    times = math.floor(now_s / (now_s - saved_s) * 10) / 10
    larger = math.ceil(total.packed_bytes / total.jpeg_bytes * 10) / 10
    source, target = (total.folder, f"{total.folder}-packed") if total.folder else ("DATA", "PACKED")
    command = f"fastpipe pack {shell_quoted(source)} {shell_quoted(target)} --keep-names"
    return [
        f"{command} would make this {times:.1f} times as fast, for {larger:.1f} times the bytes: measured on "
        f"{total.images} of its images. The script then reads the copy."
    ]
