"""Headers against Pillow's."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path
from typing import Any

import corpus
import pytest
from PIL import Image, PngImagePlugin, UnidentifiedImageError

from fastpipe import core, readers
from fastpipe.errors import DecodeError
from fastpipe.readers import header as header_module
from fastpipe.readers.header import _ask_pillow

pytestmark = pytest.mark.filterwarnings(
    "ignore::PIL.Image.DecompressionBombWarning", "ignore:.*:UserWarning:PIL", "ignore:.*malformed MPO.*"
)


@pytest.mark.parametrize("name", corpus.files())
def test_format_size_and_orientation_are_pillows(name: str) -> None:
    data = corpus.files()[name]
    try:
        with Image.open(io.BytesIO(data)) as image:
            expected = (image.format, image.height, image.width, getattr(image, "is_animated", False))
            orientation = 1 if image.format == "TIFF" else image.getexif().get(0x0112, 1)
    except Exception:
        # A file whose pixels Pillow can't even begin is refused here or, at the latest, at the decode.
        assert corpus.reference(name) is None
        return
    header = readers.parse_header(data)
    assert (header.format, header.height, header.width, header.animated) == expected
    if "-after" in name:  # behind the pixels, where a header doesn't look; apply_exif does, see test_conformance
        orientation = 1
    assert header.orientation == (orientation if orientation in range(1, 9) else 1)
    assert -1 <= header.data_offset <= len(data)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_data_in_memory_of_every_kind(kind: type) -> None:
    data = corpus.files()["jpeg-420"]
    assert readers.parse_header(kind(data)) == readers.read_header(data)
    assert (readers.read_image(kind(data)) == corpus.reference("jpeg-420")).all()


def test_paths_give_the_same_headers_as_bytes(tmp_path: Path) -> None:
    for name, path in corpus.write_folder(tmp_path, sound_only=True).items():
        data = path.read_bytes()
        assert readers.read_header(path) == readers.read_header(str(path)) == readers.parse_header(data), name


@pytest.mark.needs_core
def test_the_details_of_jpegs() -> None:
    headers = {name: readers.parse_header(data) for name, data in corpus.files().items() if _is_sound_jpeg(name)}
    common = {"444": "4:4:4", "422": "4:2:2", "420": "4:2:0", "440": "4:4:0", "411": "4:1:1"}
    for kind, name in common.items():
        header = headers[f"jpeg-{kind}"]
        assert (header.subsampling, header.color_space, header.channels, header.bit_depth) == (name, "YCbCr", 3, 8)
        assert header.plain
        assert not header.progressive
    assert (headers["jpeg-gray"].subsampling, headers["jpeg-gray"].color_space) == (None, "L")
    assert headers["jpeg-progressive"].progressive
    assert headers["jpeg-rgb"].color_space == headers["jpeg-ids-rgb"].color_space == "RGB"
    assert headers["jpeg-ids-odd"].color_space == "YCbCr"
    assert headers["jpeg-cmyk"].color_space == "CMYK"
    assert headers["jpeg-ycck"].color_space == "YCCK"
    assert not headers["jpeg-cmyk"].plain
    assert headers["jpeg-xmp-orientation"].orientation == 6
    assert headers["mpo"].animated
    assert headers["mpo"].plain


def test_pillows_headers_have_the_cores_colors() -> None:
    compared = 0
    for name, data in corpus.files().items():
        header = core.read_header(data) if core.available() else None
        if isinstance(header, readers.Header) and _is_sound_jpeg(name):
            assert _ask_pillow(io.BytesIO(data), name, data[:16]).color_space == header.color_space, name
            compared += 1
    assert compared > 30 or not core.available()


def _is_sound_jpeg(name: str) -> bool:
    return name.startswith(("jpeg", "mpo")) and corpus.reference(name) is not None


@pytest.mark.needs_core
def test_the_details_of_pngs() -> None:
    def header(name: str) -> readers.Header:
        return readers.parse_header(corpus.files()[name])

    assert header("png-rgb").plain
    assert header("png-interlaced").progressive
    assert header("png-palette-trns").transparency
    assert not header("png-palette-trns").plain
    assert (header("png-1-bit").bit_depth, header("png-1-bit").color_space) == (1, "L")
    assert (header("png-16-bit-gray").bit_depth, header("png-16-bit-rgb").channels) == (16, 3)
    assert header("png-rgba").color_space == "RGBA"
    assert header("png-palette").color_space == "P"
    assert header("png-animated").animated


def test_a_header_reads_only_the_files_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(corpus.files()["jpeg-large-header"] + bytes(50 << 20))
    tracemalloc.start()
    readers.read_header(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


def test_no_pixel_is_allocated_on_a_headers_word() -> None:
    header = readers.parse_header(corpus.files()["jpeg-claims-huge"])
    assert header.size == (65000, 65000)
    tracemalloc.start()
    with pytest.raises(DecodeError, match=r"bomb|exceeds"):
        readers.read_image(corpus.files()["jpeg-claims-huge"])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("big_endian", [False, True])
def test_orientations_in_both_byte_orders(orientation: int, big_endian: bool) -> None:
    data = corpus.with_segment(corpus.jpeg(8, 8), 0xE1, corpus.exif(orientation, big_endian))
    assert readers.parse_header(data).orientation == orientation


@pytest.mark.parametrize("data", [b"a", b"abc", b"II*", b"BM", b"\xff\xd8", b"hello"], ids=repr)
def test_a_file_of_few_bytes_is_no_image(data: bytes) -> None:
    """Also where a plugin of Pillow's wants more to see whether it is its own."""
    with pytest.raises(UnidentifiedImageError):
        Image.open(io.BytesIO(data))
    with pytest.raises(DecodeError, match="not an image that Pillow recognises"):
        readers.read_header(data)


@pytest.mark.parametrize("error", [MemoryError, RecursionError])
def test_running_out_of_memory_is_no_orientation(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(file: Any) -> Any:
        raise error

    stream = io.BytesIO()
    Image.new("RGB", (3, 2)).save(stream, "PNG")
    late = io.BytesIO()
    PngImagePlugin.putchunk(late, b"eXIf", b"MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0")
    data = stream.getvalue()[:-12] + late.getvalue() + stream.getvalue()[-12:]
    header = readers.parse_header(data)
    assert readers.upright_orientation(data, header) == 6
    bitmap = io.BytesIO()
    Image.new("RGB", (3, 2)).save(bitmap, "BMP")  # Pillow reads its header
    with monkeypatch.context() as patch:
        patch.setattr(Image.Image, "getexif", fails)
        with pytest.raises(error):
            readers.parse_header(bitmap.getvalue())
    monkeypatch.setattr(header_module, "open_any_size", fails)
    with pytest.raises(error):
        readers.upright_orientation(data, header)
    with pytest.raises(error):
        readers.parse_header(bitmap.getvalue())
