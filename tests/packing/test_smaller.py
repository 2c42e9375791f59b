"""Images made smaller: Pillow's pixels, the metadata that were there, and what was changed."""

from __future__ import annotations

import io
import math
import struct

import corpus
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torchvision_here import torchvision

from fastpipe.errors import ConfigError, NotPackableError
from fastpipe.packing.smaller import Changes, Smaller
from fastpipe.types import Size

LANCZOS = Image.Resampling.LANCZOS
HALF = Smaller(max_side=60)
BLACK = Image.new("RGB", (99, 97))


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(opened(data))


def changed(smaller: Smaller, data: bytes) -> tuple[bytes, Changes]:
    made, change = smaller.apply(data)
    assert change is not None
    assert change.bytes_before == len(data)
    assert change.bytes_after == len(made)
    assert change.pixels_before == math.prod(opened(data).size)
    assert change.pixels_after == math.prod(opened(made).size)
    assert change.images == 1
    assert change.squared_error == change.largest_squared_error
    return made, change


def exif_with_sizes(order: str) -> bytes:
    """EXIF data with an image's size in both directories, as SHORT and as LONG, an orientation, and a maker's note."""

    def entry(tag: int, kind: int, value: int) -> bytes:
        number = struct.pack(order + ("HH" if kind == 3 else "I"), *((value, 0) if kind == 3 else (value,)))
        return struct.pack(order + "HHI", tag, kind, 1) + number

    main = [entry(0x0100, 4, 131), entry(0x0101, 3, 97), entry(0x0112, 3, 6), entry(0x8769, 4, 8 + 2 + 4 * 12 + 4)]
    note = struct.pack(order + "HHII", 0x927C, 7, 4, 0) + b""
    own = [note, entry(0xA002, 3, 131), entry(0xA003, 4, 97)]
    directories = [struct.pack(order + "H", len(some)) + b"".join(some) + bytes(4) for some in (main, own)]
    mark = b"II*\0" if order == "<" else b"MM\0*"
    return mark + struct.pack(order + "I", 8) + b"".join(directories)


class TestSizes:
    @given(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 600))
    def test_of_the_short_side_are_torchvisions(self, height: int, width: int, side: int) -> None:
        got = Smaller(short_side=side).size_of(Size(height, width))
        if min(height, width) <= side:
            assert got == (height, width)
        else:
            expected = torchvision.transforms.functional._compute_resized_output_size((height, width), [side])
            assert [*got] == expected

    @given(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 600))
    def test_of_the_longer_side_keep_the_shape(self, height: int, width: int, side: int) -> None:
        got = Smaller(max_side=side).size_of(Size(height, width))
        assert max(got) == min(side, max(height, width))
        assert min(got) >= 1
        if max(height, width) > side and min(got) > 1:
            exact = side * min(height, width) / max(height, width)
            assert exact - 1 < min(got) <= exact
        assert (got.height <= got.width) == (height <= width) or got.height == got.width


class TestJpegs:
    @pytest.mark.parametrize("kind", ["444", "422", "420", "gray"])
    @pytest.mark.parametrize("smaller", [HALF, Smaller(short_side=33, quality=70)], ids=str)
    def test_have_the_pixels_that_pillow_gives_them(self, kind: str, smaller: Smaller) -> None:
        data = corpus.jpeg(97, 131, kind)
        made, change = changed(smaller, data)
        size = smaller.size_of(Size(97, 131))
        resized = opened(data).resize(size[::-1], LANCZOS)
        sampling = -1 if kind == "gray" else ("444", "422", "420").index(kind)
        expected = corpus.save(resized, "JPEG", quality=smaller.quality or 90, subsampling=sampling)
        assert (pixels(made) == pixels(expected)).all()
        assert opened(made).mode == opened(data).mode
        difference = np.asarray(resized).astype(float) - pixels(made)
        assert (opened(made).format, opened(made).size) == ("JPEG", size[::-1])
        error = (difference**2).mean()
        assert change == Changes(1, 97 * 131, size.height * size.width, len(data), len(made), error, error)
        assert change.psnr == pytest.approx(20 * math.log10(255 / math.sqrt((difference**2).mean())))

    @pytest.mark.parametrize(
        "name", ["jpeg-cmyk", "jpeg-ycck", "jpeg-progressive-444", "jpeg-rgb", "jpeg-440", "jpeg-411"]
    )
    def test_keep_their_mode(self, name: str) -> None:
        data = corpus.files()[name]
        made, _ = changed(HALF, data)
        resized = opened(data).resize(opened(made).size, LANCZOS)
        expected = corpus.save(resized, "JPEG", quality=90, subsampling=-1 if resized.mode == "CMYK" else 0)
        assert opened(made).mode == opened(data).mode
        assert (pixels(made) == pixels(expected)).all()

    def test_keep_their_metadata(self) -> None:
        profile = opened(corpus.files()["jpeg-icc"]).info["icc_profile"]
        xmp = b"http://ns.adobe.com/xap/1.0/\0<x:xmpmeta>text</x:xmpmeta>"
        data = corpus.save(corpus.photo(97, 131), "JPEG", icc_profile=profile, comment=b"a comment", dpi=(72, 71))
        data = corpus.with_segment(corpus.with_segment(data, 0xE1, xmp), 0xE1, b"Exif\0\0" + exif_with_sizes("<"))
        made, _ = changed(HALF, data)
        before, after = opened(data), opened(made)
        for name in ("icc_profile", "comment", "dpi", "xmp", "exif"):
            assert after.info[name] == before.info[name]
        assert after.getexif()[0x0112] == 6

    @pytest.mark.parametrize("name", ["jpeg-exif-cut", "jpeg-exif-absurd", "jpeg-exif-empty", "jpeg-exif-twice"])
    def test_keep_damaged_exif_data_as_they_are(self, name: str) -> None:
        data = corpus.files()[name]
        made, _ = changed(Smaller(max_side=30), data)
        assert (opened(made).info.get("exif") or None) == (opened(data).info.get("exif") or None)

    def test_of_several_pictures_have_the_first(self) -> None:
        data = corpus.files()["mpo"]
        made, _ = changed(HALF, data)
        assert opened(made).format == "JPEG"
        resized = opened(data).resize(opened(made).size, LANCZOS)
        assert (pixels(made) == pixels(corpus.save(resized, "JPEG", quality=90, subsampling=2))).all()

    def test_begin_with_jfif_where_nothing_else_says_their_colors(self) -> None:
        made, _ = changed(HALF, corpus.files()["jpeg-no-jfif"])
        assert made[2:4] == b"\xff\xe0"
        assert made[6:11] == b"JFIF\0"
        made, _ = changed(HALF, corpus.save(corpus.photo(97, 131), "JPEG", dpi=(300, 300)))
        assert made.count(b"JFIF\0") == 1


class TestOthers:
    @pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "LA", "P", "1"])
    def test_pngs_stay_pngs_without_loss(self, mode: str) -> None:
        picture = Image.fromarray(corpus.photo(97, 131))
        picture = picture.quantize(40) if mode == "P" else picture.convert(mode)
        data = corpus.save(picture, "PNG")
        made, change = changed(HALF, data)
        expected = opened(data).resize(opened(made).size, LANCZOS)
        assert (opened(made).format, opened(made).mode) == ("PNG", mode)
        assert (pixels(made) == np.asarray(expected)).all()
        assert opened(made).convert("RGBA").tobytes() == expected.convert("RGBA").tobytes()
        assert change.squared_error == 0
        assert change.psnr == math.inf

    def test_pngs_keep_their_metadata(self) -> None:
        data = corpus.save(
            corpus.photo(97, 131), "PNG", icc_profile=opened(corpus.files()["jpeg-icc"]).info["icc_profile"]
        )
        data = corpus.with_chunk(data, b"tEXt", b"Title\0a title")
        data = corpus.with_chunk(data, b"eXIf", exif_with_sizes(">"))
        data = corpus.with_chunk(data, b"gAMA", struct.pack(">I", 45455))
        made, _ = changed(HALF, data)
        before, after = opened(data), opened(made)
        for name in ("icc_profile", "gamma", "Title"):
            assert after.info[name] == before.info[name]
        assert after.info["exif"] == before.info["exif"]

    @pytest.mark.parametrize("lossless", [True, False])
    def test_webps_stay_webps(self, lossless: bool) -> None:
        profile = opened(corpus.files()["jpeg-icc"]).info["icc_profile"]
        picture = Image.fromarray(corpus.photo(97, 131))
        exif = exif_with_sizes("<")
        data = corpus.save(picture, "WEBP", lossless=lossless, icc_profile=profile, exif=exif)
        made, change = changed(HALF, data)
        resized = opened(data).resize(opened(made).size, LANCZOS)
        expected = corpus.save(resized, "WEBP", lossless=lossless, quality=90)
        assert opened(made).format == "WEBP"
        assert (pixels(made) == pixels(expected)).all()
        assert (change.squared_error == 0) == lossless
        assert opened(made).info["icc_profile"] == profile
        assert opened(made).info["exif"] == opened(data).info["exif"]

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (corpus.save(corpus.photo(97, 131), "BMP"), "BMP isn't encoded here"),
            (corpus.save(Image.fromarray(corpus.photo(97, 131)).quantize(9), "GIF"), "GIF isn't encoded here"),
            (corpus.save(Image.new("I;16", (131, 97)), "PNG"), "it has 16 bits a sample"),
            (
                corpus.save(Image.new("RGB", (131, 97)), "PNG", transparency=(0, 0, 0)),
                "one of its colors is transparent",
            ),
            (
                corpus.save(
                    Image.new("RGB", (99, 97)), "WEBP", save_all=True, append_images=[Image.new("RGB", (99, 97), 9)]
                ),
                "it has several frames",
            ),
            (corpus.jpeg(97, 131)[:-900], "Pillow can't"),
            (b"no image", "its size can't be read"),
        ],
    )
    def test_what_stays_larger_is_an_error_that_says_why(self, data: bytes, reason: str) -> None:
        with pytest.raises(NotPackableError, match=reason):
            HALF.apply(data)

    def test_images_that_are_not_larger_stay_as_they_are(self) -> None:
        for data in corpus.sound_files().values():
            assert Smaller(max_side=65_500).apply(data) == (data, None)
            assert Smaller(short_side=2000, quality=5).apply(data) == (data, None)

    @pytest.mark.parametrize(("height", "width"), corpus.ODD_SIZES)
    def test_images_of_a_pixel_or_two(self, height: int, width: int) -> None:
        data = corpus.jpeg(height, width, "420")
        made, change = Smaller(max_side=8).apply(data)
        assert (change is None) == (max(height, width) <= 8)
        assert max(opened(made).size) == min(8, max(height, width))


def test_changes_add_up() -> None:
    changes = [
        changed(HALF, data)[1]
        for data in (corpus.jpeg(97, 131), corpus.jpeg(65, 80, quality=30), corpus.files()["png-rgb"])
    ]
    total = sum(changes, Changes())
    assert total.images == 3
    assert total.bytes_before == sum(one.bytes_before for one in changes)
    assert total.bytes_after == sum(one.bytes_after for one in changes)
    assert total.pixels_before == 97 * 131 + 65 * 80 + 61 * 83
    assert total.pixels_after == sum(one.pixels_after for one in changes)
    mean = np.mean([one.squared_error for one in changes])
    assert total.psnr == pytest.approx(10 * math.log10(255**2 / mean))
    assert total.lowest_psnr == min(one.psnr for one in changes)
    assert Changes().psnr == Changes().lowest_psnr == math.inf
    parts = changes[0] + (changes[1] + changes[2])
    assert parts.images == 3
    assert parts.squared_error == pytest.approx(total.squared_error)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "give max_side or short_side"),
        ({"quality": 90}, "give max_side or short_side"),
        ({"max_side": 512, "short_side": 256}, "give one"),
        ({"max_side": 0}, "max_side=0: give an integer from 1 to 65,500"),
        ({"short_side": -3}, "short_side=-3"),
        ({"short_side": "256"}, "short_side='256'"),
        ({"max_side": 256.0}, "max_side=256.0"),
        ({"max_side": True}, "max_side=True"),
        ({"max_side": 512, "quality": 0}, "quality=0: give an integer from 1 to 100"),
        ({"short_side": 9, "quality": 101}, "quality=101"),
    ],
)
def test_nonsense_is_refused(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Smaller(**arguments)  # type: ignore[arg-type]
