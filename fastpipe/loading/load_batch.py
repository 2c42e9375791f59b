"""`load_batch`: a batch of images from bytes and paths."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import torch

from fastpipe.arguments import MOST_THREADS, whole_number
from fastpipe.datasets import BadFile, ImageDataset
from fastpipe.datasets.bad_file_policy import BadFilePolicy
from fastpipe.datasets.bad_files import warn_again
from fastpipe.errors import BadFilesError, DatasetError
from fastpipe.executor import BatchSpec, SampleTask, StageOptions
from fastpipe.loading.collate import BatchCollate
from fastpipe.readers import MaxPixels
from fastpipe.types import Generators, Transform

Item: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview"
OnBadItem: TypeAlias = Literal["raise", "skip"] | Callable[[BadFile], object]
_TRIES = 32


def load_batch(
    items: Iterable[Item],
    transform: Transform,
    *,
    generator: torch.Generator | None = None,
    out: torch.Tensor | None = None,
    threads: int | None = None,
    on_error: OnBadItem = "raise",
    reader: str | None = None,
    apply_exif: bool = False,
    max_pixels: MaxPixels = "auto",
) -> torch.Tensor:
    """Decodes and transforms images into one batch, as a `fastpipe.DataLoader` does with a dataset.

    It is for sources that give bytes, such as a database, a queue, Hugging Face ``datasets``, Ray Data or WebDataset.
    Each item's pixels equal those of ``transform(Image.open(item).convert("RGB"))`` with torchvision's transform and
    the same random numbers, drawn item after item. Files are read, decoded and transformed by threads without the GIL.

    Args:
        items: encoded images (``bytes``, ``bytearray``, ``memoryview``) and paths of files; both may be mixed.
        transform: a transform of `fastpipe.transforms` that ends in tensors of one shape. Other callables work, one
            image at a time.
        generator: the generator to draw from instead of torch's global one; it ends in the same state as after
            torchvision's draws. None for the global one.
        out: a tensor ``(N, C, H, W)`` to write the batch to, for N items: in main memory, pinned or not, with any
            strides; uint8 if the transform gives uint8, else of any floating dtype. None for new memory.
        threads: the number of decoding threads; None for ``torch.get_num_threads()``, which is 1 in a worker of a
            DataLoader.
        on_error: what to do with an item that can't be read. ``"raise"`` raises its error. ``"skip"`` leaves it out,
            with a warning, so that the batch is smaller. A function gets a `BadFile`, whose ``index`` is the item's
            position, and returns None to leave the item out, or a replacement; a list's ``append`` collects the bad
            items.
        reader, apply_exif, max_pixels: as in `ImageFolder`.

    Returns:
        A tensor ``(N, C, H, W)``, without the items left out; with `out`, this tensor or its first images. A list of
        such tensors if the transform gives several views of an image (`MultiView`).

    Raises:
        DatasetError: there are no items, an item is neither bytes nor a path, `out` doesn't fit, or `generator` is
            given with a transform that may draw from the global generator.
        BadFilesError: all items are left out.
        DecodeError, OSError: an item can't be decoded, or a file can't be read; the message has its path, or
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
    """A dataset of the items, for one batch; an item's target is its position."""

    def __init__(
        self,
        items: list[str | bytes],
        transform: Transform,
        answer: OnBadItem,
        generators: Generators | None,
        out: torch.Tensor | None,
        *,
        reader: str | None,
        apply_exif: bool,
        max_pixels: MaxPixels,
        threads: int,
    ) -> None:
        super().__init__(
            transform,
            on_error="raise" if answer == "raise" else "skip",
            reader=reader,
            apply_exif=apply_exif,
            max_pixels=max_pixels,
            threads=threads,
        )
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

    def _fastpipe_stage_options(self) -> StageOptions:
        options = super()._fastpipe_stage_options()
        return replace(options, generators=self._generators, out=self._out, shared=False)

    def load(self) -> torch.Tensor:
        out = self._out
        dtype = out.dtype if out is not None and out.is_floating_point() else None
        options = BatchSpec(dtype=dtype, threads=self.threads)
        batch = self.executor.run(range(len(self)), None, options)
        if isinstance(batch, list) and not batch:
            raise BadFilesError(f"all {len(self)} items are bad, the first: {self._first_left_out()}")
        images = BatchCollate(options)(batch)[0]
        if self._left_out and self._answer == "skip":
            warn_again(
                f"{len(self._left_out)} of {len(self)} items can't be read and are left out of the batch, the first: "
                f"{self._first_left_out()}. With on_error=bad.append, the list bad has them all."
            )
        return images if out is None else self._in_place(images, out)

    def _first_left_out(self) -> str:
        bad = self._left_out[0]
        return f"{bad.path}: {bad.reason}"

    def _in_place(self, images: object, out: torch.Tensor) -> torch.Tensor:
        gives = f"out is {out.dtype} {tuple(out.shape)}, and the transform gives"
        if not isinstance(images, torch.Tensor):
            raise DatasetError(f"{gives} several tensors.")
        place = out[: len(images)]
        if images.shape != place.shape or images.is_floating_point() != out.is_floating_point():
            raise DatasetError(f"{gives} {images.dtype} {tuple(images.shape)}.")
        if images.data_ptr() != place.data_ptr():  # the images weren't written to `out` directly
            place.copy_(images)
        return out if len(place) == len(out) else place

    def other(self, bad: BadFile) -> bool:
        """Replaces a bad item by the one that the user's function returns; returns False to leave it out."""
        answer = self._answer(bad) if callable(self._answer) else None
        if answer is None:
            self._left_out.append(bad)
            return False
        self._items[bad.index] = _checked(answer, f"what on_error returned for {bad.path}")
        return True


class _ItemPolicy(BadFilePolicy):
    """Replaces a bad item by the user's function, again and again if the replacement is bad, too."""

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
