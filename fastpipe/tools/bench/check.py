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
from fastpipe.types import DecodeRequest

REQUESTS = ("full", "region", "half")
"""What is asked of a reader: the whole image, a box such as ``RandomResizedCrop`` draws, all of it at half size."""

CLOSE = 3.0
"""How far a reduced image may be from Pillow's reduced image: mean absolute difference, in 1/255."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One reader on one format and request."""

    reader: str  # its name
    format: str  # the config's key of the format
    request: str  # one of `REQUESTS`
    samples: tuple[int, ...]  # the places of the format's samples
    own: tuple[bool, ...]  # for each of these, whether the reader decodes it itself
    exact: bool  # every sample that it decoded came right
    note: str = ""  # what came wrong, or was refused; empty where there's nothing to say

    @property
    def served(self) -> float:
        """The share of samples that the reader decodes itself, 0 to 1."""
        return sum(self.own) / len(self.own)


def asked_of(sample: Sample, request: str) -> DecodeRequest:
    """What one of `REQUESTS` means for a sample."""
    if request == "region":
        return DecodeRequest(sample.box)
    return DecodeRequest(None, 2 if request == "half" else 1)


def check(samples: Sequence[Sample], format: str, request: str, reader: Reader) -> Cell | None:
    """Which samples the reader serves, and whether it serves them right; None where it has nothing to do with them.

    Args:
        samples: of any formats.
        format: the config's key of the format to check.
        request: one of `REQUESTS`.
        reader: the reader itself, so that nothing else answers in its place.
    """
    mine = tuple(number for number, sample in enumerate(samples) if sample.format == format)
    own, refused, wrong = [], [], []
    for number in mine:
        sample = samples[number]
        if not reader.accepts(sample.header):
            own.append(False)
            continue
        asked = asked_of(sample, request)
        got = reader.resolve(sample.header, asked)
        if got.scale != asked.scale:
            return None  # no reduced sizes: nothing to compare
        try:
            pixels = reader.decode(sample.data, got)
        except ReaderError as error:
            own.append(False)
            refused.append(f"{sample.name}: {error}")
            continue
        except Exception as error:  # another package's reader: its failure is a result, not the benchmark's end
            own.append(True)
            wrong.append(f"{sample.name}: {type(error).__name__}: {error}")
            continue
        found = fault(pixels, got, sample)
        if found and not fault(*decode(sample.data, asked, header=sample.header, reader=reader.name), sample):
            own.append(False)  # a damaged file, which `decode` doesn't give to this reader
            refused.append(f"{sample.name}: damaged")
            continue
        own.append(True)
        if found:
            wrong.append(f"{sample.name}: {found}")
    if not any(own):
        return None
    note = ""
    if wrong:
        note = f"not Pillow's pixels in {len(wrong)} of {len(own)} images, first {wrong[0]}"
    elif refused:
        note = f"refused {len(refused)} of {len(own)} images, first {refused[0]}"
    return Cell(reader.name, format, request, mine, tuple(own), not wrong, note)


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
