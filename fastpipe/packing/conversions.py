"""Packing and unpacking: the bytes of one file → the bytes of the converted one, proved, or why it stays as it is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import NamedTuple, TypeAlias

from fastpipe.core.packed import is_packed, original_of, pack, same_coefficients, unpack
from fastpipe.environment import versions
from fastpipe.errors import DecodeError, NotPackableError
from fastpipe.index.listing import has_file_allowed_extension
from fastpipe.packing.names import IMAGES, PACKED, UNPACKED
from fastpipe.packing.smaller import Change, Smaller
from fastpipe.readers.header import guess_format

_JPEG = ".jpg"  # where the original's ending isn't known
_UNPROVED = "its proof failed: please report it"


class Converted(NamedTuple):
    """The bytes of a file for the target."""

    data: bytes
    kept: str = ""  # why they are the source's own; ``""`` where they are converted
    change: Change | None = None  # how it was made smaller before; None where it wasn't
    # whether a packed image gives the JPEG's own bytes back; whether a JPEG is the one that was packed
    exact: bool = False
    ending: str = ""  # of the name of a JPEG that was unpacked
    # when the file that was packed was last modified, in ns since 1970; None where that isn't known
    modified_ns: int | None = None


@dataclass(frozen=True)
class Packing:
    """JPEGs → packed images; picklable, as `Unpacking`, which has the same attributes and methods but `smaller`.

    Attributes:
        smaller: makes images smaller before; None for none.
        discard_original_bytes: whether what it takes to make the JPEGs' own bytes again is left out.
        verb: the command's name.
        ending: of converted files.
    """

    smaller: Smaller | None = None
    discard_original_bytes: bool = False

    verb = "pack"
    ending = PACKED

    @property
    def growth(self) -> float:
        """Bytes after the conversion divided by bytes before, about."""
        return 1.2 if self.smaller is None else 1.0

    @property
    def about(self) -> dict[str, object]:
        """The options that the result depends on, as JSON has them."""
        about: dict[str, object] = {} if self.discard_original_bytes else {"original_bytes": True}
        if self.smaller is not None:
            about["smaller"] = {**asdict(self.smaller), "pillow": versions("pillow")["pillow"]}
        return about

    def takes(self, name: str) -> bool:
        """Whether a file of that name may be one to convert."""
        return has_file_allowed_extension(name, IMAGES)

    def convert(self, data: bytes, ending: str = "", modified_ns: int | None = None) -> Converted:
        """Converts a file, and proves it: the packed image gives the same file, or has the same coefficients.

        Args:
            data: the file.
            ending: of its name.
            modified_ns: when it was last modified; None where that isn't known.
        """
        change = None
        try:
            if self.smaller is not None:
                data, change = self.smaller.apply(data)
            if not self.discard_original_bytes:
                return Converted(pack(data, ending=ending, modified_ns=modified_ns), "", change, exact=True)
            packed = pack(data, discard_original_bytes=True)
        except NotPackableError as error:
            return Converted(data, _reason(data) or error.reason, change)
        return Converted(packed, "", change) if same_coefficients(data, packed) else Converted(data, _UNPROVED, change)


@dataclass(frozen=True)
class Unpacking:
    """Packed images → JPEGs."""

    verb = "unpack"
    ending = UNPACKED
    growth = 1 / 1.2

    @property
    def about(self) -> dict[str, object]:
        return {}

    def takes(self, name: str) -> bool:
        return has_file_allowed_extension(name, (PACKED.new, *IMAGES))

    def convert(self, data: bytes, ending: str = "", modified_ns: int | None = None) -> Converted:
        """Converts a file, and proves it: both have the same coefficients, and the JPEG its own SHA-256."""
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
        return Converted(jpeg, exact=True, ending=ending, modified_ns=original.modified_ns)


Conversion: TypeAlias = Packing | Unpacking


def _reason(data: bytes) -> str:
    """The reason why a file that is no JPEG isn't packed; ``""`` for JPEGs."""
    if is_packed(data):
        return "it is packed already"
    format = guess_format(data)
    return "" if format == "JPEG" else f"it is {format}, no JPEG" if format else "it is no image that is known"
