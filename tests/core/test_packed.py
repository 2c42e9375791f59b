"""Packed images: the JPEG's coefficients, pixels and metadata, in every instruction set; damage is an error."""

from __future__ import annotations

import io
import random
import struct
import zlib
from pathlib import Path

import core_jobs
import corpus
import numpy as np
import packed_reference
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_reference import mended
from PIL import Image

import fastpipe
from fastpipe import core, readers
from fastpipe.core import Status
from fastpipe.core.packed import PACKED_EXTENSION, is_packed, same_coefficients, unpack
from fastpipe.core.packed import pack as pack_exactly
from fastpipe.core.structs import Isa
from fastpipe.errors import DecodeError, NotPackableError, ReaderUnavailableError
from fastpipe.transforms import Compose, RandomResizedCrop, ToTensor
from fastpipe.types import Header

pytestmark = [
    pytest.mark.needs_core,
    pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning", "ignore:.*:UserWarning:PIL"),
]


METADATA_REFUSALS = (Status.UNUSUAL_HEADER, Status.TRUNCATED, Status.BAD_MARKER, Status.CONTRADICTION)


def pack(jpeg: bytes) -> bytes:
    """Coefficients and metadata alone; test_packed_originals.py has the JPEG's own bytes."""
    return pack_exactly(jpeg, discard_original_bytes=True)


def pixels_of(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


@pytest.mark.parametrize("name", core_jobs.JPEGS)
def test_the_corpus(context: core.Context, name: str) -> None:
    """JPEGs that the core decodes are packed, and come back: coefficients, pixels, boxes, and as a JPEG again."""
    data = core_jobs.JPEGS[name]
    status, expected = core_jobs.decode(context, data)
    if status != Status.OK or "mpo" in name:
        with pytest.raises(NotPackableError):
            pack(data)
        return
    packed = pack(data)
    assert expected is not None
    assert is_packed(packed)
    assert same_coefficients(data, packed)
    status, image = core_jobs.decode(context, packed)
    assert status == Status.OK, core.status_text(status)
    np.testing.assert_array_equal(image, expected)
    rng = random.Random(name)
    height, width = expected.shape[:2]
    for _ in range(4):
        top, left = rng.randrange(height), rng.randrange(width)
        box = (top, left, rng.randint(1, height - top), rng.randint(1, width - left))
        status, image = core_jobs.decode(context, packed, box)
        assert status == Status.OK
        np.testing.assert_array_equal(image, expected[top : top + box[2], left : left + box[3]])
    again = unpack(packed)
    assert same_coefficients(again, packed)
    np.testing.assert_array_equal(pixels_of(again), pixels_of(data))
    one, other = core.read_header(data), core.read_header(again)
    assert isinstance(one, Header)
    assert isinstance(other, Header)
    assert other.orientation == one.orientation
    assert (other.size, other.color_space, other.subsampling) == (one.size, one.color_space, one.subsampling)


@pytest.mark.needs_core
@given(data=core_jobs.jpegs(), seed=st.integers(0, 1 << 20))
@settings(max_examples=100)
def test_made_files(data: bytes, seed: int) -> None:
    expected = core_jobs.pillows_verdict(data)
    assert expected is not None
    packed = pack(data)
    assert same_coefficients(data, packed)
    np.testing.assert_array_equal(pixels_of(unpack(packed)), expected)
    rng = random.Random(seed)
    height, width = expected.shape[:2]
    top, left = rng.randrange(height), rng.randrange(width)
    box = (top, left, rng.randint(1, height - top), rng.randint(1, width - left))
    for isa in core_jobs.isas():
        status, image = core_jobs.decode(core.Context(isa), packed, box)
        assert status == Status.OK, core.status_text(status)
        np.testing.assert_array_equal(image, expected[top : top + box[2], left : left + box[3]])


@pytest.mark.parametrize(
    "name", ["jpeg-420-7x9", "jpeg-gray", "jpeg-progressive-444", "jpeg-quality-100", "jpeg-exif-6"]
)
def test_the_page_says_how_to_read_it(name: str) -> None:
    """A reader in plain Python, written from the format's page, finds the same coefficients."""
    data = core_jobs.JPEGS[name]
    found = packed_reference.read(pack(data))
    header = core.read_header(data)
    assert isinstance(header, Header)
    assert found.size == header.size
    assert found.orientation == header.orientation
    assert pack(unpack(pack(data)))[72:] == pack(data)[72:] or "progressive" in name
    # Dequantized and transformed in floating point, gray is within rounding of Pillow's.
    rows, columns, _ = found.coefficients[0].shape
    cosines = np.array([[np.cos((2 * x + 1) * k * np.pi / 16) for x in range(8)] for k in range(8)]) / 2
    cosines[0] /= np.sqrt(2)
    blocks = (found.coefficients[0] * found.tables[0].astype(np.int64)).reshape(rows, columns, 8, 8)
    samples = np.einsum("rckl,ky,lx->ryc x".replace(" ", ""), blocks, cosines, cosines).reshape(rows * 8, columns * 8)
    with Image.open(io.BytesIO(data)) as image:
        luma = np.asarray(image if image.mode == "L" else image.convert("YCbCr"))
    luma = luma if luma.ndim == 2 else luma[..., 0]
    height, width = header.size
    error = np.abs(np.clip(samples[:height, :width] + 128, 0, 255) - luma)
    assert np.median(error) < 1.0


def test_metadata_and_what_stands_behind_the_end() -> None:
    data = corpus.with_segment(core_jobs.JPEGS["jpeg-icc"], 0xFE, b"a comment") + b"behind the end"
    packed = pack(data)
    found = packed_reference.read(packed)
    assert b"a comment" in found.segments
    assert b"ICC_PROFILE" in found.segments
    assert found.trailer == b"behind the end"
    again = unpack(packed)
    assert again.endswith(b"\xff\xd9behind the end")
    with Image.open(io.BytesIO(data)) as one, Image.open(io.BytesIO(again)) as other:
        assert other.info == one.info
    assert pack(again)[-len(found.segments) - 14 :] == packed[-len(found.segments) - 14 :]


def test_a_progressive_file_with_comments_between_its_scans() -> None:
    data = core_jobs.JPEGS["jpeg-progressive"]
    second = data.index(b"\xff\xda", data.index(b"\xff\xda") + 2)
    while data[second - 1] == 0xFF:
        second -= 1
    # In front of the tables of the second scan.
    place = data.index(b"\xff\xc4", data.index(b"\xff\xda"))
    with_comment = data[:place] + b"\xff\xfe\x00\x07hello" + data[place:]
    assert b"hello" in packed_reference.read(pack(with_comment)).segments
    np.testing.assert_array_equal(pixels_of(unpack(pack(with_comment))), pixels_of(data))
    with pytest.raises(NotPackableError, match="marker"):
        pack(data[:place] + b"\xff\xee\x00\x0eAdobe\0\0\0\0\0\0\0" + data[place:])


@pytest.mark.parametrize("name", ["png-rgb", "mpo", "jpeg-cmyk"])
def test_what_is_kept_as_it_is(name: str) -> None:
    data = next(data for key, data in corpus.files().items() if key.startswith(name))
    with pytest.raises(NotPackableError, match="Keep the file as it is") as caught:
        pack(data)
    assert caught.value.reason


@pytest.mark.parametrize("name", ["jpeg-420-7x9", "jpeg-gray-7x9"])
def test_each_byte_flipped(context: core.Context, name: str) -> None:
    """An error, or the same pixels: what isn't read isn't looked at."""
    data = core_jobs.JPEGS[name]
    packed = pack(data)
    expected = pixels_of(data)
    head = struct.unpack_from("<I", packed, 36)[0]
    rows_end = head + struct.unpack_from("<Q", packed, 40)[0]
    for place in range(len(packed)):
        for bit in (0, 3, 7):
            damaged = corpus.patched(packed, place, packed[place] ^ 1 << bit)
            status, image = core_jobs.decode(context, damaged)
            if status == Status.OK:
                np.testing.assert_array_equal(image, expected)
            assert place >= rows_end or status != Status.OK, place
            assert place < rows_end or status in (Status.OK, *METADATA_REFUSALS), place
            if place >= 8 and bit == 0:
                with pytest.raises(DecodeError):
                    unpack(damaged)


LIES = {
    "RGB, and the identifiers say YCbCr": ("jpeg-420-7x9", 11, 3),
    "YCbCr, and Adobe's segment says RGB": ("jpeg-rgb", 11, 2),
    "an orientation that EXIF doesn't give": ("jpeg-exif-6", 20, 3),
    "an orientation without EXIF": ("jpeg-420-7x9", 20, 6),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_head_that_says_other_things_than_the_metadata(context: core.Context, lie: str, tmp_path: Path) -> None:
    """Refused in memory, in a file of which parts are read, by `unpack` and by `same_coefficients`."""
    name, place, value = LIES[lie]
    packed = pack(core_jobs.JPEGS[name])
    assert packed[place] != value
    assert_contradicts(context, mended(corpus.patched(packed, place, value)), core_jobs.JPEGS[name], tmp_path)


@pytest.mark.parametrize("segment", [b"JFIF\0\1\1\0\0\1\0\1\0\0", b"Adobe\0\x64\0\0\0\0\1"], ids=["JFIF", "Adobe"])
def test_metadata_that_say_other_colors_than_the_head(context: core.Context, segment: bytes, tmp_path: Path) -> None:
    """An RGB image by its components' identifiers, to which a segment is added that makes it YCbCr."""
    data = core_jobs.JPEGS["jpeg-rgb"]
    packed = bytearray(pack(data))
    for component, identifier in enumerate(b"RGB"):
        packed[24 + 4 * component] = identifier
    rows_end = struct.unpack_from("<I", packed, 36)[0] + struct.unpack_from("<Q", packed, 40)[0]
    del packed[rows_end:]
    made = with_segments(packed, b"")
    assert core_jobs.decode(context, made)[0] == Status.OK
    np.testing.assert_array_equal(pixels_of(unpack(made)), pixels_of(data))
    marker = b"\xff\xe0" if segment.startswith(b"JFIF") else b"\xff\xee"
    made = with_segments(packed, marker + struct.pack(">H", 2 + len(segment)) + segment)
    assert_contradicts(context, made, data, tmp_path)


def with_segments(packed: bytearray, segments: bytes) -> bytes:
    """A packed image of a head, rows and these segments, without a trailer."""
    data = packed + segments
    struct.pack_into("<QQI", data, 48, len(segments), 0, zlib.crc32(segments))
    return mended(bytes(data))


def assert_contradicts(context: core.Context, packed: bytes, jpeg: bytes, folder: Path) -> None:
    assert core_jobs.decode(context, packed)[0] == Status.CONTRADICTION
    assert not same_coefficients(jpeg, packed)
    with pytest.raises(DecodeError, match="its head says other colors or another orientation than its segments"):
        unpack(packed)
    path = folder / ("lie" + PACKED_EXTENSION)
    path.write_bytes(packed)
    job, out = core.Job(), np.zeros((2, 3, 3), np.uint8)
    core_jobs.read_path(job, path)
    job.box(0, 0, 2, 3)
    job.write_array(out)
    assert context.run(job) == Status.CONTRADICTION
    with pytest.raises(DecodeError, match=r"lie\.fpj.*its head says other colors"):
        readers.read_image(path)


def test_every_cut(context: core.Context) -> None:
    packed = pack(core_jobs.JPEGS["jpeg-422-7x9"])
    for length in range(len(packed)):
        assert core_jobs.decode(context, packed[:length])[0] in core_jobs.REFUSALS
    assert core_jobs.decode(context, packed + b"\0")[0] in core_jobs.REFUSALS


def test_streams_that_lie(context: core.Context) -> None:
    """With right checksums each byte changed is refused, or is another image's, the same in all instruction sets."""
    packed = pack(core_jobs.JPEGS["jpeg-420-7x9"])
    portable = core.Context(Isa.PORTABLE)
    done = refused = 0
    for place in range(72, len(packed)):
        damaged = mended(corpus.patched(packed, place, packed[place] ^ 0x91))
        status, image = core_jobs.decode(context, damaged)
        other, same = core_jobs.decode(portable, damaged)
        assert status == other, place
        if status == Status.OK:
            np.testing.assert_array_equal(image, same)
            done += 1
        else:
            refused += 1
    assert done > 10
    assert refused > 10


def test_only_the_box_is_read(context: core.Context, tmp_path: Path) -> None:
    """A damaged row outside of the box isn't met; in it, it is named."""
    data = core_jobs.JPEGS["jpeg-444"]
    packed = bytearray(pack(data))
    head, table_count = struct.unpack_from("<I", packed, 36)[0], packed[22]
    (first,) = struct.unpack_from("<I", packed, 72 + 128 * table_count)
    packed[head + first + 5] ^= 0x55  # in row 1
    expected = pixels_of(data)
    path = tmp_path / ("damaged" + PACKED_EXTENSION)
    path.write_bytes(packed)
    for from_file in (False, True):
        for top, height, wanted in ((0, 8, Status.OK), (16, 40, Status.OK), (7, 5, Status.BAD_CHECKSUM)):
            job, out = core.Job(), np.zeros((height, 50, 3), np.uint8)
            if from_file:
                core_jobs.read_path(job, path)
            else:
                job.read(bytes(packed))
            job.box(top, 20, height, 50)
            job.write_array(out)
            assert context.run(job) == wanted
            assert job.raw.row == (1 if wanted else -1)
            if wanted == Status.OK:
                np.testing.assert_array_equal(out, expected[top : top + height, 20:70])
    with pytest.raises(DecodeError, match=r"row 1 of its MCUs.*checksum") as caught:
        readers.read_image(path)
    assert str(path) in str(caught.value)
    assert caught.value.format == "FPJ"


def test_a_member_of_a_container(context: core.Context, tmp_path: Path) -> None:
    data = core_jobs.JPEGS["jpeg-420"]
    packed = pack(data)
    path = tmp_path / "container"
    path.write_bytes(b"x" * 4321 + packed + b"y" * 99)
    expected = pixels_of(data)
    job, out = core.Job(), np.zeros((30, 40, 3), np.uint8)
    core_jobs.read_path(job, path, 4321, len(packed))
    job.box(60, 11, 30, 40)
    job.write_array(out)
    assert context.run(job) == Status.OK
    np.testing.assert_array_equal(out, expected[60:90, 11:51])
    core_jobs.read_path(job, path, 4321, len(packed) - 1)
    assert context.run(job) == Status.TRUNCATED


def test_headers_and_pixels(tmp_path: Path) -> None:
    for name in ("jpeg-exif-6", "jpeg-gray", "jpeg-rgb", "jpeg-411", "jpeg-progressive"):
        data = core_jobs.JPEGS[name]
        path = tmp_path / (name + PACKED_EXTENSION)
        path.write_bytes(pack(data))
        one, other = readers.read_header(path), readers.parse_header(data)
        assert one.format == "FPJ"
        assert one._replace(format="JPEG", data_offset=0, plain=other.plain, progressive=other.progressive) == (
            other._replace(data_offset=0)
        )
        for region in (None, (3, 5, 20, 30)):
            np.testing.assert_array_equal(
                readers.read_image(path, region=region, apply_exif=True),
                readers.read_image(data, region=region, apply_exif=True),
            )
        # Whichever reader is asked for: nothing else reads it.
        np.testing.assert_array_equal(readers.read_image(path, reader="pil"), readers.read_image(data))


def test_headers_that_are_cut_or_damaged(tmp_path: Path) -> None:
    packed = pack(core_jobs.JPEGS["jpeg-420"])
    path = tmp_path / "cut.fpj"
    for data, text in (
        (packed[:100], "ends before its head"),
        (corpus.patched(packed, 12, 9), "head can't be read"),
        (corpus.patched(packed, 8, 2), "head can't be read"),
    ):
        path.write_bytes(data)
        for source in (path, data):
            with pytest.raises(DecodeError, match=text):
                readers.read_header(source)
    path.write_bytes(packed[:-60])
    with pytest.raises(DecodeError, match="ends early"):
        readers.read_image(path)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """The same photos as JPEGs and packed."""
    for number in range(6):
        data = corpus.jpeg(90 + 7 * number, 120 - 9 * number, ("420", "444", "gray")[number % 3], number)
        for kind, body, ending in (("jpeg", data, ".jpg"), ("packed", pack(data), PACKED_EXTENSION)):
            folder = tmp_path / kind / f"class{number % 2}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number}{ending}").write_bytes(body)
    return tmp_path / "jpeg", tmp_path / "packed"


def test_datasets_and_batches(folders: tuple[Path, Path]) -> None:
    transform = Compose([RandomResizedCrop(32), ToTensor()])
    one, other = (fastpipe.ImageFolder(folder, transform, seed=3) for folder in folders)
    assert len(one) == len(other) == 6
    assert one.classes == other.classes
    for index in range(6):
        assert (one[index][0] == other[index][0]).all()
    for threads in (0, 2):
        batches = [
            next(iter(fastpipe.DataLoader(dataset, batch_size=6, threads=threads or None))) for dataset in (one, other)
        ]
        assert (batches[0][0] == batches[1][0]).all()
    data = [[path.read_bytes() for path in sorted(folder.glob("*/*"))] for folder in folders]
    transform = Compose([RandomResizedCrop(32), ToTensor()])
    made = []
    for files in data:
        torch.manual_seed(1)
        made.append(fastpipe.load_batch(files, transform))
    assert (made[0] == made[1]).all()
    assert "FPJ: core decodes the region alone" in str(fastpipe.explain(other))


def test_images_for_transforms_of_ones_own(folders: tuple[Path, Path]) -> None:
    """A PIL image, whose file is read once more where its pixels are asked for."""
    one, other = (fastpipe.ImageFolder(folder, lambda image: np.asarray(image).copy()) for folder in folders)
    for index in range(6):
        np.testing.assert_array_equal(one[index][0], other[index][0])


def test_packing_is_the_same_everywhere() -> None:
    for name in ("jpeg-420", "jpeg-progressive"):
        data = core_jobs.JPEGS[name]
        assert pack(data) == pack(data)
        again = pack(unpack(pack(data)))
        one, other = packed_reference.read(pack(data)), packed_reference.read(again)
        assert all((a == b).all() for a, b in zip(one.coefficients, other.coefficients, strict=True))


def test_large_images() -> None:
    """Sides up to JPEG's own limit, and a flat image of many rows."""
    image = Image.new("L", (65500, 9), 77)
    out = io.BytesIO()
    image.save(out, "JPEG")
    packed = pack(out.getvalue())
    assert same_coefficients(out.getvalue(), packed)
    status, pixels = core_jobs.decode(core.thread_context(), packed, (0, 65400, 9, 100))
    assert status == Status.OK
    assert pixels is not None
    assert (pixels == 77).all()
    tall = io.BytesIO()
    image.transpose(Image.Transpose.TRANSPOSE).save(tall, "JPEG")
    packed = pack(tall.getvalue())
    assert isinstance(core.read_header(packed), Header)
    status, pixels = core_jobs.decode(core.thread_context(), packed, (65000, 0, 500, 9))
    assert pixels is not None
    assert (pixels == 77).all()


def test_verify_compares_with_the_jpeg(folders: tuple[Path, Path]) -> None:
    """Pillow doesn't know packed images: what torchvision is given is the JPEG that they are."""
    found = fastpipe.verify(Compose([RandomResizedCrop(32), ToTensor()]), folders[1], images=6, drawings=2)
    assert found.equal == found.compared == 12


def test_check_tells_a_cut_file_and_a_damaged_row(folders: tuple[Path, Path]) -> None:
    paths = sorted(folders[1].glob("*/*"))
    whole, damaged = paths[0].read_bytes(), bytearray(paths[1].read_bytes())
    paths[0].write_bytes(whole[:-400])
    damaged[struct.unpack_from("<I", damaged, 36)[0] + 7] ^= 1
    paths[1].write_bytes(damaged)
    rows = {Path(row.path).name: row for row in fastpipe.check(folders[1], jobs=1, progress=False).rows if row.bad}
    cut, bad = (rows.pop(path.name) for path in paths[:2])
    assert not rows
    assert "truncated" in str(cut)
    assert "unreadable" in str(bad)
    assert "row 0 of its MCUs" in str(bad)


def test_without_the_core_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "image.fpj"
    path.write_bytes(pack(core_jobs.JPEGS["jpeg-420"]))
    monkeypatch.setattr(core, "available", lambda: False)
    monkeypatch.setattr(core, "why_not", lambda: "the core wasn't compiled: install fastpipe again")
    with pytest.raises(ReaderUnavailableError, match=r"image\.fpj is a packed image.*install fastpipe again"):
        readers.read_image(path)
