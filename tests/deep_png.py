"""PNGs of 16 bits a sample, gray and RGB, with any filters: Pillow writes only gray ones."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import corpus
import numpy as np
from numpy.typing import NDArray

GRAY, RGB = 0, 2
END = corpus.chunk(b"IEND", b"")


def file_of(
    samples: NDArray[np.uint16], filters: Sequence[int] = (0,), before: bytes = b"", interlace: int = 0
) -> bytes:
    """A PNG of samples ``(H, W)`` or ``(H, W, 3)``, with the filters in turn."""
    height, width = samples.shape[:2]
    kind = GRAY if samples.ndim == 2 else RGB
    step = 2 if kind == GRAY else 6
    lines = samples.astype(">u2").reshape(height, -1).view(np.uint8).astype(np.int32)
    above, stream = np.zeros(lines.shape[1], np.int32), b""
    for y, line in enumerate(lines):
        filter_ = filters[y % len(filters)]
        left = np.concatenate([np.zeros(step, np.int32), line[:-step]])
        corner = np.concatenate([np.zeros(step, np.int32), above[:-step]])
        guess = (0 * line, left, above, (left + above) // 2, paeth(left, above, corner))[filter_]
        stream += bytes((filter_,)) + ((line - guess) & 255).astype(np.uint8).tobytes()
        above = line
    ihdr = struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, interlace)
    pixels = corpus.chunk(b"IDAT", zlib.compress(stream, 1))
    return b"\x89PNG\r\n\x1a\n" + corpus.chunk(b"IHDR", ihdr) + before + pixels + END


def paeth(left: NDArray[np.int32], above: NDArray[np.int32], corner: NDArray[np.int32]) -> NDArray[np.int32]:
    """The PNG specification's predictor, section 9.4."""
    by_left, by_above, by_corner = abs(above - corner), abs(left - corner), abs(left + above - 2 * corner)
    nearest_above = np.where(by_above <= by_corner, above, corner)
    return np.where((by_left <= by_above) & (by_left <= by_corner), left, nearest_above)


def samples_of(height: int, width: int, kind: int, noise: int, seed: int = 0) -> NDArray[np.uint16]:
    shape = (height, width) if kind == GRAY else (height, width, 3)
    rng = np.random.default_rng(seed)
    smooth = 300 * np.arange(height)[:, None] + 70 * np.arange(width)
    smooth = smooth if kind == GRAY else smooth[..., None] * np.array([1, 2, 3])
    return ((smooth + rng.integers(0, noise, shape)) % 65536).astype(np.uint16)
