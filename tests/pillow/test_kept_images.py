"""Images without pixels that are kept and used again: they get pixels, and no work is done more than twice."""

from __future__ import annotations

import copy
import gc
import io
import os
import pickle
import random
from typing import Any

import corpus
import numpy as np
import pytest
from core_work import CoreWork
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import fastpipe
from fastpipe import transforms as T
from fastpipe.program import parts

pytestmark = pytest.mark.needs_core

PHOTO = corpus.jpeg(97, 131, "420", seed=5)
GRAY = corpus.jpeg(97, 131, "gray", seed=6)
PNG = corpus.save(corpus.photo(60, 50), "PNG")
FILES = {"colour": PHOTO, "gray": GRAY, "PNG": PNG}

RECORDED: dict[str, Any] = {
    "resize": lambda image: image.resize((max(8, image.width * 3 // 4), max(8, image.height * 3 // 4)), 2),
    "crop": lambda image: image.crop((1, 2, max(9, image.width - 3), max(9, image.height - 1))),
    "turn": lambda image: image.transpose(Image.Transpose.ROTATE_90),
    "copy": lambda image: image.copy(),
    "copy.copy": copy.copy,
    "gray": lambda image: image.convert("L"),
    "colour": lambda image: image.convert("RGB"),
    "tilt": lambda image: image.rotate(7, 2),
}
USES: dict[str, Any] = {
    "array": np.asarray,
    "load": lambda image: (image.load(), image.size)[1],
    "pixel": lambda image: image.getpixel((3, 4)),
    "bytes": lambda image: image.tobytes(),
    "pickle": lambda image: pickle.loads(pickle.dumps(image)).tobytes(),
    "tensor": lambda image: T.ToTensor()(image).numpy(),
    "part": lambda image: np.asarray(image.crop((2, 2, 7, 8))),
    "transformed": lambda image: T.Compose([T.CenterCrop(7), T.RandomHorizontalFlip(1.0), T.PILToTensor()])(
        image
    ).numpy(),
    "deep copy": lambda image: copy.deepcopy(image).tobytes(),
    "histogram": lambda image: image.histogram(),
}


def table_of(number: int, image: Image.Image) -> list[int]:
    """A table that no other recorded step has."""
    table = random.Random(number).sample(range(256), 256)
    return table * len(image.getbands())


EVENTS = st.one_of(
    st.tuples(st.sampled_from([*RECORDED]), st.integers(0, 30)),
    st.tuples(st.sampled_from([*USES]), st.integers(0, 30)),
    st.tuples(st.sampled_from([*USES]), st.integers(0, 30)),
    st.tuples(st.just("forget"), st.integers(0, 30)),
)


@given(st.lists(EVENTS, max_size=40), st.sampled_from([*FILES]), st.booleans())
@settings(max_examples=2 * settings.default.max_examples, deadline=None)
def test_no_history_of_uses_decodes_or_runs_a_step_more_than_twice(
    events: list[tuple[str, int]], file: str, stays_open: bool
) -> None:
    data = FILES[file]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "_last_files", parts._LastFiles())
        work = CoreWork(patch)
        ours, theirs = [[opened if stays_open else opened.convert("RGB")] for opened in both(data)]
        for number, (name, place) in enumerate(events):
            if not ours:
                break
            place %= len(ours)
            mine, other = ours[place], theirs[place]
            if name in RECORDED:
                done, expected = (RECORDED[name](image) for image in (mine, other))
                table = table_of(number, done)
                ours.append(done.point(table))
                theirs.append(expected.point(table))
                del done, expected
            elif name in USES:
                assert np.array_equal(USES[name](mine), USES[name](other)), name
            else:
                del ours[place], theirs[place]
            del mine, other
        for mine, other in zip(ours, theirs, strict=True):
            assert (mine.mode, mine.size, mine.tobytes()) == (other.mode, other.size, other.tobytes())
    assert work.decoded[data] < 2.01
    assert max(work.tables.values(), default=0) <= 2


def both(data: bytes) -> tuple[Image.Image, Image.Image]:
    return fastpipe.open_image(data), Image.open(io.BytesIO(data))


WAYS: dict[str, Any] = {
    **RECORDED,
    "loaded": lambda image: (made := image.resize((50, 40)), made.load())[0],
    "looked at": lambda image: (made := image.resize((50, 40)), np.asarray(made))[0],
    "copied": lambda image: image.resize((50, 40)).copy(),
    "a crop of a crop": lambda image: image.crop((3, 3, 90, 90)).crop((4, 4, 60, 60)),
}
del WAYS["colour"]  # a file's image: its parts are counted, and the whole is decoded once they are more


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_image_has_pixels_from_its_second_use_on(way: Any, use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, plain = (way(image.convert("RGB").transpose(Image.Transpose.FLIP_TOP_BOTTOM)) for image in both(PHOTO))
    work = CoreWork(monkeypatch)
    for _ in range(2):
        assert np.array_equal(use(kept), use(plain))
    assert not fastpipe.is_pending(kept) or use is USES["load"]
    use(kept)
    done = work.decoded[PHOTO]
    for _ in range(4):
        assert np.array_equal(use(kept), use(plain))
    assert work.decoded[PHOTO] == done <= 2.01
    assert kept.tobytes() == plain.tobytes()


@pytest.mark.parametrize("convert", [True, False])
def test_an_opened_file_is_decoded_as_a_whole_once_its_parts_are_more(
    convert: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_last_files", parts._LastFiles())
    kept, plain = (image.convert("RGB") if convert else image for image in both(PHOTO))
    work = CoreWork(monkeypatch)
    for number in range(30):
        box = (number, 3, 70 + number, 90)
        for use in USES.values():
            assert np.array_equal(use(kept.crop(box)), use(plain.crop(box)))
    assert work.decoded[PHOTO] <= 2.01


SMALL: dict[str, Any] = {
    "crops": lambda image, boxes: [image.crop(box).tobytes() for box in boxes],
    "listed": lambda image, boxes: [np.asarray(part) for part in [image.crop(box) for box in boxes]],
    "turned": lambda image, boxes: [image.crop(box).transpose(Image.Transpose.ROTATE_90).tobytes() for box in boxes],
    "resized": lambda image, boxes: [image.resize((9, 7), 2, box).tobytes() for box in boxes],
    "tensors": lambda image, boxes: [T.ToTensor()(image.crop(box)).numpy() for box in boxes],
    "compose": lambda image, boxes: [T.Compose([T.CenterCrop(9), T.PILToTensor()])(image).numpy() for _ in boxes],
}


@pytest.mark.parametrize("convert", [True, False])
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("use", SMALL.values(), ids=SMALL)
def test_a_file_of_many_small_parts_gets_pixels(
    use: Any, file: str, convert: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_last_files", parts._LastFiles())
    monkeypatch.setattr(parts, "_CALL_PIXELS", 3_000)  # as for photos that are larger than these
    kept, plain = (image.convert("RGB") if convert else image for image in both(FILES[file]))
    boxes = [(number, number % 30, number + 15, number % 30 + 11) for number in range(35)]
    work = CoreWork(monkeypatch)
    assert np.array_equal(use(kept, boxes[:1]), use(plain, boxes[:1]))
    assert fastpipe.is_pending(kept)
    assert np.array_equal(use(kept, boxes), use(plain, boxes))
    assert work.jobs <= 10
    assert (kept.mode, kept.tobytes(), kept.info) == (plain.mode, plain.tobytes(), plain.info)


@pytest.mark.parametrize("file", FILES)
def test_what_was_recorded_before_a_file_gets_pixels_is_not_decoded_again(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_last_files", parts._LastFiles())
    kept, plain = both(FILES[file])
    work = CoreWork(monkeypatch)
    made = [
        [recorded(image) for recorded in RECORDED.values()]
        + [T.ToTensor()(image.crop((number, 0, number + 9, 9))) for number in range(9)]
        + [image]
        + [image.copy() for _ in range(3)]
        for image in (kept, plain)
    ]
    for mine, other in zip(*made, strict=True):
        assert np.array_equal(np.asarray(mine), np.asarray(other))
    assert work.decoded[FILES[file]] < 2.01


def test_parts_that_the_core_makes_in_less_time_leave_a_file_without_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_last_files", parts._LastFiles())
    monkeypatch.setattr(parts, "_SMALL_PIXELS", 100)
    monkeypatch.setattr(parts, "_TINY_PIXELS", 100)
    kept, plain = (image.convert("RGB") for image in both(PHOTO))
    for number in range(20):
        box = (number, 3, 70 + number, 90)
        assert kept.crop(box).resize((40, 30)).tobytes() == plain.crop(box).resize((40, 30)).tobytes()
    assert fastpipe.is_pending(kept)


def test_the_first_array_of_a_file_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, plain = (image.convert("RGB") for image in both(PHOTO))
    work = CoreWork(monkeypatch)
    assert np.array_equal(np.asarray(kept), plain)
    assert fastpipe.is_pending(kept)
    for side in (20, 30):
        assert kept.resize((side, side)).tobytes() == plain.resize((side, side)).tobytes()
    assert kept.tobytes() == plain.tobytes()
    assert work.decoded[PHOTO] == 1


def test_one_chain_of_calls_makes_no_pixels_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is decoded, or kept, of images that are made, used for the next one, and forgotten."""
    work = CoreWork(monkeypatch)
    image = fastpipe.open_image(PHOTO).convert("RGB")
    small = image.crop((10, 10, 60, 70)).resize((32, 32)).transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    assert small.tobytes() == small.tobytes()
    assert work.decoded[PHOTO] == 50 * 60 / (97 * 131)


def test_what_is_drawn_on_a_kept_image_is_not_in_those_made_of_it_before() -> None:
    kept, plain = (image.convert("RGB").resize((60, 50)) for image in both(PHOTO))
    before = [(image.crop((1, 1, 40, 40)), image.crop((0, 0, 30, 30))) for image in (kept, plain)]
    for image in (kept, plain):
        image.putpixel((5, 5), (1, 2, 3))
    after = [image.crop((1, 1, 40, 40)) for image in (kept, plain)]
    for mine, other in ((before[0][0], before[1][0]), (before[0][1], before[1][1]), (after[0], after[1])):
        for _ in range(3):
            assert mine.tobytes() == other.tobytes()
            assert np.array_equal(mine.resize((9, 9)), other.resize((9, 9)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system can't fork")
def test_kept_images_have_their_pixels_before_a_process_is_forked() -> None:
    kept = [image.convert("RGB").resize((30, 20)) for image, _ in (both(PHOTO), both(PNG))]
    opened = fastpipe.open_image(PHOTO)
    child = os.fork()
    if not child:
        os._exit(any(map(fastpipe.is_pending, kept)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not any(map(fastpipe.is_pending, kept))
    assert fastpipe.is_pending(opened)  # Pillow decodes it in each process, too
    del kept
    gc.collect()
