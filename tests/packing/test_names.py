"""Names of converted files: unique, sorted as before, whichever of the files are converted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpipe.errors import DatasetError
from fastpipe.packing.names import PACKED, UNPACKED, checked, in_a_folder, in_a_sample, sample_key

STEMS = st.text(alphabet="ab-.z", min_size=1, max_size=4)
ENDINGS = st.sampled_from([".jpg", ".jpeg", ".JPG", ".png", ".fpj", ".jpg.fpj", ".webp", ".bmp"])
NAMES = st.lists(st.builds(str.__add__, STEMS, ENDINGS), min_size=1, max_size=8, unique=True)


@given(NAMES, st.lists(st.booleans(), min_size=8, max_size=8))
def test_the_order_stays_and_no_two_are_alike(names: list[str], chosen: list[bool]) -> None:
    new = in_a_folder(names, PACKED)
    made = [one if one and yes else name for name, one, yes in zip(names, new, chosen, strict=False)]
    assert len(set(made)) == len(made)
    assert sorted(range(len(made)), key=made.__getitem__) == sorted(range(len(names)), key=names.__getitem__)


@given(NAMES, st.lists(st.booleans(), min_size=8, max_size=8))
def test_back_no_two_are_alike(names: list[str], chosen: list[bool]) -> None:
    """Whatever the originals' endings are."""
    new = [
        one.replace(".*", f".{['jpg', 'jpeg', 'JPEG', 'png'][at % 4]}")
        for at, one in enumerate(in_a_folder(names, UNPACKED))
    ]
    made = [one if one and yes else name for name, one, yes in zip(names, new, chosen, strict=False)]
    assert len(set(made)) == len(made)


def test_a_folder() -> None:
    assert in_a_folder(["a.jpg", "b.c.jpg", "d.JPEG"], PACKED) == ["a.fpj", "b.c.fpj", "d.fpj"]
    assert in_a_folder(["a.jpg.JPG", "b.png.jpg", "c.gif.jpg"], PACKED) == [
        "a.jpg.JPG.fpj",
        "b.png.jpg.fpj",
        "c.gif.fpj",
    ]
    assert in_a_folder(["a.jpg", "a.png", "b.jpg"], PACKED) == ["a.jpg.fpj", "a.png.fpj", "b.fpj"]
    assert in_a_folder(["a.jpg", "a.jpg.png"], PACKED) == ["", "a.jpg.png.fpj"]
    assert in_a_folder(["a.fpj", "a.jpg"], PACKED) == ["a.fpj.fpj", "a.jpg.fpj"]
    assert in_a_folder(["a.fpj", "b.jpeg.fpj", "c.png.fpj"], UNPACKED) == ["a.*", "b.jpeg", "c.png"]
    assert in_a_folder(["a.jpg.fpj", "a.png"], UNPACKED) == ["a.jpg", "a.png.*"]
    assert in_a_folder(["a.jpg", "a.jpg.fpj"], UNPACKED) == ["", "a.jpg.fpj.*"]
    assert in_a_folder(["..jpg", "..jpg.fpj"], PACKED) == ["", "..jpg.fpj"]  # a name that is no ending


def test_samples() -> None:
    assert in_a_sample("1.jpg", ["1.jpg", "1.cls"], PACKED) == "1.fpj"
    assert in_a_sample("1.left.jpg", ["1.left.jpg", "1.right.jpg"], PACKED) == "1.left.fpj"
    assert in_a_sample("1.jpg", ["1.jpg", "1.png"], PACKED) == "1.jpg.fpj"
    assert in_a_sample("1.fpj", ["1.fpj", "1.cls"], UNPACKED) == "1.*"
    assert sample_key("cat/a.b.jpg", False) == "cat/a_b"
    assert sample_key("cat/a.jpg", True) == "cat/a_jpg"
    assert sample_key("cat/a.jpg.fpj", False) == "cat/a"


@pytest.mark.parametrize("name", ["../a.jpg", "/a.jpg", "a/../../b.jpg", "C:/a.jpg", "a\\b.jpg"])
def test_names_that_lead_out(name: str) -> None:
    with pytest.raises(DatasetError, match="outside of the target"):
        checked(name, "it")
