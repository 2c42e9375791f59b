"""Whether a reader's pixels are right: only then does its time count.

- the whole image and a region must equal Pillow's pixels, bit for bit;
- a reduced image must have the exact size ``ceil(side / scale)`` and lie close to Pillow's own reduced image
  (its draft mode for JPEG, the mean of each block elsewhere): at most `CLOSE` apart in the mean. Equality can't
  be asked here, as two correct reductions differ in their filter.

A sample that a reader doesn't take, or refuses, is Pillow's to decode, in the measurement as in training: its
time is part of the reader's figure, and the share of samples that the reader did serve is reported beside it.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from fastpipe.errors import ReaderError
from fastpipe.readers import decode
from fastpipe.readers.base import Pixels, Reader, scaled_size
from fastpipe.tools.bench.samples import Sample
from fastpipe.tools.timing import Timing
from fastpipe.types import DecodeRequest

REQUESTS = ("full", "region", "half")
"""What is asked of a reader: the whole image, a box such as ``RandomResizedCrop`` draws, all of it at half size."""

CLOSE = 3.0
"""How far a reduced image may be from Pillow's reduced image: mean absolute difference, in 1/255."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one reader did with one format and request."""

    reader: str  # its name
    format: str  # the config's key of the format
    request: str  # one of `REQUESTS`
    exact: bool  # its pixels were right, so that it was measured; else `note` says what was wrong
    served: float  # the share of samples that it decoded itself, 0 to 1; Pillow did the rest
    note: str = ""  # why it wasn't measured or didn't serve all, empty where there's nothing to say
    single: Timing | None = None  # in one process; None where it wasn't measured
    workers: Timing | None = None  # inside DataLoader workers; None where it wasn't measured


def asked_of(sample: Sample, request: str) -> DecodeRequest:
    """What one of `REQUESTS` means for a sample."""
    if request == "region":
        return DecodeRequest(sample.box)
    return DecodeRequest(None, 2 if request == "half" else 1)


def check(samples: Sequence[Sample], request: str, reader: Reader) -> Result | None:
    """Which samples the reader serves, and whether it serves them right; None where it has nothing to do with them.

    Args:
        samples: of one format.
        request: one of `REQUESTS`.
        reader: the reader itself, so that nothing else answers in its place.
    """
    served, refused, wrong = 0, [], []
    for sample in samples:
        if not reader.accepts(sample.header):
            continue
        asked = asked_of(sample, request)
        got = reader.resolve(sample.header, asked)
        if got.scale != asked.scale:
            return None  # no reduced sizes: nothing to compare
        try:
            found = fault(reader.decode(sample.data, got), got, sample)
        except ReaderError as error:
            refused.append(f"{sample.name}: {error}")
            continue
        except Exception as error:  # another package's reader: its failure is a result, not the benchmark's end
            found = f"{type(error).__name__}: {error}"
        else:
            if found and not fault(*decode(sample.data, asked, header=sample.header, reader=reader.name), sample):
                refused.append(f"{sample.name}: damaged")  # a file that `decode` doesn't give to this reader
                continue
        served += 1
        if found:
            wrong.append(f"{sample.name}: {found}")
    if not served:
        return None
    note = ""
    if wrong:
        note = f"not Pillow's pixels in {len(wrong)} of {len(samples)} images, first {wrong[0]}"
    elif refused:
        note = f"refused {len(refused)} of {len(samples)} images, first {refused[0]}"
    return Result(reader.name, samples[0].format, request, not wrong, served / len(samples), note)


def fault(pixels: Pixels, got: DecodeRequest, sample: Sample) -> str:
    """What is wrong with a reader's pixels for the box and scale that it said it would give; empty: nothing."""
    with Image.open(io.BytesIO(sample.data)) as image:
        if got.scale == 1:
            reference = np.asarray(image.convert("RGB"))
            if got.box is not None:
                reference = reference[got.box.top : got.box.bottom, got.box.left : got.box.right]
        else:
            size = scaled_size((image.height, image.width), got.scale)
            image.draft(None, (max(1, image.width // got.scale), max(1, image.height // got.scale)))
            reduced = image.convert("RGB")
            if (reduced.height, reduced.width) != size:
                reduced = reduced.reduce(got.scale)
            reference = np.asarray(reduced)
    if pixels.shape != reference.shape or pixels.dtype != np.uint8:
        return f"{pixels.shape} {pixels.dtype} in place of {reference.shape} uint8"
    distance = np.abs(pixels.astype(np.int16) - reference)
    if got.scale == 1 and distance.any():
        return f"by up to {distance.max()}/255"
    if got.scale > 1 and distance.mean() > CLOSE:
        return f"by {distance.mean():.1f}/255 in the mean, more than {CLOSE:g}"
    return ""
