"""The images that a benchmark decodes: some of the user's own, or synthetic ones that compress like photos."""

from __future__ import annotations

import io
import math
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from PIL import Image

from fastpipe import readers
from fastpipe.config import format_key
from fastpipe.errors import ConfigError, DatasetError, ReaderError
from fastpipe.program import lower
from fastpipe.progress_bar import ProgressCallback, no_progress
from fastpipe.rng import keyed_generators
from fastpipe.tools.inputs import choose_files
from fastpipe.transforms import RandomResizedCrop
from fastpipe.transforms.pipeline import compile_pipeline
from fastpipe.types import Box, Header, ImageShape

# By kind: (file suffix, Pillow's format, Pillow's mode, options for `Image.save`).
KINDS: Mapping[str, tuple[str, str, str, Mapping[str, object]]] = MappingProxyType(
    {
        "jpeg-444": (".jpg", "JPEG", "RGB", {"quality": 96, "subsampling": "4:4:4"}),
        "jpeg-420": (".jpg", "JPEG", "RGB", {"quality": 96, "subsampling": "4:2:0"}),
        "jpeg-gray": (".jpg", "JPEG", "L", {"quality": 96}),
        "jpeg-progressive": (".jpg", "JPEG", "RGB", {"quality": 92, "subsampling": "4:2:0", "progressive": True}),
        "png": (".png", "PNG", "RGB", {}),
        "webp": (".webp", "WEBP", "RGB", {"quality": 90}),
    }
)

# The most frequent (height, width) in ImageNet.
SIZES = ((375, 500), (375, 500), (333, 500), (500, 375), (375, 500), (500, 333), (400, 300), (500, 500))

# By format: the kinds of synthetic images, in turn. ImageNet has baseline 4:4:4 and 4:2:0 with few others.
MIXES: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "jpeg": ("jpeg-420", "jpeg-444") * 7 + ("jpeg-gray", "jpeg-progressive"),
        "png": ("png",),
        "webp": ("webp",),
    }
)

_CROP = compile_pipeline(RandomResizedCrop(224))
_MOST_PIXELS = 16_000_000
_LEAST_FILES = 4


@dataclass(frozen=True, slots=True)
class Sample:
    """One encoded image, and the region that the benchmark requests."""

    name: str  # the path, or a synthetic image's kind and number
    data: bytes  # the file's bytes
    header: Header  # the parsed header
    box: Box  # a region drawn by ``RandomResizedCrop``

    @property
    def format(self) -> str:
        """The format's key in the config: ``"jpeg"``, ``"png"``, …"""
        return format_key(self.header.format)


def photo(seed: int, height: int = 375, width: int = 500) -> npt.NDArray[np.uint8]:
    """Makes a synthetic image with a photo's statistics: a 1/f spectrum, smooth shapes with edges, some sensor noise.

    Returns:
        uint8 ``(height, width, 3)`` RGB, the same for the same seed. As a JPEG of quality 96, an image of 375×500 has
        about 100 kB, like ImageNet's.
    """
    rng = np.random.default_rng(seed)
    rows = np.arange(height, dtype=np.float32)[:, None] / max(height, width)
    columns = np.arange(width, dtype=np.float32)[None, :] / max(height, width)
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None, :]).astype(np.float32)
    frequency[0, 0] = 1.0

    def noise(exponent: float) -> npt.NDArray[np.float32]:
        phases = rng.standard_normal((2, *frequency.shape), dtype=np.float32)
        field = np.fft.irfft2((phases[0] + 1j * phases[1]) / frequency**exponent, s=(height, width))
        scaled: npt.NDArray[np.float32] = (field / (field.std() + 1e-9)).astype(np.float32)
        return scaled

    luma = 118 + 30 * noise(1.25)
    chroma = np.stack([9 * noise(1.7), 9 * noise(1.7)])
    for _ in range(int(rng.integers(4, 9))):
        center, radius = rng.uniform(0, 1, 2), rng.uniform(0.04, 0.35, 2)
        angle, sharp = rng.uniform(0, math.pi), rng.uniform(8, 60)
        y, x = rows - center[0], columns - center[1]
        along, across = x * math.cos(angle) + y * math.sin(angle), y * math.cos(angle) - x * math.sin(angle)
        distance = np.hypot(along / radius[0], across / radius[1])
        inside = 1 / (1 + np.exp(np.clip(sharp * (distance - 1), -30, 30)))
        luma = luma * (1 - 0.6 * inside) + inside * (rng.uniform(30, 200) * 0.6 + 25 * along)
        chroma = chroma * (1 - 0.7 * inside) + inside * rng.uniform(-32, 32, (2, 1, 1))
    luma += rng.normal(0, 2.4, luma.shape)
    blue, red = chroma
    rgb = np.stack([luma + 1.402 * red, luma - 0.344 * blue - 0.714 * red, luma + 1.772 * blue], axis=-1)
    pixels: npt.NDArray[np.uint8] = np.clip(np.rint(rgb), 0, 255).astype(np.uint8)
    return pixels


def encode(pixels: npt.NDArray[np.uint8], kind: str) -> bytes:
    """Encodes RGB pixels, uint8 ``(H, W, 3)``, as a file of one of `KINDS`."""
    _, format, mode, options = KINDS[kind]
    out = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(out, format, **options)
    return out.getvalue()


def make_folder(
    path: str | os.PathLike[str],
    classes: int = 4,
    per_class: int = 16,
    *,
    kinds: Sequence[str] = MIXES["jpeg"],
    sizes: Sequence[tuple[int, int]] = SIZES,
    seed: int = 0,
) -> list[Path]:
    """Writes synthetic photos in ``ImageFolder``'s layout: ``path/class00/000.jpg``, …

    Args:
        path: the root; made if it is missing.
        classes, per_class: the number of folders, and of images in each.
        kinds, sizes: keys of `KINDS`, and ``(height, width)`` in pixels; used in turn.
        seed: the same arguments give the same files.

    Returns:
        The files, sorted.
    """
    written = []
    for label in range(classes):
        folder = Path(path) / f"class{label:02d}"
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(per_class):
            order = label * per_class + number
            # Sizes are shifted by one after each round of the kinds, so that every kind gets every size.
            height, width = sizes[(order + order // len(kinds)) % len(sizes)]
            kind = kinds[order % len(kinds)]
            file = folder / f"{number:03d}{KINDS[kind][0]}"
            file.write_bytes(encode(photo(seed + order, height, width), kind))
            written.append(file)
    return sorted(written)


def made_samples(
    formats: Collection[str] | None = None, count: int = 24, *, progress: ProgressCallback = no_progress
) -> list[Sample]:
    """Makes synthetic photos in memory: `count` of each format, always the same.

    Args:
        formats: keys of `MIXES`; None for all.
        count: images of each format.
        progress: called with the progress.

    Raises:
        DatasetError: a format that isn't made.
    """
    samples: list[Sample] = []
    wanted = MIXES if formats is None else formats
    for format in wanted:
        if format not in MIXES:
            names = ", ".join(MIXES)
            raise ConfigError(f"can't make {format!r} images (made: {names}); name a folder that holds some")
        kinds = MIXES[format]
        for number in range(count):
            progress(len(samples), count * len(wanted), "making images")
            # In odd steps through the sixteen kinds, so that a small sample is mixed, too.
            kind = kinds[(number * 5) % len(kinds)]
            data = encode(photo(number, *SIZES[number % len(SIZES)]), kind)
            samples.append(read_sample(f"{kind}-{number}", data, number))
    return samples


def sample_folder(
    path: str | os.PathLike[str],
    formats: Iterable[str] | None = None,
    count: int = 24,
    *,
    progress: ProgressCallback = no_progress,
) -> list[Sample]:
    """Reads the images that `choose_files` returns into memory.

    A format's images are limited to 16 million pixels in total (but at least four images), so that huge photos don't
    take hours.

    Args:
        path: a folder, searched with its subfolders, a zip, tar, shards or Parquet with images, or a file.
        formats: the formats' keys in the config; None for every format found.
        count: the most images of each format.
        progress: called with the progress.

    Raises:
        DatasetError: there is no such path, or no image of these formats below it.
    """
    wanted = None if formats is None else {format_key(name) for name in formats}
    progress(0, 0, f"looking for images in {path}")
    # Rare formats are searched among twenty times as many files, not in the whole dataset.
    files = choose_files(path, 20 * count)
    by_format: dict[str, list[Sample]] = {}
    pixels: Counter[str] = Counter()
    for number, name in enumerate(files):
        progress(number, len(files), "reading images")
        try:
            data = readers.read_file(name, None)
            readers.decode(data, reader="pil", max_pixels=None)
        except (ReaderError, OSError):  # not an image or a damaged one
            continue
        sample = read_sample(name, data, number)
        taken = by_format.setdefault(sample.format, [])
        full = len(taken) >= count or (len(taken) >= _LEAST_FILES and pixels[sample.format] >= _MOST_PIXELS)
        if not full and (wanted is None or sample.format in wanted):
            taken.append(sample)
            pixels[sample.format] += sample.header.height * sample.header.width
    samples = [sample for key in sorted(by_format) for sample in by_format[key]]
    if not samples:
        asked = f" of format {', '.join(sorted(wanted))}" if wanted else ""
        raise DatasetError(f"{path} holds no image{asked} that can be read; name a folder that does, or none")
    return samples


def read_sample(name: str, data: bytes, key: int) -> Sample:
    """Makes a sample of a file's bytes, with a region drawn by a key."""
    header = readers.parse_header(data, name)
    recipe = _CROP.draw(ImageShape(header.height, header.width), keyed_generators(key))
    return Sample(name, data, header, lower(recipe.steps, recipe.shape).box)
