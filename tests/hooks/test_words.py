"""Names and messages in which classes of ours could show: Pillow's and torch's words, as without."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import corpus
import pytest
import torch
import torchvision_io_here
from PIL import Image
from torch.utils.data import default_collate
from torchvision_here import module, torchvision

import fastpipe

T = torchvision.transforms
F = T.functional
v2 = module("torchvision.transforms.v2")
PHOTO = corpus.jpeg(300, 400, seed=1)
PNG = corpus.save(corpus.photo(97, 131, 6), "PNG")

THINGS: dict[str, Callable[[], Any]] = {
    "a JPEG": lambda: Image.open(io.BytesIO(PHOTO)),
    "a PNG": lambda: Image.open(io.BytesIO(PNG)),
    "converted": lambda: Image.open(io.BytesIO(PHOTO)).convert("RGB"),
    "gray": lambda: Image.open(io.BytesIO(PHOTO)).convert("L"),
    "resized": lambda: Image.open(io.BytesIO(PHOTO)).resize((50, 60)),
    "decoded": lambda: torchvision.io.decode_image(torch.frombuffer(bytearray(PHOTO), dtype=torch.uint8)),
    "decoded and flipped": lambda: v2.functional.hflip(THINGS["decoded"]()),
    "v2's image": lambda: v2.functional.to_image(THINGS["decoded"]()),
}
_TENSORS = ("decoded", "decoded and flipped", "v2's image")
LOOKS: dict[str, Callable[[Any], Any]] = {
    "class": lambda x: str(type(x)),
    "names": lambda x: (type(x).__name__, type(x).__qualname__, type(x).__module__),
    "repr": repr,
    "collated": lambda x: default_collate([x, x]) if isinstance(x, Image.Image) else None,
    "collated with another": lambda x: default_collate([(x, 1), (x, 2)]) if isinstance(x, Image.Image) else None,
    "normalized": lambda x: F.normalize(x, [0.5], [0.5]),
    "v2 normalized": lambda x: v2.functional.normalize(x, [0.5], [0.5]),
    "to a tensor": T.ToTensor(),
    "erased": lambda x: F.erase(x, 1, 1, 2, 2, torch.zeros(1)),
    "an attribute that isn't there": lambda x: x.nothing,
    "called": lambda x: x(),
    "added to a text": lambda x: "a" + x,
    "its length": len,
    "a number of it": int,
    "a stack": lambda x: torch.stack([x, "a"]),
    "a tensor of it": lambda x: torch.tensor(x) if isinstance(x, Image.Image) else None,
    "compared": lambda x: x < "a",
    "pasted": lambda x: Image.new("RGB", (9, 9)).paste(x, "a"),
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize(
    "thing", [name for name in THINGS if name not in _TENSORS or not torchvision_io_here.why_not()]
)
def test_words_are_as_without(thing: str, look: str) -> None:
    def words() -> Any:
        try:
            made = LOOKS[look](THINGS[thing]())
        except Exception as error:
            made = f"{type(error).__name__}: {error}"
        return re.sub("0x[0-9A-Fa-f]+", "", made) if isinstance(made, str) else type(made).__name__

    expected = words()
    with fastpipe.install(check=0):
        assert words() == expected
