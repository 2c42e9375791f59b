"""Packed images give the JPEG's own bytes back: of every encoder's options, or they are kept as they are."""

from __future__ import annotations

import hashlib
import io
import re
import struct
from collections.abc import Callable
from typing import Any

import core_jobs
import corpus
import numpy as np
import packed_reference
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_reference import mended, with_original
from PIL import Image

from fastpipe import core
from fastpipe.core import Status
from fastpipe.core.packed import Original, original_of, pack, same_coefficients, unpack
from fastpipe.errors import DecodeError, NotPackableError
from fastpipe.readers._jpeg import segments

pytestmark = [pytest.mark.needs_core, pytest.mark.filterwarnings("ignore:.*:UserWarning:PIL")]

TABLES = [[1 + (k * 7 + 3 * table) % 40 for k in range(64)] for table in range(3)]


def saved(height: int, width: int, mode: str = "RGB", seed: int = 0, **options: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(corpus.photo(height, width, seed)).convert(mode).save(out, "JPEG", **options)
    return out.getvalue()


@st.composite
def jpegs(draw: st.DrawFn) -> bytes:
    """JPEGs as Pillow's encoder can write them, with segments, fill bytes and bytes after the end."""
    options: dict[str, Any] = {"quality": draw(st.integers(5, 100))}
    for name in ("optimize", "progressive", "keep_rgb"):
        options[name] = draw(st.booleans())
    mode = draw(st.sampled_from(["RGB", "RGB", "L"]))
    if mode == "L" or not options.pop("keep_rgb"):
        options["subsampling"] = draw(st.sampled_from([0, 1, 2]))
    restart = draw(st.sampled_from(["", "", "restart_marker_blocks", "restart_marker_rows"]))
    if restart:
        options[restart] = draw(st.integers(1, 9))
    if draw(st.booleans()):
        options["qtables"] = TABLES[: draw(st.integers(1, 1 if mode == "L" else 3))]
    if draw(st.booleans()):
        options["exif"] = corpus.exif(draw(st.integers(1, 8)))
    if draw(st.booleans()):
        options["comment"] = b"a comment"
    data = saved(draw(st.integers(1, 70)), draw(st.integers(1, 70)), mode, draw(st.integers(0, 9)), **options)
    for _ in range(draw(st.integers(0, 2))):  # fill bytes before a segment
        place = draw(st.sampled_from([start - 4 for marker, start, _ in segments(data) if marker == 0xDB]))
        data = data[:place] + b"\xff" + data[place:]
    return data + draw(st.sampled_from([b"", b"behind", bytes(3), b"\xff\xd9"]))


@pytest.mark.needs_core
@given(data=jpegs())
@settings(max_examples=150)
def test_files_of_an_encoder(data: bytes) -> None:
    packed = pack(data)
    assert unpack(packed) == data
    assert same_coefficients(data, packed)
    others = pack(data, discard_original_bytes=True)
    assert len(packed) - len(others) < 500 + len(data) // 5
    (head,) = struct.unpack_from("<I", packed, 36)
    assert packed[head : len(others)] == others[head:]


@pytest.mark.parametrize("name", core_jobs.JPEGS)
def test_the_corpus(name: str) -> None:
    """Whatever can be packed comes back, or only without its own bytes."""
    data = core_jobs.JPEGS[name]
    try:
        others = pack(data, discard_original_bytes=True)
    except NotPackableError as error:
        reason = error.reason
        with pytest.raises(NotPackableError, match=re.escape(reason)):
            pack(data)
        return
    assert original_of(others) is None
    if name == "jpeg-progressive-flipped-0":  # with a run that an encoder wouldn't write
        with pytest.raises(NotPackableError, match="its own bytes"):
            pack(data)
        return
    assert unpack(pack(data)) == data


def scans(data: bytes) -> list[tuple[int, int]]:
    """Where the entropy-coded data of each scan begins and ends."""
    found, at = [], 2
    while data[at + 1] != 0xD9:
        marker, size = data[at + 1], 2 + struct.unpack_from(">H", data, at + 2)[0]
        at += size
        if marker == 0xDA:
            start = at
            while data[at] != 0xFF or data[at + 1] in (0, *range(0xD0, 0xD8)):
                at += 1
            found.append((start, at))
    return found


def outline_of(data: bytes) -> bytes:
    """The file without scans' data, and with the markers alone of segments of applications and comments."""
    found, at = data[:2], 2
    ends = dict(scans(data))
    while data[at + 1] != 0xD9:
        marker, size = data[at + 1], 2 + struct.unpack_from(">H", data, at + 2)[0]
        found += data[at : at + (2 if marker >= 0xE0 else size)]
        at = ends.get(at + size, at + size)
    return found + b"\xff\xd9"


def restarts(data: bytes) -> list[int]:
    return [at for at in range(len(data) - 1) if data[at] == 0xFF and 0xD0 <= data[at + 1] <= 0xD7]


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_rows": 1}], ids=str)
@pytest.mark.parametrize("stray", [b"", b"\0", b"\0\xff", b"\x12\x34\xff\x00\x56", b"\xff\xd3"])
def test_ends_of_scans(options: dict[str, Any], stray: bytes) -> None:
    """Padding of any bits, and bytes between a scan's data and the next marker."""
    data = saved(50, 40, **options)
    (_, end), changed = scans(data)[-1], 0
    packed = pack(data[:end] + stray + data[end:]) if stray else b""
    if stray:
        assert unpack(packed) == data[:end] + stray + data[end:]
    for bits in range(1, 8):
        last = data[end - 1] & ~((1 << bits) - 1)
        other = data[: end - 1] + bytes([last]) + stray + data[end:]
        try:
            packed = pack(other)
        except NotPackableError:
            continue  # these bits were none that fill up
        assert unpack(packed) == other
        changed += other != data
    assert changed


def test_ends_of_restart_intervals() -> None:
    """Zeros that fill up all intervals, fill bytes and others in front of one."""
    data = bytearray(saved(64, 48, restart_marker_blocks=1))
    places = restarts(bytes(data))
    assert len(places) > 6
    for place in places[2:5]:
        assert unpack(pack(bytes(data[:place]) + b"\xff" + bytes(data[place:]))) == (
            bytes(data[:place]) + b"\xff" + bytes(data[place:])
        )
        assert unpack(pack(bytes(data[:place]) + b"\x42\x43" + bytes(data[place:]))) == (
            bytes(data[:place]) + b"\x42\x43" + bytes(data[place:])
        )
    usual = len(pack(bytes(data)))
    for place in [*places, scans(bytes(data))[0][1]]:  # as far as they are padding, which the core finds out
        kept = data
        for bits in range(1, 8):
            other = bytearray(data)
            other[place - 1] &= ~((1 << bits) - 1) & 255
            try:
                unpacked = unpack(pack(bytes(other)))
            except NotPackableError:
                break
            assert unpacked == other
            if same_coefficients(bytes(other), pack(bytes(data))):
                kept = other
        data = kept
    assert unpack(pack(bytes(data))) == data
    assert len(pack(bytes(data))) < usual + 8 * len(places)


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_blocks": 1}], ids=str)
@pytest.mark.parametrize("size", [(33, 49), (40, 40), (34, 56)])
def test_blocks_that_fill_up_and_are_not_flat(options: dict[str, Any], size: tuple[int, int]) -> None:
    """A larger image whose head says less: what is left of its blocks fills up MCUs."""
    data = saved(48, 64, subsampling=2, quality=95, **options)
    frame = data.index(b"\xff\xc2" if "progressive" in options else b"\xff\xc0")
    if "progressive" in options:  # scans of one component have as many blocks as before
        size = (41 + size[0] % 8, 57 + size[1] % 8)
    data = data[: frame + 5] + struct.pack(">HH", *size) + data[frame + 9 :]
    packed = pack(data)
    assert unpack(packed) == data
    section = packed_reference.read_original(packed)
    assert section is not None
    assert bool(section.dummies) == ("progressive" not in options)
    np.testing.assert_array_equal(pixels_of(unpack(pack(data, discard_original_bytes=True))), pixels_of(data))


def pixels_of(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def unusual() -> bytes:
    """A block with 16 zeros in front of its end, which no libjpeg writes: DC 00, zeros 11111111001, end 1010."""
    data = saved(8, 8, "L")
    ((start, end),) = scans(data)
    return data[:start] + int("00111111110011010" + "1" * 7, 2).to_bytes(3, "big") + data[end:]


def test_what_cannot_come_back() -> None:
    data = unusual()
    with pytest.raises(NotPackableError, match="its own bytes can't be made again from its coefficients"):
        pack(data)
    others = pack(data, discard_original_bytes=True)
    assert same_coefficients(data, others)
    assert unpack(others) != data
    np.testing.assert_array_equal(pixels_of(unpack(others)), pixels_of(data))


def test_what_is_known_of_the_file() -> None:
    data = saved(20, 30)
    digest = hashlib.sha256(data).digest()
    assert original_of(pack(data)) == Original(digest, None, "")
    assert original_of(pack(data, ending=".JPEG", modified_ns=-5)) == Original(digest, -5, ".JPEG")
    assert original_of(pack(data, ending=".größe", modified_ns=1 << 62)) == Original(digest, 1 << 62, ".größe")
    for ending in ("JPEG", "./x", ".a\\b", ".", ".a.b", "." + "x" * 40, ".\n", ".\ud800"):
        assert original_of(pack(data, ending=ending)) == Original(digest, None, "")
    assert original_of(pack(data, ending=".jpg", made_smaller=True)) == Original(digest, None, ".jpg", True)
    assert original_of(pack(data, ending=".j pg", made_smaller=True)) == Original(digest, None, "", True)
    assert unpack(pack(data, ending=".jpg", made_smaller=True)) == data
    assert original_of(pack(data, discard_original_bytes=True)) is None


@pytest.mark.parametrize(
    "options", [{}, {"progressive": True}, {"optimize": True}, {"qtables": [[300] * 64] * 2}], ids=str
)
def test_the_page_says_what_is_kept(options: dict[str, Any]) -> None:
    """A reader in plain Python, written from the format's page, finds the file without what is elsewhere."""
    data = saved(30, 40, comment=b"a comment", **options)
    section = packed_reference.read_original(pack(data, ending=".jpg", modified_ns=77))
    assert section is not None
    assert section.about == hashlib.sha256(data).digest() + struct.pack("<q", 77) + b".jpg"
    assert section.length == len(data)
    assert section.outline == outline_of(data)
    assert (section.padding, section.ends, section.dummies) == (1, b"", b"")


@pytest.mark.parametrize("options", [{}, {"progressive": True, "restart_marker_blocks": 2}], ids=str)
def test_damage(context: core.Context, options: dict[str, Any]) -> None:
    """Pixels are read as before; what is unpacked is the file, or an error."""
    data = saved(17, 23, **options)
    packed = pack(data, ending=".jpg")
    expected = pixels_of(data)
    (size,) = struct.unpack_from("<I", packed, 68)
    same = 0
    for place in range(len(packed) - size, len(packed)):
        for value in (packed[place] ^ 1, packed[place] ^ 0x80, 0, 255):
            damaged = corpus.patched(packed, place, value)
            status, image = core_jobs.decode(context, damaged)
            assert status == Status.OK
            np.testing.assert_array_equal(image, expected)
            if damaged != packed:
                with pytest.raises(DecodeError, match="checksum"):
                    unpack(damaged)
            try:
                assert unpack(mended(damaged)) == data
                same += 1
            except DecodeError:
                continue
    assert same < 4 * 16 + size  # the time, the ending, and what stays the same
    for cut in range(len(packed) - size, len(packed)):
        assert core_jobs.decode(context, packed[:cut])[0] in core_jobs.REFUSALS
        with pytest.raises(DecodeError):
            unpack(packed[:cut])


def test_other_rows_under_the_same_section() -> None:
    """The SHA-256 finds what the checksums don't."""
    one, other = (pack(saved(16, 16, seed=seed, subsampling=0)) for seed in (1, 2))
    sizes = [struct.unpack_from("<I", packed, 68)[0] for packed in (one, other)]
    mixed = bytearray(other[: len(other) - sizes[1]] + one[len(one) - sizes[0] :])
    struct.pack_into("<I", mixed, 68, sizes[0])
    with pytest.raises(DecodeError, match=r"SHA-256|codes"):
        unpack(mended(bytes(mixed)))


def number(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + number(value >> 7)


def keeping(packed: bytes, jpeg: bytes) -> bytes:
    """The packed image with a section that makes that JPEG, whose coefficients and segments are the packed ones."""
    about, outline = hashlib.sha256(jpeg).digest() + bytes(8), outline_of(jpeg)
    tokens = number(2 * len(outline)) + outline
    sizes = [number(len(jpeg)), number(len(outline)), number(len(tokens))]
    return with_original(packed, number(len(about)) + about + b"".join(sizes) + tokens + b"\1\0")


def with_exif_after_a_scan(data: bytes) -> bytes:
    exif, tables, (_, end) = data.index(b"\xff\xe1"), data.index(b"\xff\xdb"), scans(data)[0]
    return data[:exif] + data[tables:end] + data[exif:tables] + data[end:]


OTHERS: dict[str, Callable[[bytes], bytes]] = {
    "another table": lambda data: corpus.patched(data, data.index(b"\xff\xdb") + 9, 77),
    "another size": lambda data: corpus.patched(data, data.index(b"\xff\xc2") + 6, 20),
    "another orientation": with_exif_after_a_scan,
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_section_of_another_image(other: str) -> None:
    """Refused, though the SHA-256 that it has is that image's: what is unpacked has the pixels that are read."""
    data = saved(23, 30, exif=corpus.exif(6), progressive=True)
    packed = pack(data)
    assert unpack(keeping(packed, data)) == data
    jpeg = OTHERS[other](data)
    assert jpeg != data
    with pytest.raises(DecodeError, match="the JPEG that it keeps is another image"):
        unpack(keeping(packed, jpeg))
