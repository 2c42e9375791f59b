"""Every reader on every file of the corpus: Pillow's pixels, or Pillow's refusal."""

from __future__ import annotations

import io
import warnings

import corpus
import numpy as np
import pytest
from PIL import Image, ImageOps

from fastpipe import readers
from fastpipe.errors import DecodeError
from fastpipe.readers.registry import known_readers
from fastpipe.types import Box

pytestmark = pytest.mark.filterwarnings(
    "ignore::PIL.Image.DecompressionBombWarning", "ignore:.*:UserWarning:PIL", "ignore:.*malformed MPO.*"
)

READERS = known_readers()


def need(name: str) -> readers.Reader:
    status = readers.reader_status()[name]
    if not status.available:
        pytest.skip(status.reason)
    return readers.get_reader(name)


@pytest.mark.parametrize("name", corpus.files())
@pytest.mark.parametrize("reader", [name for name in READERS if readers.reader_status()[name].available])
def test_pillows_pixels_or_its_refusal(reader: str, name: str) -> None:
    data, expected = corpus.files()[name], corpus.reference(name)
    if expected is None:
        with pytest.raises(DecodeError):
            readers.read_image(data, reader=reader)
    else:
        pixels = readers.read_image(data, reader=reader)
        assert pixels.dtype == np.uint8
        np.testing.assert_array_equal(pixels, expected)


@pytest.mark.parametrize("reader", READERS)
def test_regions_of_every_sound_file(reader: str) -> None:
    need(reader)
    rng = np.random.default_rng(5)
    for name, data in corpus.sound_files().items():
        expected = corpus.reference(name)
        height, width = expected.shape[:2]
        for _ in range(2):
            rows, columns = np.sort(rng.integers(0, height + 1, 2)), np.sort(rng.integers(0, width + 1, 2))
            if rows[0] == rows[1] or columns[0] == columns[1]:
                continue
            box = Box(int(rows[0]), int(columns[0]), int(rows[1] - rows[0]), int(columns[1] - columns[0]))
            pixels = readers.decode(data, box, reader=reader)
            np.testing.assert_array_equal(pixels, expected[box.top : box.bottom, box.left : box.right], err_msg=name)


@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_files_region_is_refused_like_the_file(reader: str) -> None:
    need(reader)
    for name, data in corpus.files().items():
        if corpus.reference(name) is not None:
            continue
        try:
            header = readers.parse_header(data)
        except DecodeError:
            continue
        if min(header.size) < 1 or header.height * header.width > 1 << 24:
            continue
        with pytest.raises(DecodeError):  # although these pixels are undamaged in most of these files
            readers.read_image(data, reader=reader, region=(0, 0, 1, 1))


@pytest.mark.parametrize("reader", READERS)
def test_exif_orientation_is_applied_as_pillow_does(reader: str) -> None:
    need(reader)
    names = [name for name in corpus.sound_files() if "exif" in name or "orientation" in name]
    assert len(names) >= 15
    for name in names:
        data = corpus.files()[name]
        with Image.open(io.BytesIO(data)) as image:
            expected = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
        upright = readers.read_image(data, reader=reader, apply_exif=True)
        np.testing.assert_array_equal(upright, expected, err_msg=name)
        height, width = expected.shape[:2]
        region = (height // 4, width // 3, height // 2, width // 5)
        part = readers.read_image(data, reader=reader, apply_exif=True, region=region)
        top, left, rows, columns = region
        np.testing.assert_array_equal(part, expected[top : top + rows, left : left + columns], err_msg=name)
        assert part.flags.c_contiguous
        assert part.flags.writeable


@pytest.mark.needs_core
@pytest.mark.parametrize("reader", ["core", "cv2", "imageio", "turbojpeg"])
def test_the_fast_readers_do_take_plain_files(reader: str) -> None:
    """Else all that is compared above would be Pillow with itself."""
    chosen = need(reader)
    kinds = (*corpus.SUBSAMPLINGS, "gray", "rgb", "exif-6", "icc", "restart-rows", "trailing")
    names = [*(f"jpeg-{kind}" for kind in kinds), "mpo"]
    if reader == "core":
        names.append("jpeg-progressive")
    if reader in ("core", "imageio"):
        names += [f"png-{kind}" for kind in ("rgb", "gray", "rgba", "icc", "text-after", "palette-4-bit-full")]
    if reader in ("cv2", "imageio"):
        names += ["webp", "webp-lossless"]
    for name in names:
        data = corpus.files()[name]
        header = readers.parse_header(data)
        assert chosen.accepts(header), name
        assert readers.proved(chosen, data, header), name
        np.testing.assert_array_equal(chosen.decode(data), corpus.reference(name), err_msg=name)


def test_the_defaults_and_pillow_alone_agree() -> None:
    """A config that names Pillow for everything gives the same pixels as the defaults."""

    class OnlyPillow:
        def reader_for(self, format: str) -> str:
            return "pil"

    for name, data in corpus.sound_files().items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            default = readers.read_image(data)
            pillows = readers.read_image(data, config=OnlyPillow())
        np.testing.assert_array_equal(default, pillows, err_msg=name)
