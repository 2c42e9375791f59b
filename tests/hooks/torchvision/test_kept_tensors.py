"""Tensors without pixels that are kept and used again: they get elements, and no work is done more than twice."""

from __future__ import annotations

import copy
import os
import pickle
from typing import Any

import pytest
import torch
from core_work import CoreWork
from hooks.tensor_images import MARKS, PHOTO, F, opened, plainly_opened, shown, tv_tensors, v2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision_here import module

import fastpipe
from fastpipe.plain_way import plainly
from fastpipe.program import parts
from fastpipe.program.pending_tensor import record_of

pytestmark = MARKS

v1 = module("torchvision.transforms.functional")

RECORDED: dict[str, Any] = {
    "resize": lambda image: F.resize(image, [max(8, side * 3 // 4) for side in image.shape[-2:]]),
    "crop": lambda image: F.crop(image, 1, 2, max(7, image.shape[-2] - 3), max(7, image.shape[-1] - 4)),
    "slice": lambda image: image[..., 1:, 1:] if min(image.shape[-2:]) > 8 else image,
    "flip": F.horizontal_flip,
    "brightness": lambda image: F.adjust_brightness(image, 1.3),
    "floats": lambda image: F.to_dtype(image, torch.float32, scale=True),
    "float": lambda image: image.float() / 255 if image.dtype is torch.uint8 else image,
    "normalize": lambda image: F.normalize(F.to_dtype(image, torch.float32, scale=True), [0.4] * 3, [0.2] * 3),
    "an image": F.to_image,
}
USES: dict[str, Any] = {
    "clone": lambda image: image.clone(),
    "stack": lambda image: torch.stack([image.as_subclass(torch.Tensor)] * 2),
    "pickle": lambda image: pickle.loads(pickle.dumps(image)),
    "deep copy": copy.deepcopy,
    "sum": lambda image: image.double().sum(),
    "resized": lambda image: F.resize(image, [9, 9]).clone(),
    "transformed": lambda image: v2.Compose([v2.CenterCrop(7), v2.ToDtype(torch.float32, scale=True)])(image).clone(),
    "mirrored and stacked": lambda image: torch.stack([F.vertical_flip(image).as_subclass(torch.Tensor)] * 2),
}
EVENTS = st.one_of(
    st.tuples(st.sampled_from([*RECORDED]), st.integers(0, 30)),
    st.tuples(st.sampled_from([*USES]), st.integers(0, 30)),
    st.tuples(st.sampled_from([*USES]), st.integers(0, 30)),
    st.tuples(st.sampled_from(["forget", "write"]), st.integers(0, 30)),
)


@given(st.lists(EVENTS, max_size=24))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_history_of_uses_decodes_a_file_more_than_twice(events: list[tuple[str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "_last_files", parts._LastFiles())
        work = CoreWork(patch)
        ours, theirs, recorded = [opened()], [plainly_opened()], 0
        for name, place in events:
            if not ours:
                break
            place %= len(ours)
            mine, other = ours[place], theirs[place]
            if name in RECORDED:
                ours.append(RECORDED[name](mine))
                theirs.append(plainly_done(RECORDED[name], other))
                recorded += 1
            elif name in USES:
                assert shown(USES[name](mine)) == shown(plainly_done(USES[name], other)), name
            elif name == "write":
                for image in (mine, other):
                    image[..., 2:4, 2:4] = 7
            else:
                del ours[place], theirs[place]
            del mine, other
        for mine, other in zip(ours, theirs, strict=True):
            assert shown(mine) == shown(other)
    assert work.decoded[PHOTO] < 2.01
    assert work.steps <= 2 * (3 * recorded + 6 * len(events))


def plainly_done(function: Any, image: Any) -> Any:
    with plainly():
        return function(image)


WAYS: dict[str, Any] = {name: way for name, way in RECORDED.items() if name not in ("slice", "crop", "an image")}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_tensor_has_elements_from_its_second_use_on(way: Any, use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, plain = way(opened()), plainly_done(way, plainly_opened())
    work = CoreWork(monkeypatch)
    for _ in range(3):
        assert shown(use(kept)) == shown(plainly_done(use, plain))
    done = work.decoded[PHOTO]
    for _ in range(4):
        assert shown(use(kept)) == shown(plainly_done(use, plain))
    assert work.decoded[PHOTO] == done < 2.01
    assert shown(kept) == shown(plain)


@pytest.mark.parametrize("name", ["to_tensor", "pil_to_tensor"])
def test_a_kept_image_has_pixels_from_its_second_tensor_on(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr("fastpipe.pillow.image_tensors.LEAST_PIXELS", 0)
    path = tmp_path / "photo.jpg"
    path.write_bytes(PHOTO)
    kept = Image.open(path).convert("RGB").resize((60, 50), 2)
    with plainly():
        plain = Image.open(path).convert("RGB").resize((60, 50), 2)
        expected = getattr(v1, name)(plain)
    work = CoreWork(monkeypatch)
    for number in range(6):
        batch = torch.stack([getattr(v1, name)(kept)])
        assert torch.equal(batch[0], expected)
        assert fastpipe.is_pending(kept) == (number == 0)
    assert work.decoded[PHOTO] < 2.01
    tensor = getattr(v1, name)(Image.open(path).convert("RGB").resize((60, 50), 2))
    for _ in range(6):
        assert torch.equal(torch.stack([tensor, tensor])[0], expected)
    assert record_of(tensor) is None
    assert type(expected) is torch.Tensor is not tv_tensors.Image


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system can't fork")
def test_kept_tensors_have_their_elements_before_a_process_is_forked() -> None:
    kept = [opened(), F.resize(opened(), [20, 30])]
    expected = [plainly_opened(), plainly_done(lambda image: F.resize(image, [20, 30]), plainly_opened())]
    child = os.fork()
    if not child:
        os._exit(any(map(fastpipe.is_pending, kept)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(map(shown, kept)) == list(map(shown, expected))
