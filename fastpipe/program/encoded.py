"""An encoded image: a file's bytes, its header, and how they are to be decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastpipe import core, readers
from fastpipe.config import MachineConfig
from fastpipe.readers import MaxPixels
from fastpipe.readers.base import WHOLE_IMAGE
from fastpipe.types import Box, DecodeRequest, Header

if TYPE_CHECKING:
    from fastpipe.readers.partial import PartialFile

_WHOLE = Box(0, 0, 0, 0)  # all of a file, for a job


@dataclass(slots=True)
class Encoded:
    """A file's bytes, and how they are to be decoded.

    Attributes:
        data: the whole file; empty where `held` has it.
        header: of it.
        source: what an error calls it.
        reader: a reader's name; None for the config's choice.
        config: the machine's config; None for the current one.
        max_pixels: what an image may have, as `fastpipe.readers.read_image` says.
        held: the files that the core has read, and the number of this one among them; until they are read anew.
        place: of the bytes, where `held` has them, as `fastpipe.core.Files.outcomes` gives it.
        partial: the file in a store, of which `held` has the beginning; None where it is all here.
    """

    data: bytes
    header: Header
    source: str = "<bytes>"
    reader: str | None = None
    config: MachineConfig | None = None
    max_pixels: MaxPixels = "auto"
    held: tuple[core.Files, int] | None = None
    place: tuple[int, ...] = (0, 0)
    partial: PartialFile | None = None

    @property
    def content(self) -> bytes:
        """The whole file as an object of its own; of a partial one it is read now."""
        if self.partial is not None and not self.data:
            self.data = self.partial.whole()
        elif self.held is not None and not self.data:
            files, number = self.held
            self.data = files.bytes(number)
        return self.data

    def give_to(self, job: core.Job, box: Box | None, limits: tuple[int, int]) -> None:
        """Makes the file a job's source; a box of it, or all."""
        if self.partial is not None:
            if self.data or self.partial.missing(box or Box(0, 0, *self.header.size)):
                job.read(self.content, box or _WHOLE, limits)
            else:
                job.read_place(self.partial.place, box or _WHOLE, limits)
        elif self.held is None:
            job.read(self.data, box or _WHOLE, limits)
        else:
            job.read_place(self.place, box or _WHOLE, limits)

    def decode(self, request: DecodeRequest = WHOLE_IMAGE, *, refused: bool = False) -> tuple[Any, DecodeRequest]:
        """Decodes the file by its reader; arguments and result as of `fastpipe.readers.decode`."""
        return readers.decode(
            self.content,
            request,
            header=self.header,
            reader=self.reader,
            config=self.config,
            source=self.source,
            max_pixels=self.max_pixels,
            refused=refused,
        )

    @classmethod
    def of(cls, data: bytes, source: str = "<bytes>", **options: Any) -> Encoded:
        """Parses the header of a file's bytes."""
        return cls(data, readers.parse_header(data, source), source, **options)
