"""The small frozen values that the packages hand to each other.

Sizes are ``(height, width)`` and boxes ``(top, left, height, width)``, in pixels, as in torchvision; they
are turned into ``(x, y)`` order only where cv2, Pillow or libjpeg-turbo is called.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    import torch

__all__ = [
    "ArchiveMember",
    "Box",
    "Generators",
    "Header",
    "ImageShape",
    "Recipe",
    "RemoteFile",
    "Size",
    "Source",
    "Step",
    "new_namedtuple",
]

Item = TypeVar("Item")

Ints: TypeAlias = int | Sequence[int]
"""Whole numbers for each side of an image, or one for all."""

Floats: TypeAlias = float | Sequence[float]

Fill: TypeAlias = float | Sequence[float] | None
"""The value where an image has no pixels: a number, one for each channel, or None for black."""


Turn: TypeAlias = tuple[bool, bool, bool]
"""A turn of an image: whether rows and columns change places, whether rows then run back, and whether columns do."""

Sample: TypeAlias = tuple[Any, Any]
"""An image and its target, of whatever classes the user's transforms give."""


LoadMask: TypeAlias = "Callable[[Box, torch.Tensor | None], torch.Tensor]"
"""Makes a region of masks, uint8 ``(N, h, w)``; of those at some positions, or of all (None)."""


class ArchiveMember(str):
    """The name of a file in a container, with the place of its bytes.

    A path like any other for messages, reports and logs: the container's path, and the name in it. What reads bytes
    (`fastpipe.readers`, the core, the tools) reads that part of the container; ``open(member)`` finds no such file:
    a loader of your own takes ``fastpipe.readers.read_file(member)``.

    Attributes:
        container: the path of the file that holds it: a zip, a tar, a Parquet file.
        offset: where its bytes begin in there.
        length: how many they are.
    """

    __slots__ = ("container", "length", "offset")

    container: str
    offset: int
    length: int

    def __new__(cls, name: str, container: str, offset: int, length: int) -> ArchiveMember:
        made = super().__new__(cls, name)
        made.container, made.offset, made.length = container, offset, length
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return ArchiveMember, (str(self), self.container, self.offset, self.length)


class Source(Protocol):
    """The part of `fastpipe.ByteSource` that `RemoteFile` uses."""

    @property
    def identity(self) -> str:
        """A name that no other source has."""

    def url(self, key: str) -> str:
        """A file's name, for messages."""

    def read(self, key: str, offset: int = 0, length: int = -1) -> bytes:
        """Bytes of a file."""

    def read_file(self, file: RemoteFile) -> bytes:
        """Reads all bytes of a file, or of a part of one."""

    def fetch(self, files: Sequence[RemoteFile]) -> Sequence[bytes | str | Exception]:
        """The bytes of several files, or the path of a local copy; for one that can't be read the error."""


class RemoteFile(ArchiveMember):
    """The name of a remote file, or of a part of one, with the source of its bytes.

    A path like any other for messages, reports and logs. What reads bytes (`fastpipe.readers`, the datasets, the tools)
    asks the source for them; a loader of your own takes ``fastpipe.readers.read_file(remote)``.

    Attributes:
        source: the `fastpipe.ByteSource` that has it.
        key: what the source calls the file, or the container that this is a part of.
        container: the same as a URL, for messages.
        offset: where the bytes begin in there.
        length: how many they are; -1 where nobody knows.
        version: changes when the file changes, as far as the source can tell; 0 where it can't.
        whole: whether this is all of the file; else `offset` and `length` say which part.
    """

    __slots__ = ("key", "source", "version", "whole")

    source: Source
    key: str
    version: int
    whole: bool

    def __new__(
        cls,
        name: str,
        source: Source,
        key: str,
        offset: int = 0,
        length: int = -1,
        version: int = 0,
        whole: bool = True,
    ) -> RemoteFile:
        made = str.__new__(cls, name)
        made.source, made.key, made.version, made.whole = source, key, version, whole
        made.container, made.offset, made.length = source.url(key), offset, length
        return made

    def part(self, begin: int, length: int) -> RemoteFile:
        """`length` of its bytes, from byte `begin` on, as a file of the same name."""
        return RemoteFile(self, self.source, self.key, self.offset + begin, length, self.version, False)

    def __reduce__(self) -> tuple[object, ...]:
        return RemoteFile, (str(self), self.source, self.key, self.offset, self.length, self.version, self.whole)


new_namedtuple: Any = tuple.__new__
"""Makes a named tuple, `ImageShape` say, of all its fields: ``new_namedtuple(ImageShape, (height, width, channels))``.

In a third of the time of its own constructor, which is a function in Python: for what is made for each image.
"""


class Size(NamedTuple):
    """Height and width of an image, in pixels."""

    height: int
    width: int


class Box(NamedTuple):
    """A rectangle of pixels; torchvision's ``(top, left, height, width)``."""

    top: int
    left: int
    height: int
    width: int

    @property
    def size(self) -> Size:
        return Size(self.height, self.width)

    @property
    def bottom(self) -> int:
        """First row below the box."""
        return self.top + self.height

    @property
    def right(self) -> int:
        """First column right of the box."""
        return self.left + self.width

    def turned_back(self, turn: Turn, size: tuple[int, int]) -> Box:
        """The box of an image that becomes this box of the turned image, which has that ``(height, width)``."""
        swapped, rows_back, columns_back = turn
        top = size[0] - self.bottom if rows_back else self.top
        left = size[1] - self.right if columns_back else self.left
        return Box(left, top, self.width, self.height) if swapped else Box(top, left, self.height, self.width)

    def inside(self, size: tuple[int, int]) -> bool:
        """Whether every pixel of the box is a pixel of an image of that ``(height, width)``."""
        return self.top >= 0 and self.left >= 0 and self.bottom <= size[0] and self.right <= size[1]


class ImageShape(NamedTuple):
    """Height, width and channels: all that a draw may know of an image."""

    height: int
    width: int
    channels: int = 3

    @property
    def size(self) -> Size:
        return Size(self.height, self.width)


class Header(NamedTuple):
    """The header of an image file, read from its first bytes without decoding a pixel.

    The claims are the file's: nothing is allocated on their word alone.

    Attributes:
        format: Pillow's name of the format (``"JPEG"``, ``"PNG"``, ``"WEBP"``, …), or ``"FPJ"``: a packed image.
        height: rows, in pixels, before any EXIF orientation.
        width: columns, in pixels, before any EXIF orientation.
        channels: samples per pixel as stored (a palette image has 1).
        bit_depth: bits per sample as stored.
        color_space: ``"YCbCr"``, ``"RGB"``, ``"L"``, ``"CMYK"``, ``"YCCK"``, ``"P"``, ``"RGBA"``, ``"LA"``,
            or Pillow's mode where none of these fits.
        subsampling: chroma subsampling of a JPEG or lossy WebP (``"4:2:0"``); None where the notion
            doesn't apply, ``"unknown"`` for factors without a common name.
        progressive: a progressive JPEG or an interlaced PNG or GIF.
        orientation: the EXIF orientation, 1 to 8; 1 where none (or none of these) is given.
        animated: more than one frame.
        transparency: a transparent colour or palette entries beside the pixels (PNG ``tRNS``).
        data_offset: where compressed pixel data starts, in bytes (a JPEG's first scan); -1 if not known.
        plain: the header holds nothing that keeps a fast reader from Pillow's pixels (see `readers`).
    """

    format: str
    height: int
    width: int
    channels: int
    bit_depth: int
    color_space: str
    subsampling: str | None = None
    progressive: bool = False
    orientation: int = 1
    animated: bool = False
    transparency: bool = False
    data_offset: int = -1
    plain: bool = False

    @property
    def size(self) -> Size:
        return Size(self.height, self.width)


class PythonRandom(Protocol):
    """Python's generator of random numbers: a ``random.Random``, or for the global one the module ``random``."""

    def choice(self, seq: Sequence[Item]) -> Item: ...
    def choices(self, population: Sequence[Item], weights: Sequence[float] | None) -> list[Item]: ...
    def gauss(self, mu: float, sigma: float) -> float: ...
    def getstate(self) -> tuple[Any, ...]: ...
    def randint(self, a: int, b: int) -> int: ...
    def random(self) -> float: ...
    def seed(self, a: int) -> None: ...
    def setstate(self, state: tuple[Any, ...]) -> None: ...
    def shuffle(self, x: list[Item]) -> None: ...
    def uniform(self, a: float, b: float) -> float: ...


@dataclass(frozen=True, slots=True)
class Generators:
    """The generators of random numbers: torchvision draws from torch's and Python's, timm also from numpy's.

    Attributes:
        torch: None for torch's global generator.
        python: ``random.Random`` or, for the global one, the module ``random`` itself.
        numpy: ``numpy.random.RandomState``; None for numpy's global generator.
    """

    torch: torch.Generator | None = None
    python: PythonRandom = field(default=random)
    numpy: Any = None


class Step(Protocol):
    """One drawn operation of a recipe: a frozen, printable, picklable value with no randomness left."""

    def apply(self, image: Any) -> Any:
        """The operation on a PIL image, an ndarray ``(H, W, C)`` or a tensor ``(…, C, H, W)``."""

    def output_shape(self, shape: ImageShape) -> ImageShape:
        """The shape that `apply` gives an image of that shape, worked out without pixels."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Every random parameter of every transform for one image: what `run` will do to it, in order.

    Attributes:
        shape: the image that it was drawn for.
        steps: the drawn operations.
        index: the sample of the dataset that drew it; None where no dataset did. Takes no part in comparisons.
        epoch: the epoch that it was drawn for, of a dataset with a seed. Takes no part in comparisons.
    """

    shape: ImageShape
    steps: tuple[Step, ...]
    index: int | None = field(default=None, compare=False)
    epoch: int | None = field(default=None, compare=False)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __str__(self) -> str:
        head = f"{self.shape.height}×{self.shape.width}"
        return " → ".join([head, *map(str, self.steps)])
