"""The kinds of findings, and a check's results in arrays: a few numbers for each file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fastpipe.datasets import ImageIndex
    from fastpipe.index.table import Array


class Kind(NamedTuple):
    """One kind of finding: its name, whether a file with it fails in training, and what it means."""

    name: str
    bad: bool
    meaning: str


KINDS = (
    Kind("empty", True, "zero bytes"),
    Kind("truncated", True, "the file ends before the image does"),
    Kind("unreadable", True, "an image by its first bytes, but Pillow can't decode it"),
    Kind("not-an-image", True, "something else under an image's name"),
    Kind("over-limit", True, "more than twice the pixel limit: Pillow refuses it"),
    Kind("unreachable", True, "can't be opened or read: permissions, a dead link, no regular file, a failing disk"),
    Kind("hang", True, "not read and decoded within --timeout, twice: the file's fault, or a stalled disk's"),
    Kind("crash", True, "killed the process that read it, twice"),
    Kind("annotation", True, "an annotation lacks a field, or has no usable value in one"),
    Kind("damaged", False, "Pillow decodes it without an error, but another decoder complains: look at the picture"),
    Kind("mislabelled", False, "the content is of another format than the extension says"),
    Kind("near-limit", False, "more pixels than the pixel limit: Pillow warns each time"),
    Kind("large", False, "the shorter side is more than 4 times what training needs (--size)"),
    Kind("cmyk", False, "four inks; converted without a colour profile"),
    Kind("16-bit", False, "more than 8 bits a sample; Pillow turns gray values above 255 white"),
    Kind("alpha", False, "transparency, which is dropped: hidden pixels become visible"),
    Kind("palette", False, "at most 256 colours from a table"),
    Kind("animated", False, "several frames, of which the first is used"),
    Kind("multi-page", False, "several pictures in one file (MPO, TIFF), of which the first is used"),
    Kind("progressive", False, "stored in several passes (interlaced PNG likewise): slow to decode, no region decode"),
    Kind("rotated", False, "lies on its side or is mirrored unless EXIF orientation is applied (apply_exif=True)"),
    Kind("unusual", False, "a rare format, colour space or shape; the reason says which"),
    Kind("warns", False, "Pillow warns about it; the reason says what"),
    Kind(
        "packed",
        False,
        "packed under its own name: read by fastpipe, and in scripts under fastpipe run, alone",
    ),
)
"""The kinds of findings, the bad ones first: where ``fastpipe.ImageFolder`` (and torchvision's) would raise."""

BAD = frozenset(kind.name for kind in KINDS if kind.bad)
"""The names of the kinds that would fail in training."""

_BIT = {kind.name: 1 << number for number, kind in enumerate(KINDS)}
_ROW = np.dtype(
    {
        "names": ["bits", "bytes", "format", "height", "width", "orientation"],
        "formats": ["u4", "i8", "u1", "u4", "u4", "u1"],
    }
)
_BAD_BITS = sum(_BIT[name] for name in BAD)


def bits_of(names: Iterable[str]) -> int:
    """Converts names of kinds to one number."""
    return sum(_BIT[name] for name in set(names))


def names_of(bits: int) -> tuple[str, ...]:
    """Converts a number from `bits_of` back to names, in the order of `KINDS`."""
    return tuple(name for name, bit in _BIT.items() if bits & bit)


class FileFacts(NamedTuple):
    """The facts about one file; a list in JSON."""

    bits: int  # the kinds of findings, as from `bits_of`; 0 for none
    bytes: int = -1  # the file's size; -1 if it can't be reached
    format: str = ""  # Pillow's name of the format; ``""`` if unknown
    # height and width: in pixels, before any EXIF orientation; 0 if unknown
    height: int = 0
    width: int = 0
    orientation: int = 1  # the EXIF orientation, 1 to 8
    text: str = ""  # an error's reason, or a reader's complaint


@dataclass(frozen=True, slots=True)
class FileRow:
    """One file with a finding."""

    number: int  # its position in the index, from 0
    path: str  # the path in the index, relative to the root
    kinds: tuple[str, ...]  # names from `KINDS`
    bad: bool  # True if it would fail in training, False if it is only noted
    reason: str  # in words
    format: str  # this and the next attributes are as in `FileFacts`
    height: int
    width: int
    bytes: int

    @property
    def verdict(self) -> str:
        """``"bad"`` or ``"noted"``."""
        return "bad" if self.bad else "noted"


class Findings:
    """The results for n files: 22 bytes for each file, and a text for the few that need one.

    Attributes:
        table: ``(n,)``, records of `_ROW`.
        texts: the texts by the file's number.
        names: the names of formats, to which the table's numbers refer.
    """

    def __init__(self, count: int) -> None:
        self.table: Array = np.zeros(count, _ROW)
        self.table["bytes"] = -1
        self.texts: dict[int, str] = {}
        self.names: list[str] = [""]

    def put(self, number: int, seen: FileFacts) -> None:
        """Stores the facts about a file."""
        if seen.format not in self.names:
            self.names.append(seen.format)
        self.table[number] = (*seen[:2], self.names.index(seen.format), *seen[3:6])
        self.texts.pop(number, None)
        if seen.text:
            self.texts[number] = seen.text

    @property
    def bits(self) -> NDArray[np.uint32]:
        """The kinds of each file, as from `bits_of`: uint32 ``(n,)``."""
        bits: NDArray[np.uint32] = self.table["bits"]
        return bits

    @property
    def bad(self) -> NDArray[np.bool_]:
        """True for files that would fail in training: bool ``(n,)``."""
        bad: NDArray[np.bool_] = self.bits & _BAD_BITS != 0
        return bad

    def counts(self) -> dict[str, int]:
        """The number of files with each kind of finding, for the kinds that occur."""
        counted = {name: int(np.count_nonzero(self.bits & bit)) for name, bit in _BIT.items()}
        return {name: count for name, count in counted.items() if count}


class Rows(Sequence[FileRow]):
    """Files with a finding, bad ones first, then in the index's order; `FileRow`s are made on access."""

    def __init__(self, index: ImageIndex, findings: Findings, picks: Array) -> None:
        self._index = index
        self._findings = findings
        self._picks = picks

    def __len__(self) -> int:
        return len(self._picks)

    @overload
    def __getitem__(self, item: int) -> FileRow: ...
    @overload
    def __getitem__(self, item: slice) -> list[FileRow]: ...
    def __getitem__(self, item: int | slice) -> FileRow | list[FileRow]:
        picked = self._picks[item]
        return [self._row(int(number)) for number in picked] if isinstance(item, slice) else self._row(int(picked))

    def __repr__(self) -> str:
        return f"<{len(self)} rows of files>"

    def _row(self, number: int) -> FileRow:
        findings = self._findings
        bits, bytes, named, height, width, orientation = findings.table[number].item()
        format = findings.names[named]
        path = self._index.path(number).removeprefix(self._index.prefix)
        parts = [findings.texts[number]] if number in findings.texts else []
        kinds = names_of(bits)
        if "mislabelled" in kinds:
            parts.append(f"the content is {format}, the extension {os.path.splitext(path)[1]}")
        if "large" in kinds or "near-limit" in kinds:
            parts.append(f"{height}×{width} pixels")
        if "rotated" in kinds:
            parts.append(f"EXIF orientation {orientation}")
        return FileRow(number, path, kinds, bool(bits & _BAD_BITS), "; ".join(parts), format, height, width, bytes)
