"""torchvision's twin of each transform."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torchvision_here import torchvision
from transform_cases import FIXED, LARGE, ON_TENSORS, RANDOM, ident

import fastpipe
from fastpipe import transforms as T
from fastpipe.errors import FastpipeError
from fastpipe.tools.import_torchvision import import_torchvision
from fastpipe.tools.torchvision_mirror import mirror

R = torchvision.transforms
OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("ToTensor", {}),
    ("PILToTensor", {}),
    ("ToPILImage", {"mode": "RGB"}),
    ("FiveCrop", {"size": 3}),
    ("TenCrop", {"size": (3, 4), "vertical_flip": True}),
    ("LinearTransformation", {"transformation_matrix": torch.eye(3), "mean_vector": torch.ones(3)}),
]


@pytest.mark.parametrize("case", [*RANDOM, *FIXED, *LARGE, *ON_TENSORS, *OTHERS], ids=ident)
def test_each_class(case: tuple[str, dict[str, Any]]) -> None:
    name, arguments = case
    notes: list[str] = []
    made, expected = mirror(getattr(T, name)(**arguments), notes), getattr(R, name)(**arguments)
    assert type(made) is type(expected)
    assert repr(made) == repr(expected)
    for key, value in vars(expected).items():
        if not key.startswith("_") and key != "policies" and not isinstance(value, torch.Tensor):
            assert str(getattr(made, key)) == str(value), key
    assert mirror(expected, notes) is expected
    assert notes == []


def test_composites_keep_their_members_and_nesting() -> None:
    ours = T.Compose(
        [
            T.RandomApply([T.CenterCrop(9), T.RandomChoice([T.Pad(1), T.Pad(2)], p=[0.2, 0.8])], p=0.3),
            T.RandomApply(torch.nn.ModuleList([T.CenterCrop(8)])),
            torch.nn.Sequential(T.CenterCrop(7)),
            T.RandomOrder([T.Grayscale(), T.Lambda(abs)]),
        ]
    )
    notes: list[str] = []
    twin: Any = mirror(ours, notes)
    assert repr(twin) == repr(ours).replace("Lambda()", repr(R.Lambda(abs)))
    assert type(twin.transforms[1].transforms) is torch.nn.ModuleList
    assert type(twin.transforms[2][0]) is R.CenterCrop
    assert twin.transforms[3].transforms[1].lambd is abs
    assert type(mirror(fastpipe.MultiView(T.CenterCrop(3), 2), notes).transform) is R.CenterCrop
    assert notes == []


def test_what_has_no_twin_runs_as_it_is() -> None:
    class Mine(T.CenterCrop):
        pass

    altered = T.CenterCrop(3)
    altered.forward = lambda image: image
    foreign = [Mine(4), len, altered]
    notes: list[str] = []
    twin: Any = mirror(T.Compose(foreign), notes)
    assert all(one is other for one, other in zip(twin.transforms, foreign, strict=True))
    assert len(notes) == 3
    assert "Mine(size=(4, 4)) has no counterpart in torchvision" in notes[0]


def test_without_torchvision_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(FastpipeError, match=r"pip install torchvision") as caught:
        import_torchvision()
    assert "\n" not in str(caught.value)
