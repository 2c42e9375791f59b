"""What files of another make would gain: some are re-encoded in memory and run through the real pipeline."""

from __future__ import annotations

import io
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image

from fastpipe import readers
from fastpipe.datasets.base import ImageDataset
from fastpipe.errors import FastpipeError
from fastpipe.pipeline import run
from fastpipe.tools.doctor.values import Reencoding
from fastpipe.types import Generators, Header, ImageShape

__all__ = ["TryReencoding", "baseline", "shrunk", "target_side"]

_FILES = 12
_OVERSIZED = 3.0
_KEPT = 2.0
_QUALITY = 92


def target_side(output: tuple[int, int]) -> int:
    """The short side that oversized files are tried at: twice the finished image's, so that crops keep detail.

    Args:
        output: height and width of a finished image, in pixels.
    """
    return round(_KEPT * max(output))


def baseline(data: bytes) -> bytes:
    """A JPEG with its scans in one, baseline: the same tables and subsampling, pixels within a rounding."""
    out = io.BytesIO()
    with Image.open(io.BytesIO(data)) as image:
        image.save(out, "JPEG", quality="keep", subsampling="keep", progressive=False, optimize=True)
    return out.getvalue()


def shrunk(data: bytes, side: int) -> bytes:
    """An image as a JPEG of quality 92 whose short side has so many pixels."""
    out = io.BytesIO()
    with Image.open(io.BytesIO(data)) as image:
        rgb = image.convert("RGB")
        scale = side / min(rgb.size)
        size = max(1, round(rgb.width * scale)), max(1, round(rgb.height * scale))
        rgb.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0).save(out, "JPEG", quality=_QUALITY)
    return out.getvalue()


@dataclass(frozen=True, slots=True)
class TryReencoding:
    """Looks at sampled files of a dataset that decodes by plan, re-encodes what could gain, and takes the times.

    Attributes:
        indices: samples that can be made.
        output: height and width of a finished image, in pixels; None where it is none.
        seconds: for each kind, roughly; re-encoding a few large photos may take longer.
    """

    indices: Sequence[int]
    output: tuple[int, int] | None
    seconds: float

    def __call__(self, dataset: ImageDataset) -> list[Reencoding]:
        files = []
        for index in self.indices:
            try:
                header = readers.read_header(dataset.sample(index)[0])
            except (FastpipeError, OSError):  # it was there when it was tried
                continue
            files.append((index, header))
        found = []
        progressive = [index for index, h in files if h.progressive and h.format == "JPEG" and h.channels in (1, 3)]
        if progressive:
            found.append(self._kind(dataset, "progressive", progressive, files, baseline, None))
        if self.output is not None:
            large = [index for index, h in files if min(h.size) >= _OVERSIZED * max(self.output)]
            side = target_side(self.output)
            if large:
                found.append(self._kind(dataset, "oversized", large, files, lambda data: shrunk(data, side), side))
        return [one for one in found if one is not None]

    def _kind(
        self,
        dataset: ImageDataset,
        kind: str,
        indices: Sequence[int],
        files: Sequence[tuple[int, Header]],
        change: Callable[[bytes], bytes],
        side: int | None,
    ) -> Reencoding | None:
        deadline = time.perf_counter() + self.seconds
        pairs: list[tuple[bytes, bytes]] = []
        for index in indices[:_FILES]:
            if len(pairs) >= 2 and time.perf_counter() > deadline:
                break
            try:
                with open(dataset.sample(index)[0], "rb", buffering=0) as file:
                    data = file.read()
                pairs.append((data, change(data)))
            except (OSError, ValueError):  # Pillow refuses to write it so
                continue
        if not pairs:
            return None
        before, after = _times(dataset, pairs, deadline + self.seconds)
        return Reencoding(
            kind=kind,
            share=len(indices) / len(files),
            files=len(pairs),
            factor=before / after,
            bytes_factor=sum(len(data) for data, _ in pairs) / sum(len(changed) for _, changed in pairs),
            short_side=side,
            typical_side=round(statistics.median(min(h.size) for index, h in files if index in set(indices))),
        )


def _times(dataset: ImageDataset, pairs: Sequence[tuple[bytes, bytes]], deadline: float) -> tuple[float, float]:
    """Seconds for all files as they are and as they would be, with the same random numbers; the best of rounds."""
    best = [float("inf"), float("inf")]
    for turn in range(6):
        if turn > 1 and time.perf_counter() > deadline:
            break
        taken = [0.0, 0.0]
        for number, pair in enumerate(pairs):
            for which in (0, 1) if (turn + number) % 2 else (1, 0):
                start = time.perf_counter()
                _make(dataset, pair[which], turn * len(pairs) + number)
                taken[which] += time.perf_counter() - start
        if turn:  # the first warms up
            best = [min(one, other) for one, other in zip(best, taken, strict=True)]
    return best[0], best[1]


def _make(dataset: ImageDataset, data: bytes, seed: int) -> Any:
    header = readers.parse_header(data)
    generators = Generators(torch.Generator().manual_seed(seed), random.Random(seed))
    recipe = dataset.pipeline.draw(ImageShape(*header.size), generators)
    return run(data, recipe, header=header, reader=dataset.reader, config=dataset.config, fidelity=dataset.fidelity)
