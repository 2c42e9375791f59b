"""Converts the bytes of one file and verifies the result, or says why the file stays as it is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import NamedTuple, TypeAlias

from fastpipe.core.packed import is_packed, original_of, pack, same_coefficients, unpack
from fastpipe.environment import versions
from fastpipe.errors import DecodeError, NotPackableError
from fastpipe.index.extensions import has_file_allowed_extension
from fastpipe.packing.names import IMAGES, PACKED, UNPACKED
from fastpipe.packing.smaller import Changes, Smaller
from fastpipe.readers.header import guess_format

_JPEG = ".jpg"  # used if the original's ending isn't known
_UNPROVED = "its proof failed: please report it"


class Converted(NamedTuple):
    """A file's bytes for the target."""

    data: bytes
    kept: str = ""  # why the file is kept unconverted; ``""`` if it is converted
    change: Changes | None = None  # how the image was made smaller first; None if it wasn't
    # packing: the packed image restores the JPEG's bytes; unpacking: the JPEG has the bytes that were packed
    exact: bool = False
    # the image is a smaller copy of the user's: made in this run or, unpacking, before it was packed
    smaller: bool = False
    ending: str = ""  # the file name's ending for an unpacked JPEG
    # the original file's time of the last modification, in ns since 1970; None if unknown
    modified_ns: int | None = None


@dataclass(frozen=True)
class Packing:
    """Converts JPEGs to packed images. Picklable; `Unpacking` has the same interface without `smaller`.

    Attributes:
        smaller: makes images smaller first; None to keep their size.
        discard_original_bytes: leave out the data needed to restore the JPEGs' own bytes.
        verb: the command's name.
        ending: the ending of converted files.
    """

    smaller: Smaller | None = None
    discard_original_bytes: bool = False

    verb = "pack"
    ending = PACKED

    @property
    def growth(self) -> float:
        """The approximate ratio of bytes after the conversion to bytes before."""
        return 1.2 if self.smaller is None else 1.0

    @property
    def about(self) -> dict[str, object]:
        """The options that the result depends on, representable in JSON."""
        about: dict[str, object] = {} if self.discard_original_bytes else {"original_bytes": True}
        if self.smaller is not None:
            about["smaller"] = {**asdict(self.smaller), "pillow": versions("pillow")["pillow"]}
        return about

    def takes(self, name: str) -> bool:
        """True if a file of that name may have to be converted."""
        return has_file_allowed_extension(name, IMAGES)

    def convert(self, data: bytes, ending: str = "", modified_ns: int | None = None) -> Converted:
        """Converts a file, and verifies that the packed image restores the same file, or has the same coefficients.

        Args:
            data: the file's bytes.
            ending: the ending of its name.
            modified_ns: the time of its last modification; None if unknown.
        """
        change = None
        exact = not self.discard_original_bytes
        kept = ""
        try:
            if self.smaller is not None:
                data, change = self.smaller.apply(data)
            if exact:
                packed = pack(data, ending=ending, modified_ns=modified_ns, made_smaller=change is not None)
            else:
                packed = pack(data, discard_original_bytes=True)
                kept = "" if same_coefficients(data, packed) else _UNPROVED
        except NotPackableError as error:
            kept = _reason(data) or error.reason
        return Converted(data if kept else packed, kept, change, exact=exact and not kept, smaller=change is not None)


@dataclass(frozen=True)
class Unpacking:
    """Converts packed images back to JPEGs."""

    verb = "unpack"
    ending = UNPACKED
    growth = 1 / 1.2

    @property
    def about(self) -> dict[str, object]:
        return {}

    def takes(self, name: str) -> bool:
        return has_file_allowed_extension(name, (PACKED.new, *IMAGES))

    def convert(self, data: bytes, ending: str = "", modified_ns: int | None = None) -> Converted:
        """Converts a file; verifies that both have the same coefficients, and the JPEG's SHA-256 if there is one."""
        if not is_packed(data):
            return Converted(data, "it isn't packed")
        try:
            jpeg = unpack(data)
        except DecodeError as error:
            return Converted(data, error.reason)
        if not same_coefficients(jpeg, data):
            return Converted(data, _UNPROVED)
        original = original_of(data)
        if original is None:
            return Converted(jpeg, ending=_JPEG)
        ending = original.ending if original.ending.lower() in IMAGES else _JPEG
        return Converted(
            jpeg, exact=True, smaller=original.made_smaller, ending=ending, modified_ns=original.modified_ns
        )


Conversion: TypeAlias = Packing | Unpacking


def _reason(data: bytes) -> str:
    """Why a file that is no JPEG isn't packed; ``""`` for JPEGs."""
    if is_packed(data):
        return "it is packed already"
    format = guess_format(data)
    return "" if format == "JPEG" else f"it is {format}, no JPEG" if format else "it is no known image format"
