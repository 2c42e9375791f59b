"""Pillow images without pixels: operations on them are recorded, and run by the core in one job.

A `LazyImage` is a ``PIL.Image.Image`` whose size, mode and ``info`` are known. Cropping, resizing, turning, warping,
looking up in a table and copying return further lazy images. All other methods make the pixels, only those that are
left; from then on the image is a plain ``PIL.Image.Image``.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, SupportsIndex, TypeAlias, TypeVar

import numpy as np
import torch
from PIL import Image, ImageFile, ImageFilter, ImagePalette

from fastpipe.ops import Crop, Operation, RgbToGrayscale, TensorConversion
from fastpipe.pending import may_be_pending, set_class
from fastpipe.pillow.image_record import ImageRecord, OnInfo, PlainCall, image_record_of, in_mode
from fastpipe.pillow.lazy_operations import PointTable, point_table
from fastpipe.pillow.lazy_source import LazySource
from fastpipe.pillow.method_arguments import (
    TRANSPOSITIONS,
    crop_operations,
    filter_operation,
    resize_operations,
    warp_operation,
    whole_box,
    whole_size,
)
from fastpipe.pillow.pixel_access import PendingPixels
from fastpipe.plain_way import own_function
from fastpipe.program.claims import Claimed
from fastpipe.program.core_job import claimed_by_core, core_has
from fastpipe.program.encoded_image import LoadedPixels
from fastpipe.program.on_image import Info, copied_info, is_transparent, to_array
from fastpipe.types import Box, ImageShape, Size, Step

if TYPE_CHECKING:
    from PIL._imaging import ImagingCore

GRAY_IN_THREE = RgbToGrayscale(3)
_MOST_STEPS = 48
"""The most recorded steps. If they are more than fit in one job, several jobs run in turn; after this many steps the
pixels are made, and later operations start from them."""

_Asked = ParamSpec("_Asked")
_Given = TypeVar("_Given")
PILLOWS_LOAD = Image.Image.load


Edges: TypeAlias = tuple[float, float, float, float]
"""A box as Pillow has it: left, top, right and bottom."""

Color: TypeAlias = "float | tuple[float, ...] | str | None"

ArrayInterface: TypeAlias = "dict[str, str | bytes | int | tuple[int, ...]]"
"""The values of an ``__array_interface__``."""


def _unless_replaced(
    method: Callable[Concatenate[LazyImage, _Asked], _Given],
) -> Callable[Concatenate[LazyImage, _Asked], _Given]:
    """Wraps a method of `LazyImage`: if somebody, such as a test, has replaced Pillow's, the replacement is called."""
    name = method.__name__
    methods = vars(Image.Image)
    pillows: Any = own_function(methods[name])

    def ours(self: LazyImage, /, *arguments: _Asked.args, **options: _Asked.kwargs) -> _Given:
        if methods[name] is pillows or own_function(methods[name]) is pillows:
            return method(self, *arguments, **options)
        theirs: _Given = getattr(super(LazyImage, self), name)(*arguments, **options)
        return theirs

    update_wrapper(ours, pillows)
    return ours


class _EqualToPillows(type):
    """A metaclass that makes a class equal to Pillow's: for users' comparisons, and v2 looks up fills by class."""

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is Image.Image

    def __hash__(cls) -> int:
        return hash(Image.Image)


@may_be_pending
class LazyImage(Image.Image, metaclass=_EqualToPillows):
    """A Pillow image in mode RGB or L without pixels; once it has pixels its class is ``PIL.Image.Image``.

    Threads may share it, and any of them may make the pixels: methods here use only what a plain image has, too.

    Args:
        source: the file.
        mode: ``"RGB"``, or ``"L"`` for a gray image.
        info: Pillow's ``info``, which the image owns from now on; None to read it from the file's header at first use.
        steps: the steps on the file's pixels.
        size: ``(width, height)`` after the steps.
        calls: the calls that make the image by Pillow; see `ImageRecord`.
        parent: the record of the image on which the last steps were recorded.
    """

    _im: ImagingCore | None = None  # read from the class until the instance has its own
    _fastpipe: ImageRecord | None

    def __init__(
        self,
        source: LazySource,
        mode: str = "RGB",
        info: Info | None = None,
        steps: tuple[Step, ...] = (),
        size: tuple[int, int] | None = None,
        calls: tuple[PlainCall, ...] | None = None,
        parent: ImageRecord | None = None,
    ) -> None:
        super().__init__()
        own = vars(self)
        del own["_im"]
        if info is None:
            del own["info"]
        else:
            self.info = info
        self._mode = mode
        self._size = (source.shape.width, source.shape.height) if size is None else size
        self._fastpipe = ImageRecord(source, steps, calls=calls, parent=parent, owner=weakref.ref(self))
        if parent is not None:
            parent.children += 1
        source.add_image(self)
        if source.check is not None:
            self._fastpipe.checked_info = self.info.copy()

    @property
    def __class__(self) -> Any:
        """``PIL.Image.Image``, as for a plain image."""
        return Image.Image

    @__class__.setter
    def __class__(self, kind: type) -> None:  # as code does that derives from Pillow's class
        set_class(_made(self), kind)

    def __getattr__(self, name: str) -> Any:
        if name == "info":  # several threads may read it first
            record = image_record_of(self)
            return vars(self)["info"] if record is None else vars(self).setdefault("info", record.source.info())
        raise AttributeError(f"'Image' object has no attribute {name!r}", name=name, obj=self)

    # -- the pixels

    def _fastpipe_is_pending(self) -> bool:
        return image_record_of(self) is not None

    def _fastpipe_lazy(self) -> LazyImage | None:
        """The image itself; None once it has pixels."""
        return None if image_record_of(self) is None else self

    def _fastpipe_claim(
        self,
        box: Box | None,
        steps: tuple[Step, ...],
        conversion: TensorConversion | None,
        out: torch.Tensor | None = None,
        in_rows: bool = False,
    ) -> Claimed | None:
        """Runs steps without the image's pixels: see `fastpipe.program.claims.ClaimsSteps`."""
        record = image_record_of(self)
        if record is None:
            return None
        source, shown = record.source, record.steps_in(self.mode)
        if conversion is None:
            program = claimed_by_core(source.program(shown, box, steps))
            if program is None:
                return None
            crop = () if box is None else (Crop(*box),)
            whole = (*shown, *crop, *steps)
            if self.mode == "RGB" and program.result.channels == 3 and len(whole) <= _MOST_STEPS:
                size = program.result.width, program.result.height
                return LazyImage(source, "RGB", info_for_next(self), whole, size, parent=record), len(steps), False
        if record.needs_pixels():
            return None
        start, shown = record.start()
        program = start.program(in_mode(shown, self.mode), box, steps)
        if conversion is not None:
            converting = program._replace(conversion=conversion, in_rows=in_rows, memo=None)
            tensor = start.run_by_core(converting, out, in_rows)
            return None if tensor is None else (tensor, len(steps), True)
        result = start.image(program)
        result.info = copied_info(self)
        return result, len(steps), False

    @property
    def im(self) -> ImagingCore:
        return _made(self).im

    @im.setter
    def im(self, im: ImagingCore) -> None:
        _plain(self).im = im

    @_unless_replaced
    def load(self) -> Any:
        record = image_record_of(self)
        if record is None or not record.source.is_sound:
            return _made(self).load()
        if record.steps:  # whoever loads what was made is about to use it again
            record.uses += 1
        return PendingPixels(self)

    @property
    def __array_interface__(self) -> ArrayInterface:
        """Pillow's array interface; the first array is made without giving the image pixels of its own."""
        record = image_record_of(self)
        if record is None or record.uses or record.source.check is not None:
            record, pixels = None, to_array(_made(self))
        else:
            pixels = record.array(self.mode)
        data, shape = pixels.tobytes(), pixels.shape if self.mode == "RGB" else pixels.shape[:2]
        if record is not None and not record.steps and self.mode == "RGB":  # the whole file: not decoded again
            record.source.keep(np.frombuffer(data, np.uint8).reshape(shape))
        return {"version": 3, "data": data, "shape": shape, "typestr": "|u1"}

    @_unless_replaced
    def putpalette(self, data: ImagePalette.ImagePalette | bytes | Sequence[int], rawmode: str = "RGB") -> None:
        _made(self).putpalette(data, rawmode)  # changes the mode before it loads the image

    @_unless_replaced
    def close(self) -> None:
        _plain(self).close()

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[object, ...]:
        return _made(self).__reduce_ex__(protocol)

    # -- recorded methods

    @_unless_replaced
    def copy(self) -> Image.Image:
        record = _open_record(self)
        return Image.Image.copy(self) if record is None else _with_steps(self, record, plain=Image.Image.copy)

    __copy__ = copy

    @_unless_replaced
    def crop(self, box: Edges | None = None) -> Image.Image:
        if box is None or box == (0, 0, *self._size):
            return self.copy()
        place, record = whole_box(box), _open_record(self)
        steps = None if place is None else crop_operations(place, *self._size)
        if record is None or place is None or steps is None:
            return Image.Image.crop(self, box)
        Image._decompression_bomb_check((place.width, place.height))
        edges = (*box,)
        return _with_steps(self, record, *steps, plain=lambda image: image.crop(edges))

    @_unless_replaced
    def resize(
        self, size: Any, resample: int | None = None, box: Edges | None = None, reducing_gap: float | None = None
    ) -> Image.Image:
        record = _open_record(self)
        own_size = Size(self.height, self.width)
        steps = None if record is None else resize_operations(own_size, size, resample, box, reducing_gap)
        if record is None or steps is None:
            return Image.Image.resize(self, size, resample, box, reducing_gap)
        sides, edges = tuple(size), None if box is None else (*box,)
        return _with_steps(self, record, *steps, plain=lambda image: image.resize(sides, resample, edges, reducing_gap))

    @_unless_replaced
    def reduce(self, factor: int | tuple[int, int], box: tuple[int, int, int, int] | None = None) -> Image.Image:
        if box is None or image_record_of(self) is None:
            return Image.Image.reduce(self, factor, box)
        place = whole_box(box)
        if place is None or tuple(box) != (place.left, place.top, place.right, place.bottom):
            return Image.Image.reduce(self, factor, box)
        if not place.inside(self._size[::-1]) or min(place.size) < 1:
            return Image.Image.reduce(self, factor, box)  # Pillow raises
        return self.crop(box).reduce(factor)

    @_unless_replaced
    def transpose(self, method: Image.Transpose) -> Image.Image:
        record, steps = _open_record(self), TRANSPOSITIONS.get(method)
        if record is None or steps is None:
            return Image.Image.transpose(self, method)
        return _with_steps(self, record, *steps, plain=lambda image: image.transpose(method))

    @_unless_replaced
    def transform(
        self,
        size: tuple[int, int],
        method: Any,
        data: Sequence[Any] | None = None,
        resample: int = 0,
        fill: int = 1,
        fillcolor: Color = None,
    ) -> Image.Image:
        record = _open_record(self)
        own_size = record is not None and whole_size(size) == self._size[::-1]
        warp = warp_operation(self._mode, method, data, resample, fillcolor) if own_size else None
        if record is None or warp is None or data is None:
            return Image.Image.transform(self, size, method, data, resample, fill, fillcolor)
        sides, numbers = (*size,), (*data,)
        return _with_steps(
            self,
            record,
            warp,
            plain=lambda image: image.transform(sides, method, numbers, resample, fill, fillcolor),
        )

    @_unless_replaced
    def convert(
        self,
        mode: str | None = None,
        matrix: tuple[float, ...] | list[float] | None = None,
        *arguments: Any,
        **options: Any,
    ) -> Image.Image:
        record = _open_record(self)
        if record is not None and not matrix:
            if not mode or mode == self._mode:
                return self.copy()
            if mode in ("RGB", "L") and not is_transparent(self):
                # A gray image stays RGB until it is made; in RGB the conversion also sets the fourth byte.
                is_gray = self._mode == "L" and (not record.steps or record.steps[-1] is GRAY_IN_THREE)
                steps = () if is_gray else (GRAY_IN_THREE,)
                coloured = weakref.ref(self) if mode == "L" else record.coloured
                changed = _with_steps(self, record, *steps, plain=lambda image: image.convert(mode))
                changed._mode = mode
                vars(changed)["_fastpipe"].coloured = coloured
                return changed
        return Image.Image.convert(self, mode, matrix, *arguments, **options)

    @_unless_replaced
    def point(self, lut: Any, mode: str | None = None) -> Image.Image:
        record = _open_record(self)
        if record is not None and mode is None and not isinstance(lut, Image.ImagePointHandler):
            bands = 3 if self._mode == "RGB" else 1
            entries = [lut(i) for i in range(256)] if callable(lut) else list(lut)
            table = point_table(entries)
            if callable(lut):
                entries, table = entries * bands, table * bands
            if len(table) == 256 * bands:
                step = PointTable(table * (3 // bands))
                return _with_steps(self, record, step, plain=lambda image: image.point(entries))
            lut = entries
        return Image.Image.point(self, lut, mode)

    @_unless_replaced
    def filter(self, filter: ImageFilter.Filter | type[ImageFilter.Filter]) -> Image.Image:
        given = filter() if callable(filter) else filter
        record, step = _open_record(self), filter_operation(given)
        if record is None or step is None:
            return Image.Image.filter(self, given)
        given = copy.copy(given)
        return _with_steps(self, record, step, plain=lambda image: image.filter(given))


def _open_record(image: Image.Image) -> ImageRecord | None:
    """The record of a lazy image that has room for another step; else None, also if a test has replaced ``load``.

    None, too, for a file of which so many small parts were asked for that it is to get pixels.
    """
    record = image_record_of(image)
    if record is not None and not record.steps and record.source.gets_pixels:
        return None
    if record is None or len(record.steps) >= _MOST_STEPS or Image.Image.load is not PILLOWS_LOAD:
        return None
    return record


def _made(image: Image.Image) -> Image.Image:
    """Makes the image's pixels, unless another thread has, and returns it as a plain image."""
    record = image_record_of(image)
    if record is not None:
        coloured = None if record.coloured is None else record.coloured()
        known = None if coloured is None else image_record_of(coloured)
        if coloured is None or known is None:  # the coloured image may have been drawn on
            pixels = record.image(image.mode)
        else:
            pixels = known.image(coloured.mode)
            gray = pixels.convert("L")
            _with_pixels(coloured, pixels)
            pixels = gray if image.mode == "L" else gray.convert("RGB")
        _with_pixels(image, pixels)
    return _plain(image)


def _with_pixels(image: Image.Image, pixels: Image.Image) -> None:
    record = image_record_of(image)
    if record is not None and record.kept is None:
        if record.steps and record.children:
            record.kept = LoadedPixels(pixels.copy() if pixels.mode == "RGB" else pixels.convert("RGB"))
        elif not record.steps and record.source.has_images_besides(image):
            record.source.keep(to_array(pixels if pixels.mode == "RGB" else pixels.convert("RGB")))
    vars(image).setdefault("_im", pixels.im)  # only the first thread's is kept
    _plain(image)


def _plain(image: Image.Image) -> Image.Image:
    """Makes the image a plain one; without pixels if they haven't been made."""
    own = vars(image)
    own.setdefault("_im", None)
    _ = image.info  # a plain image has it
    if isinstance(image, LazyImage):
        set_class(image, Image.Image)
    own.pop("_fastpipe", None)
    return image


def _with_steps(
    image: Image.Image,
    record: ImageRecord,
    *steps: Operation,
    plain: PlainCall | None = None,
    info: Info | None = None,
) -> LazyImage:
    """The lazy image after further steps; ``plain`` does the same by Pillow."""
    width, height = image._size
    shape = ImageShape(height, width)
    for step in steps:
        shape = step.output_shape(shape)
    size = shape.width, shape.height
    if not record.steps and steps and isinstance(steps[0], Crop):
        record.source.note_crop(shape)
    if plain is not None and record.source.check is not None:
        plain = OnInfo(copied_info(image), plain)
    calls = None if record.calls is None or plain is None else (*record.calls, plain)
    info = info_for_next(image) if info is None else info
    return LazyImage(record.source, image._mode, info, (*record.steps, *steps), size, calls=calls, parent=record)


def info_for_next(image: Image.Image) -> Info | None:
    """A copy of the image's ``info``, for an image made from it; None if the ``info`` hasn't been read yet."""
    return copied_info(image) if "info" in vars(image) else None


def lazy_of(image: object) -> LazyImage | None:
    """The image as a lazy one, if it has no pixels yet and is in mode RGB or L; None for anything else."""
    lazy = getattr(type(image), "_fastpipe_lazy", None)  # files have the method, too
    found: LazyImage | None = None if lazy is None else lazy(image)
    return found


def record_operations(
    image: object, *operations: Operation, plain: PlainCall | None, info: Info | None = None
) -> LazyImage | None:
    """Records further operations on an image.

    Args:
        image: any object.
        operations: operations on three channels, which are equal for a gray image.
        plain: the library's own function on a plain image; None if unknown.
        info: the result's own; None for a copy of the image's.

    Returns:
        The lazy image; None if the image has pixels, or the core lacks an operation.
    """
    lazy = lazy_of(image)
    record = None if lazy is None else _open_record(lazy)
    if lazy is None or record is None:
        return None
    if not core_has(operations, ImageShape(lazy.height, lazy.width)):
        return None
    return _with_steps(lazy, record, *operations, plain=plain, info=info)


def load_images(sample: object) -> None:
    """Makes the pixels of all lazy images in a sample, also in nested lists, tuples and dicts."""
    if isinstance(sample, LazyImage):
        _made(sample)
    elif isinstance(sample, (list, tuple)):
        for part in sample:
            load_images(part)
    elif isinstance(sample, dict):
        for part in sample.values():
            load_images(part)


def shadow_of(image: Image.Image) -> Image.Image | None:
    """The same image made by Pillow alone, for comparisons. A plain image is copied.

    None if its calls are unknown, or if enough of its file has been compared.
    """
    lazy = lazy_of(image)
    record = None if lazy is None else image_record_of(lazy)
    if record is None:
        return image.copy()
    if record.calls is None or record.source.comparisons.left < 1:
        return None
    shadow = record.by_pillow()
    if lazy is image and isinstance(shadow, ImageFile.ImageFile):  # a copy has no open file
        shadow = shadow.copy()
    shadow.info = copied_info(image)
    return shadow


LazyImage.__module__, LazyImage.__qualname__, LazyImage.__name__ = "PIL.Image", "Image", "Image"
