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
    import numpy as np
    import PIL.Image
    import torch
    from numpy.typing import NDArray

__all__ = [
    "PACKED_SIGNATURE",
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
    "is_packed",
    "new_namedtuple",
]

PACKED_SIGNATURE = b"\x89FPJ\r\n\x1a\n"
"""The bytes that every packed image begins with, whatever its file is called."""

Item = TypeVar("Item")

Array: TypeAlias = "NDArray[np.generic]"
"""An image or a mask as an array: ``(H, W)`` or ``(H, W, C)``."""

Image: TypeAlias = "torch.Tensor | PIL.Image.Image | Array"
"""An image of a class that transforms take: a tensor ``(…, C, H, W)``, a PIL image, or an array."""

ImageTransform: TypeAlias = Callable[[Any], Any]
"""A transform of any library's, called with an image, or with the sample of which it takes one."""

Ints: TypeAlias = int | Sequence[int]
"""An integer for each side of an image, or one for all."""

Floats: TypeAlias = float | Sequence[float]

Fill: TypeAlias = float | Sequence[float] | None
"""The value of pixels outside of an image: a number, one number for each channel, or None for black."""


Turn: TypeAlias = tuple[bool, bool, bool]
"""A turn of an image: whether rows and columns are swapped, whether rows are then reversed, whether columns are."""

Sample: TypeAlias = tuple[Any, Any]
"""An image and its target, of the classes that the user's transforms return."""

Target: TypeAlias = Any
"""A sample's target, as the user's dataset gives it: of any class."""

Transform: TypeAlias = Callable[..., object]
"""A transform, of the user's or fastpipe's: called with an image, with a target, or with both."""


LoadMask: TypeAlias = "Callable[[Box, torch.Tensor | None], torch.Tensor]"
"""Makes a region of masks, uint8 ``(N, h, w)``, for the masks at the given positions, or for all (None)."""


class ArchiveMember(str):
    """The name of a file in a container, with the position of its bytes.

    In messages, reports and logs it is a path like any other: the container's path and the name in it. fastpipe's
    readers (`fastpipe.readers`, the core, the tools) read that part of the container. ``open(member)`` finds no such
    file: a loader of your own uses ``fastpipe.readers.read_file(member)``.

    Attributes:
        container: the path of the file that contains the member: a zip, a tar, a Parquet file.
        offset: position of the member's first byte in the container.
        length: the member's size in bytes.
    """

    __slots__ = ("container", "length", "offset")

    container: str
    offset: int
    length: int

    def __new__(cls, name: str, container: str, offset: int, length: int) -> ArchiveMember:
        member = super().__new__(cls, name)
        member.container, member.offset, member.length = container, offset, length
        return member

    def __reduce__(self) -> tuple[object, ...]:
        return ArchiveMember, (str(self), self.container, self.offset, self.length)


class Source(Protocol):
    """The part of `fastpipe.ByteSource` that `RemoteFile` uses."""

    @property
    def identity(self) -> str:
        """A name that is unique to this source."""

    def url(self, key: str) -> str:
        """The URL of a file, for messages."""

    def read(self, key: str, offset: int = 0, length: int = -1) -> bytes:
        """Reads a part of a file; -1 reads to its end."""

    def read_file(self, file: RemoteFile) -> bytes:
        """Reads all bytes of a file, or of a part of one."""

    def fetch(self, files: Sequence[RemoteFile]) -> Sequence[bytes | str | Exception]:
        """Fetches several files: for each its bytes, the path of a local copy, or the error."""


class RemoteFile(ArchiveMember):
    """The name of a remote file, or of a part of one, with the source of its bytes.

    In messages, reports and logs it is a path like any other. fastpipe (`fastpipe.readers`, the datasets, the tools)
    reads the bytes from the source; a loader of your own uses ``fastpipe.readers.read_file(remote)``.

    Attributes:
        source: the `fastpipe.ByteSource` that has the file.
        key: the source's name of the file, or of the container that this is a part of.
        container: the key as a URL, for messages.
        offset: position of the first byte in the file or container.
        length: the number of bytes; -1 if unknown.
        version: changes when the file changes, as far as the source can tell; 0 where it can't.
        whole: True for the whole file; False for the part that `offset` and `length` give.
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
        file = str.__new__(cls, name)
        file.source, file.key, file.version, file.whole = source, key, version, whole
        file.container, file.offset, file.length = source.url(key), offset, length
        return file

    def part(self, begin: int, length: int) -> RemoteFile:
        """`length` bytes from byte `begin` on, as a file of the same name."""
        return RemoteFile(self, self.source, self.key, self.offset + begin, length, self.version, False)

    def __reduce__(self) -> tuple[object, ...]:
        return RemoteFile, (str(self), self.source, self.key, self.offset, self.length, self.version, self.whole)


def member_of(container: str, name: str, offset: int, length: int) -> ArchiveMember:
    """The file in a container, a local file or a `RemoteFile`, whose bytes are at an offset."""
    if isinstance(container, RemoteFile):
        return RemoteFile(name, container.source, container.key, offset, length, container.version, False)
    return ArchiveMember(name, container, offset, length)


new_namedtuple: Any = tuple.__new__
"""Makes a named tuple from all its fields: ``new_namedtuple(ImageShape, (height, width, channels))``.

Takes a third of the time of the class's own constructor, a Python function; used for tuples made for each image.
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
        size: Size = new_namedtuple(Size, (self.height, self.width))
        return size

    @property
    def bottom(self) -> int:
        """First row below the box."""
        return self.top + self.height

    @property
    def right(self) -> int:
        """First column right of the box."""
        return self.left + self.width

    def turned_back(self, turn: Turn, size: tuple[int, int]) -> Box:
        """The box of the original image that becomes this box of the turned image; `size` is the turned image's."""
        swapped, rows_back, columns_back = turn
        top = size[0] - self.bottom if rows_back else self.top
        left = size[1] - self.right if columns_back else self.left
        return Box(left, top, self.width, self.height) if swapped else Box(top, left, self.height, self.width)

    def inside(self, size: tuple[int, int]) -> bool:
        """True if every pixel of the box is a pixel of an image of that ``(height, width)``."""
        return self.top >= 0 and self.left >= 0 and self.bottom <= size[0] and self.right <= size[1]


class ImageShape(NamedTuple):
    """Height, width and channels: all that a transform's draw may depend on."""

    height: int
    width: int
    channels: int = 3

    @property
    def size(self) -> Size:
        size: Size = new_namedtuple(Size, (self.height, self.width))
        return size


class Header(NamedTuple):
    """The header of an image file, read from its first bytes without decoding a pixel.

    These are the file's claims: no memory is allocated on their word alone.

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
        orientation: the EXIF orientation, 1 to 8; 1 if the file has none or an invalid one.
        animated: more than one frame.
        transparency: a transparent colour or palette entries beside the pixels (PNG ``tRNS``).
        data_offset: where compressed pixel data starts, in bytes (a JPEG's first scan); -1 if not known.
        plain: the header holds nothing that may make a fast reader's pixels differ from Pillow's (see `readers`).
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
        size: Size = new_namedtuple(Size, (self.height, self.width))
        return size


PythonState: TypeAlias = tuple[object, ...]
"""The state of Python's random number generator."""


class PythonRandom(Protocol):
    """Python's random number generator: a ``random.Random``, or the module ``random`` for the global one."""

    def choice(self, seq: Sequence[Item]) -> Item: ...
    def choices(self, population: Sequence[Item], weights: Sequence[float] | None) -> list[Item]: ...
    def gauss(self, mu: float, sigma: float) -> float: ...
    def getstate(self) -> PythonState: ...
    def randint(self, a: int, b: int) -> int: ...
    def random(self) -> float: ...
    def seed(self, a: int) -> None: ...
    def setstate(self, state: PythonState) -> None: ...
    def shuffle(self, x: list[Item]) -> None: ...
    def uniform(self, a: float, b: float) -> float: ...


@dataclass(frozen=True, slots=True)
class Generators:
    """The generators of random numbers: torchvision draws from torch's and Python's, timm also from numpy's.

    Attributes:
        torch: None for torch's global generator.
        python: ``random.Random``, or the module ``random`` for the global generator.
        numpy: ``numpy.random.RandomState``; None for numpy's global generator.
    """

    torch: torch.Generator | None = None
    python: PythonRandom = field(default=random)
    numpy: Any = None


class Step(Protocol):
    """One drawn operation of a recipe: a frozen, printable, picklable value with no randomness left."""

    def apply(self, image: Any) -> Any:
        """Applies the operation to a PIL image, an ndarray ``(H, W, C)`` or a tensor ``(…, C, H, W)``."""

    def output_shape(self, shape: ImageShape) -> ImageShape:
        """The shape of `apply`'s result for an image of this shape, computed without pixels."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Every random parameter of every transform for one image, as the operations that `run` does, in order.

    Attributes:
        shape: the shape of the image that the recipe was drawn for.
        steps: the drawn operations.
        index: the index of the sample that drew it; None outside of a dataset. Ignored in comparisons.
        epoch: the epoch that it was drawn for, in a dataset with a seed. Ignored in comparisons.
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


def is_packed(data: bytes) -> bool:
    """True if the first bytes of a file are a packed image's: see `fastpipe.core.packed`."""
    return data.startswith(PACKED_SIGNATURE)
