"""`load_batch`: a batch of images from bytes and paths, whoever has them."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import torch

from fastpipe.arguments import MOST_THREADS, whole_number
from fastpipe.datasets import BadFile, ImageDataset
from fastpipe.datasets.bad_file_policy import BadFilePolicy
from fastpipe.datasets.bad_files import warn_again
from fastpipe.errors import BadFilesError, DatasetError
from fastpipe.executor import BatchSpec, ImageStages, SampleTask
from fastpipe.loading.collate import BatchCollate
from fastpipe.readers import MaxPixels
from fastpipe.types import Generators

Item: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview"
_TRIES = 32


def load_batch(
    items: Iterable[Item],
    transform: Callable[[Any], object],
    *,
    generator: torch.Generator | None = None,
    out: torch.Tensor | None = None,
    threads: int | None = None,
    on_error: Literal["raise", "skip"] | Callable[[BadFile], object] = "raise",
    reader: str | None = None,
    apply_exif: bool = False,
    max_pixels: MaxPixels = "auto",
) -> torch.Tensor:
    """Decodes and transforms images from anywhere into one batch: what a `fastpipe.DataLoader` does with a dataset.

    The same engine, so the same pixels: item by item those of ``transform(Image.open(item).convert("RGB"))`` with
    torchvision's transform, with the same random numbers, drawn item after item. Files are read, decoded and
    transformed by threads without the GIL. For a source of data that gives bytes, such as a database, a queue, Hugging
    Face ``datasets``, Ray Data or WebDataset.

    Args:
        items: encoded images, as ``bytes`` (a ``bytearray``, a ``memoryview``), and paths of files, also mixed.
        transform: of `fastpipe.transforms`, and it ends in tensors of one shape. Others work, one image at a time.
        generator: what random numbers are drawn from, in torch's generator's place; it is left where torchvision's
            draws would leave it. None for the global one.
        out: where the batch goes: a tensor ``(N, C, H, W)`` in main memory, pinned or not, with any strides, for N
            items: uint8 where the transform gives that, else of any floating dtype. None for new memory.
        threads: how many decode; None for as many as torch takes for an operation (``torch.get_num_threads()``: in a
            worker of a DataLoader that is one).
        on_error: what becomes of an item that can't be read. ``"raise"`` raises its error. ``"skip"`` leaves it out,
            with a warning: the batch is smaller by it. A function gets a `BadFile`, whose ``index`` is the item's
            place, and returns None to leave it out, or another item to take in its place; the ``append`` of a list
            collects what was left out.
        reader, apply_exif, max_pixels: as of `ImageFolder`.

    Returns:
        ``(N, C, H, W)``, less what was left out: `out`, or the front of it. A list of such tensors where the transform
        gives several views of an image (`MultiView`).

    Raises:
        DatasetError: there are no items, one is neither bytes nor a path, `out` doesn't fit, or `generator` is given
            with a transform that draws from the global one all the same.
        BadFilesError: all items are left out.
        DecodeError, OSError: an item can't be decoded, or a file can't be read; it is named by its path, or as
            ``items[3]``.
        PlanError: the transform doesn't end in tensors.
    """
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
        raise DatasetError(f"items={items!r:.80}: give several, in a list: encoded images as bytes, or paths of files.")
    given = [_checked(item, f"items[{number}]") for number, item in enumerate(items)]
    if not given:
        raise DatasetError("load_batch got no items: a batch has one at least.")
    if threads is not None:
        takes = "the number of threads that decode the batch"
        threads = whole_number("threads", threads, takes, most=MOST_THREADS, error=DatasetError)
    if on_error not in ("raise", "skip") and not callable(on_error):
        raise DatasetError(
            f"on_error={on_error!r}: give 'raise', 'skip', or a function that takes a BadFile and returns None or "
            "another item."
        )
    if not (generator is None or isinstance(generator, torch.Generator)):
        raise DatasetError(
            f"generator is a {type(generator).__name__}: give a torch.Generator, or None for the global generators."
        )
    if out is not None:
        _check_out(out, len(given))
    generators = None if generator is None else Generators(generator, random)
    held = _Items(
        given,
        transform,
        on_error,
        generators,
        out,
        reader=reader,
        apply_exif=apply_exif,
        max_pixels=max_pixels,
        threads=torch.get_num_threads() if threads is None else threads,
    )
    if generator is not None and held.pipeline.unplanned:
        raise DatasetError(
            f"generator= can't reach {type(held.pipeline.unplanned[0]).__name__}: if it draws, it does so from the "
            "global generators. Seed those with torch.manual_seed instead."
        )
    return held.load()


def _checked(item: object, name: str) -> str | bytes:
    if isinstance(item, (bytes, str)):
        return item
    if isinstance(item, (bytearray, memoryview)):
        return bytes(item)
    path = os.fspath(item) if isinstance(item, os.PathLike) else item
    if not isinstance(path, str):
        raise DatasetError(f"{name} is a {type(item).__name__}: give encoded images as bytes, or paths of files.")
    return path


def _check_out(out: torch.Tensor, count: int) -> None:
    if not isinstance(out, torch.Tensor):
        raise DatasetError(f"out is a {type(out).__name__}: give a tensor ({count}, C, H, W) in main memory, or None.")
    overlaps = any(stride == 0 and size > 1 for size, stride in zip(out.shape, out.stride(), strict=True))
    if out.ndim != 4 or len(out) != count or out.device.type != "cpu" or overlaps:
        raise DatasetError(
            f"out is {out.dtype} {tuple(out.shape)} on {out.device}{', of repeated memory' * overlaps}: for {count} "
            f"items give a tensor ({count}, C, H, W) in main memory."
        )


class _Items(ImageDataset):
    """Items as a dataset, for one batch; an item's target is its place."""

    def __init__(
        self,
        items: list[str | bytes],
        transform: Any,
        answer: Any,
        generators: Generators | None,
        out: torch.Tensor | None,
        **options: Any,
    ) -> None:
        super().__init__(transform, on_error="raise" if answer == "raise" else "skip", **options)
        self._items, self._answer, self._generators, self._out = items, answer, generators, out
        self._left_out: list[BadFile] = []

    def __len__(self) -> int:
        return len(self._items)

    def sample(self, index: int) -> tuple[str, int]:
        item = self._items[index]
        return f"items[{index}]" if isinstance(item, bytes) else item, index

    def _fastpipe_tasks(self, indices: Sequence[int], epoch: int | None) -> list[SampleTask]:
        tasks = super()._fastpipe_tasks(indices, epoch)
        for task in tasks:
            task.source = self._items[task.source_index]
        return tasks

    def _fastpipe_policy(self) -> BadFilePolicy:
        return _ItemPolicy(self)

    def _fastpipe_stages(self, kind: Callable[..., ImageStages] = ImageStages, **options: object) -> ImageStages:
        return super()._fastpipe_stages(kind, generators=self._generators, out=self._out, shared=False, **options)

    def load(self) -> torch.Tensor:
        out = self._out
        dtype = out.dtype if out is not None and out.is_floating_point() else None
        options = BatchSpec(dtype=dtype, threads=self.threads)
        made = self.executor.run(range(len(self)), None, options)
        if isinstance(made, list) and not made:
            raise BadFilesError(f"all {len(self)} items are bad, the first: {self._first_left_out()}")
        images = BatchCollate(options)(made)[0]
        if self._left_out and self._answer == "skip":
            warn_again(
                f"{len(self._left_out)} of {len(self)} items can't be read and are left out of the batch, the first: "
                f"{self._first_left_out()}. on_error=bad.append, of a list, tells which."
            )
        return images if out is None else self._in_place(images, out)

    def _first_left_out(self) -> str:
        bad = self._left_out[0]
        return f"{bad.path}: {bad.reason}"

    def _in_place(self, images: Any, out: torch.Tensor) -> torch.Tensor:
        place = out[: len(images)] if isinstance(images, torch.Tensor) else None
        if place is None or images.shape != place.shape or images.is_floating_point() != out.is_floating_point():
            what = f"{images.dtype} {tuple(images.shape)}" if place is not None else "several tensors"
            raise DatasetError(f"out is {out.dtype} {tuple(out.shape)}, and the transform gives {what}.")
        if images.data_ptr() != place.data_ptr():  # it didn't go there at once
            place.copy_(images)
        return out if len(place) == len(out) else place

    def other(self, bad: BadFile) -> bool:
        """Puts the item that the user's function has for a bad one into its place; False to leave it out."""
        answer = None if self._answer == "skip" else self._answer(bad)
        if answer is None:
            self._left_out.append(bad)
            return False
        self._items[bad.index] = _checked(answer, f"what on_error returned for {bad.path}")
        return True


class _ItemPolicy(BadFilePolicy):
    """The item that the user's function has for a bad one, and again where that is bad, too."""

    _dataset: _Items

    def substitutes(self, task: SampleTask) -> Iterator[SampleTask]:
        bad = self._bad_file(task)
        for _ in range(_TRIES):
            if not self._dataset.other(bad):
                return
            other = self._task(task.source_index, task)
            yield other
            bad = self._bad_file(other)
        raise BadFilesError(f"on_error gave {_TRIES} items in a row for {bad.path}, and all are bad: {bad.reason}")
