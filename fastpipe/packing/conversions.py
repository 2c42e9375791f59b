"""Packing and unpacking: the bytes of one file → the bytes of the converted one, proved, or why it stays as it is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeAlias

from fastpipe.core.packed import is_packed, pack, same_coefficients, unpack
from fastpipe.environment import versions
from fastpipe.errors import DecodeError, NotPackableError
from fastpipe.index.listing import has_file_allowed_extension
from fastpipe.packing.names import IMAGES, PACKED, UNPACKED
from fastpipe.packing.smaller import Change, Smaller
from fastpipe.readers.header import guess_format

_UNPROVED = "its proof failed: please report it"


class Converted(NamedTuple):
    """The bytes of a file for the target.

    Attributes:
        data: these bytes.
        kept: why they are the source's own; ``""`` where they are converted.
        change: how it was made smaller before; None where it wasn't.
    """

    data: bytes
    kept: str = ""
    change: Change | None = None


@dataclass(frozen=True)
class Packing:
    """JPEGs → packed images; picklable, as `Unpacking`, which has the same attributes and methods but `smaller`.

    Attributes:
        smaller: makes images smaller before; None for none.
        verb: the command's name.
        ending: of converted files.
    """

    smaller: Smaller | None = None

    verb = "pack"
    ending = PACKED

    @property
    def growth(self) -> float:
        """Bytes behind over bytes before, about."""
        return 1.2 if self.smaller is None else 1.0

    @property
    def about(self) -> dict[str, Any]:
        """The options that the result depends on, as JSON has them."""
        if self.smaller is None:
            return {}
        return {"smaller": {**asdict(self.smaller), "pillow": versions("pillow")["pillow"]}}

    def takes(self, name: str) -> bool:
        """Whether a file of that name may be one to convert."""
        return has_file_allowed_extension(name, IMAGES)

    def convert(self, data: bytes) -> Converted:
        """Converts a file, and proves it: both have the same coefficients."""
        change = None
        try:
            if self.smaller is not None:
                data, change = self.smaller.apply(data)
            packed = pack(data)
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
    def about(self) -> dict[str, Any]:
        return {}

    def takes(self, name: str) -> bool:
        return has_file_allowed_extension(name, (PACKED.new, *IMAGES))

    def convert(self, data: bytes) -> Converted:
        if not is_packed(data):
            return Converted(data, "it isn't packed")
        try:
            jpeg = unpack(data)
        except DecodeError as error:
            return Converted(data, error.reason)
        return Converted(jpeg) if same_coefficients(jpeg, data) else Converted(data, _UNPROVED)


Conversion: TypeAlias = Packing | Unpacking


def _reason(data: bytes) -> str:
    """The reason why a file that is no JPEG isn't packed; ``""`` for JPEGs."""
    if is_packed(data):
        return "it is packed already"
    format = guess_format(data)
    return "" if format == "JPEG" else f"it is {format}, no JPEG" if format else "it is no image that is known"
