"""Files made to keep a reader busy, and paths that lead to no file."""

from __future__ import annotations

import contextlib
import io
import os
import socket
import struct
import tempfile
from pathlib import Path

import corpus
import numpy as np
import pytest
from fuzz.mutate import mutation
from PIL import Image, ImageOps

from fastpipe import core, readers
from fastpipe.errors import DecodeError
from fastpipe.readers._jpeg import MAX_SCANS
from fastpipe.readers.core import CoreReader
from fastpipe.types import Box

READERS = readers.available_readers()
JPEG_READERS = [name for name in READERS if "JPEG" in readers.get_reader(name).formats]


def _with_scans(count: int) -> bytes:
    """A progressive JPEG whose last scan is there ``count`` times more."""
    data = corpus.save(corpus.photo(16, 16), "JPEG", progressive=True)
    last = data.rfind(b"\xff\xda")
    tables = data.rfind(b"\xff\xc4", 0, last)
    return data[:last] + data[tables:-2] * count + data[last:]


@pytest.mark.parametrize("reader", READERS)
def test_endless_scans_are_refused(reader: str) -> None:
    for data in (_with_scans(MAX_SCANS), _with_scans(20_000)):
        for region in (None, (0, 0, 1, 1)):
            with pytest.raises(DecodeError, match=f"more than {MAX_SCANS} scans"):
                readers.read_image(data, reader=reader, region=region)


def test_scans_are_counted_where_they_are() -> None:
    data = _with_scans(MAX_SCANS // 2)
    np.testing.assert_array_equal(readers.read_image(data), corpus.pillow_pixels(data))
    progressive = corpus.files()["jpeg-progressive"]
    marks = b"\xff\xda" * (MAX_SCANS + 1)
    for data in (progressive + marks, corpus.with_segment(progressive, 0xE5, marks)):  # none of these is a scan
        np.testing.assert_array_equal(readers.read_image(data), corpus.pillow_pixels(data))


@pytest.mark.needs_core
def test_a_jpeg_is_whole_or_not() -> None:
    def intact(data: bytes) -> bool:
        return readers.intact_jpeg(data, readers.parse_header(data))

    files = corpus.files()
    sound = ("jpeg-420", "jpeg-gray", "jpeg-restart-rows", "jpeg-trailing", "jpeg-progressive", "mpo")
    assert all(intact(files[name]) for name in sound)
    for name in ("jpeg-420", "jpeg-progressive"):
        whole = files[name]
        assert core.jpeg_end(whole) == core.jpeg_end(whole + bytes(9)) == len(whole)
        assert not intact(whole[:-2])
    assert not intact(files["jpeg-420-cut-half"])
    assert not intact(files["jpeg-420-marker-inside"])
    for name in ("jpeg-cmyk", "png-rgb", "png-too-few-rows", "webp"):
        assert not intact(files[name]), name


@pytest.mark.needs_core
def test_pillow_decodes_every_jpeg_that_is_intact() -> None:
    found = {True: 0, False: 0}
    for number in range(700):
        _, data = mutation(11, number, ("jpeg",))
        header = core.read_header(data)
        if not isinstance(header, readers.Header) or header.format != "JPEG" or not header.plain:
            continue
        is_intact = readers.intact_jpeg(data, header)
        found[is_intact] += 1
        try:
            CoreReader().decode_region(data, Box(0, 0, 1, 1))
        except DecodeError:
            pass
        else:
            assert is_intact
        if is_intact:
            assert 0 < core.jpeg_end(data) <= len(data)
            Image.open(io.BytesIO(data)).load()
    assert min(found.values()) > 50


@pytest.mark.parametrize("reader", JPEG_READERS)
@pytest.mark.parametrize("kind", ["jpeg-420", "jpeg-progressive"])
def test_tables_of_the_image_before_are_never_used(reader: str, kind: str) -> None:
    """A decoder that is used again keeps them; Pillow begins anew."""
    data = corpus.files()[kind]
    places = [at for at in range(len(data) - 4) if data[at] == 0xFF and data[at + 1] in (0xC4, 0xDB)]
    for at in places:
        size = struct.unpack_from(">H", data, at + 2)[0]
        if data[at + 1] == 0xDB:
            damaged = [data[:at] + data[at + 2 + size :]]
        else:
            damaged = [data[:at] + data[at + 2 + size :], corpus.patched(data, at + 4, data[at + 4] ^ 2)]
        for broken in damaged:
            readers.decode(data, reader=reader)
            expected = corpus.pillow_pixels(broken)
            if expected is None:
                with pytest.raises(DecodeError):
                    readers.decode(broken, reader=reader)
            else:
                np.testing.assert_array_equal(readers.decode(broken, reader=reader), expected)


def test_absurd_segments_are_refused() -> None:
    start = corpus.jpeg(16, 16)
    exif = corpus.exif(6)
    segment = b"\xff\xe1" + struct.pack(">H", 65_000) + b"Exif\0\0" + bytes(64_992)
    absurd = {
        "bytes of EXIF": start[:2] + segment * 300 + start[2:],
        "segments": start[:2] + (b"\xff\xfe\0\3a" * 20_000) + start[2:],
    }
    for message, data in absurd.items():
        with pytest.raises(DecodeError, match=f"more than .* {message}"):
            readers.read_image(data)
    many = start[:2] + (b"\xff\xfe\0\3a" * 2000) + start[2:]
    np.testing.assert_array_equal(readers.read_image(many), corpus.pillow_pixels(many))
    twice = corpus.with_segment(start, 0xE1, exif)
    assert readers.parse_header(twice).orientation == 6


def test_absurd_segments_of_a_file_are_refused(tmp_path: Path) -> None:
    start = corpus.jpeg(16, 16)
    path = tmp_path / "absurd.jpg"
    path.write_bytes(start[:2] + (b"\xff\xfe" + struct.pack(">H", 1000) + bytes(998)) * 11_000 + start[2:])
    for read in (readers.read_header, readers.read_image):
        with pytest.raises(DecodeError, match=r"absurd\.jpg.*more than .* segments"):
            read(path)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
def test_exif_that_points_everywhere(reader: str) -> None:
    """EXIF with offsets out of the file or to themselves, counts of billions, and every type."""
    rng = np.random.default_rng(3)
    picture = corpus.jpeg(16, 24)
    for offset in (0, 6, 8, 20, 0x7FFFFFFF, 0xFFFFFFFF):
        for count in (0, 1, 3, 0xFFFF):
            for kind in (0, 3, 4, 7, 12, 13, 99):
                values = int(rng.choice((1, 2, 0xFFFFFFFF)))
                entry = struct.pack("<HHII", int(rng.choice((0x0112, 0x8769, 0x927C))), kind, values, offset)
                body = b"Exif\0\0II*\0" + struct.pack("<IH", 8, count) + entry * min(count, 3) + bytes(4)
                data = corpus.with_segment(picture, 0xE1, body)
                np.testing.assert_array_equal(readers.read_image(data, reader=reader), corpus.pillow_pixels(data))
                readers.read_image(data, reader=reader, apply_exif=True)


def test_a_palette_that_is_missing_is_missing_for_a_region() -> None:
    """Pillow gives a crop a palette of its own where the image has none."""
    data = corpus.files()["png-palette-trns"]
    at = data.index(b"PLTE") - 4
    broken = data[:at] + data[at + 12 + struct.unpack_from(">I", data, at)[0] :]
    expected = corpus.pillow_pixels(broken)
    for box in (None, Box(2, 3, 9, 7)):
        if expected is None:
            with pytest.raises(DecodeError):
                readers.decode(broken, box)
        else:
            whole = Box(0, 0, *expected.shape[:2]) if box is None else box
            part = expected[whole.top : whole.bottom, whole.left : whole.right]
            np.testing.assert_array_equal(readers.decode(broken, box), part)


def test_a_second_size_in_a_png() -> None:
    """Pillow takes the last IHDR."""
    small, large = corpus.files()["png-rgb-7x9"], corpus.files()["png-rgb"]
    data = small[:33] + large[8:]
    assert readers.parse_header(data).size == corpus.reference("png-rgb").shape[:2]
    np.testing.assert_array_equal(readers.read_image(data), corpus.pillow_pixels(data))


# Paths


def _refused(path: Path | str, match: str) -> None:
    for read in (readers.read_image, readers.read_header, readers.read_file):
        with pytest.raises(OSError, match=match):
            read(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs on this system")
def test_fifos_sockets_and_devices_are_no_images(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    _refused(tmp_path / "pipe.jpg", "FIFO")
    (tmp_path / "link.jpg").symlink_to(tmp_path / "pipe.jpg")
    _refused(tmp_path / "link.jpg", "FIFO")
    for device in ("/dev/zero", "/dev/null"):
        (tmp_path / f"{Path(device).name}.jpg").symlink_to(device)
        _refused(tmp_path / f"{Path(device).name}.jpg", "device")
    with tempfile.TemporaryDirectory(dir="/tmp") as short, socket.socket(socket.AF_UNIX) as bound:
        bound.bind(f"{short}/s.jpg")  # a socket's path has at most some 100 bytes
        _refused(f"{short}/s.jpg", r"not a regular file|not supported")


def test_paths_that_are_none(tmp_path: Path) -> None:
    _refused(f"{tmp_path}/a\0b.jpg", "null")
    _refused(f"{tmp_path}/{'x' * 5000}.jpg", r"too long|No such file")
    _refused(tmp_path, "directory|denied")
    with contextlib.suppress(OSError):  # symbolic links need a permission on Windows
        (tmp_path / "one.jpg").symlink_to(tmp_path / "two.jpg")
        (tmp_path / "two.jpg").symlink_to(tmp_path / "one.jpg")
        _refused(tmp_path / "one.jpg", "symbolic links|resolve|No such")


@pytest.mark.skipif(os.name == "nt", reason="such names can't be on Windows")
def test_odd_names_are_names(tmp_path: Path) -> None:
    data = corpus.files()["jpeg-420"]
    (tmp_path / "sub").mkdir()
    for name in ("new\nline.jpg", "-rf.jpg", "sub/../up.jpg", "%s{0}.jpg", "snow\N{SNOWMAN}.jpg", "\udcff.jpg"):
        path = tmp_path / name
        try:
            path.write_bytes(data)
        except OSError:  # macOS takes valid UTF-8 only
            continue
        assert readers.read_image(str(path)).shape == (97, 131, 3)
        assert readers.read_header(os.fsencode(str(path)).decode("utf-8", "surrogateescape")).size == (97, 131)


def test_a_file_longer_than_any_image_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse.jpg"
    try:
        with path.open("wb") as file:
            file.write(corpus.files()["jpeg-420"])
            file.truncate(1 << 40)
    except OSError as error:
        pytest.skip(f"no sparse files here: {error}")
    with pytest.raises(OSError, match=r"1099511627776 bytes.*sparse\.jpg"):
        readers.read_image(path)
    assert readers.read_header(path).size == (97, 131)


def test_a_file_that_grows_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "grows.bin"
    path.write_bytes(b"a" * 1000)
    from fastpipe.readers import _files

    real = _files.open_file
    monkeypatch.setattr(_files, "open_file", lambda name: (real(name)[0], 10))
    assert readers.read_file(path) == b"a" * 1000
    monkeypatch.setattr(_files, "open_file", lambda name: (real(name)[0], 5000))
    assert readers.read_file(path) == b"a" * 1000


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("no /proc on this system")
    good, bad = tmp_path / "good.jpg", tmp_path / "bad.jpg"
    good.write_bytes(corpus.files()["jpeg-420"])
    bad.write_bytes(corpus.files()["jpeg-420-cut-header"])
    before = len(list(folder.iterdir()))
    for _ in range(50):
        readers.read_image(good)
        readers.read_header(good)
        for path in (bad, tmp_path):
            for read in (readers.read_image, readers.read_header):
                with contextlib.suppress(OSError):
                    read(path)
    assert len(list(folder.iterdir())) == before


def test_pillows_settings_are_left_alone() -> None:
    before = (Image.MAX_IMAGE_PIXELS, len(Image.ID), dict(Image.OPEN))
    for name in ("jpeg-420", "gif", "text", "png-claims-huge"):
        with contextlib.suppress(DecodeError):
            readers.read_image(corpus.files()[name], max_pixels=None if name != "png-claims-huge" else "auto")
    assert before[0] == Image.MAX_IMAGE_PIXELS
    assert set(before[2]) <= set(Image.OPEN)


def test_two_orientations_are_one_as_pillow_has_it() -> None:
    entries = b"".join(struct.pack("<HHIHH", 0x0112, 3, 1, value, 0) for value in (6, 3))
    body = b"Exif\0\0II*\0" + struct.pack("<IH", 8, 2) + entries + bytes(4)
    data = corpus.with_segment(corpus.jpeg(16, 24), 0xE1, body)
    with Image.open(io.BytesIO(data)) as image:
        assert readers.parse_header(data).orientation == image.getexif()[0x0112]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("kind", "value"), [(5, (6, 1)), (10, (12, 2)), (11, 6.0), (5, (13, 2)), (5, (6, 0))])
@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
def test_an_orientation_may_be_a_fraction(reader: str, kind: int, value: float | tuple[int, int]) -> None:
    if isinstance(value, tuple):
        entry = struct.pack("<HHII", 0x0112, kind, 1, 26) + bytes(4) + struct.pack("<II", *value)
    else:
        entry = struct.pack("<HHIf", 0x0112, kind, 1, value) + bytes(4)
    data = corpus.with_segment(corpus.jpeg(16, 24), 0xE1, b"Exif\0\0II*\0" + struct.pack("<IH", 8, 1) + entry)
    with Image.open(io.BytesIO(data)) as image:
        upright = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    assert readers.parse_header(data).orientation == (1 if upright.shape[0] == 16 else 6)
    np.testing.assert_array_equal(readers.read_image(data, reader=reader, apply_exif=True), upright)


@pytest.mark.parametrize("marker", [0xF0, 0xF1, 0xFD, 0xDC, 0xDE, 0xDF])
def test_markers_that_are_nobodys_are_pillows(marker: int) -> None:
    """Pillow doesn't know the length of some, and finds a whole image inside."""
    data = corpus.with_segment(corpus.jpeg(40, 70), marker, corpus.jpeg(8, 8))
    try:
        with Image.open(io.BytesIO(data)) as image:
            size = (image.height, image.width)
    except OSError:
        with pytest.raises(DecodeError):
            readers.parse_header(data)
        return
    header = readers.parse_header(data)
    assert header.size == size
    assert not header.plain


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("second", [1, 3, 9])
def test_exif_data_on_both_sides_of_a_pngs_pixels(reader: str, second: int) -> None:
    data = corpus.with_chunk(corpus.save(corpus.photo(9, 13), "PNG"), b"eXIf", corpus.exif(6)[6:])
    data = data[:-12] + corpus.chunk(b"eXIf", corpus.exif(second)[6:]) + data[-12:]
    with Image.open(io.BytesIO(data)) as image:
        upright = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    np.testing.assert_array_equal(readers.read_image(data, reader=reader, apply_exif=True), upright)
