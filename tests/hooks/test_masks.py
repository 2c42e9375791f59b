"""COCO's masks under `fastpipe.install`: pycocotools' arrays and refusals, and torch's own results of what follows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plain_and_hooked import assert_as_plain, assert_same
from torch.utils.data import IterableDataset
from torchvision_here import module

import fastpipe
from fastpipe.errors import FastpipeWarning
from fastpipe.hooks import pycocotools as hook
from fastpipe.hooks.ledger import LEDGER
from fastpipe.plain_way import plainly

mask_api = pytest.importorskip("pycocotools.mask")
tv_tensors = module("torchvision.tv_tensors")

pytestmark = [
    pytest.mark.needs_core,
    pytest.mark.usefixtures("fresh_ledger"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # pycocotools' own
]
SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
MASKS, ANY, STACK, PICK = "pycocotools.mask.decode", "torch.Tensor.any", "torch.stack", "torch.Tensor.__getitem__"


@pytest.fixture
def installed() -> Iterator[None]:
    with fastpipe.install(check=0):
        yield


def taken(name: str) -> int:
    """The number of calls of a function that fastpipe made."""
    return LEDGER.site("function", name).images


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as error:
        return repr(error)


def assert_same_array(made: Any, expected: Any) -> None:
    assert type(made) is type(expected)
    if not isinstance(expected, np.ndarray):
        assert made == expected
        return
    np.testing.assert_array_equal(made, expected, strict=True)
    assert made.strides == expected.strides
    assert made.flags == expected.flags
    assert (made.base is None) == (expected.base is None)


polygons = st.lists(
    st.lists(st.floats(-30, 150), min_size=6, max_size=24).map(lambda numbers: numbers[: len(numbers) // 2 * 2]),
    min_size=1,
    max_size=3,
)


@SETTINGS
@given(polygons=polygons, height=st.integers(2, 120), width=st.integers(2, 120))
@pytest.mark.usefixtures("installed")
def test_polygons_are_pycocotools_masks(polygons: list[list[float]], height: int, width: int) -> None:
    before = taken(MASKS)
    found = mask_api.frPyObjects(polygons, height, width)
    merged = mask_api.merge(found)
    made = [mask_api.decode(masks) for masks in (found, merged, {**merged, "counts": merged["counts"].decode()})]
    assert taken(MASKS) == before + 3
    with plainly():
        for one, expected in zip(made, (found, merged, merged), strict=True):
            assert_same_array(one, mask_api.decode(expected))


HALF = {"size": [4, 6], "counts": b"<<"}
UNUSUAL: list[Any] = [
    None,
    "text",
    ({**HALF},),
    [HALF, {"size": [6, 4], "counts": b"<<"}],
    [{"size": [4, 6]}],
    [{"counts": b"<<"}],
    [{"size": [4.0, 6.0], "counts": b"<<"}],
    [{"size": np.array([4, 6]), "counts": b"<<"}],
    [{"size": [4], "counts": b"<<"}],
    [{"size": [4, 6], "counts": bytearray(b"<<")}],
    [{"size": [4, 6], "counts": 5}],
    [{"size": [4, 6], "counts": "<<<"}],
    [{"size": [0, 6], "counts": b""}],
    [{"size": [1, 6], "counts": b"6"}],
    [{"size": [6, 1], "counts": b"33"}] * 2,
    [{"size": [-4, -6], "counts": b"<<"}],
    [type("Mask", (dict,), {})(HALF)],
]


@pytest.mark.parametrize("masks", UNUSUAL, ids=repr)
@pytest.mark.usefixtures("installed")
def test_what_is_unusual_is_pycocotools_to_decode(masks: Any) -> None:
    from pycocotools import _mask

    made = outcome(_mask.decode, masks)
    assert taken(MASKS) == 0
    with plainly():
        assert_same_array(made, outcome(_mask.decode, masks))


@pytest.mark.usefixtures("installed")
def test_arguments_by_another_name_are_pycocotools() -> None:
    from pycocotools import _mask

    assert mask_api.decode([HALF]).sum() == 12
    made = outcome(lambda: _mask.decode(rleObjs=[HALF]))
    with plainly():
        assert_same_array(made, outcome(lambda: _mask.decode(rleObjs=[HALF])))


@pytest.mark.parametrize("check", [0, 2])
def test_another_mask_than_pycocotools_is_found_out(check: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = mask_api.decode([HALF])
    monkeypatch.setattr(hook, "decoded", lambda masks: np.ones_like(expected))
    with fastpipe.install(check=check), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", FastpipeWarning)
        made = [mask_api.decode([HALF]) for _ in range(3)]
    assert [np.array_equal(one, expected) for one in made] == [check > 0] * 3
    assert [MASKS in str(one.message) for one in told if one.category is FastpipeWarning] == [True] * (check > 0)


# -- what follows in torch


def columns(seed: int, *shape: int, most: int = 1) -> torch.Tensor:
    """Masks whose memory goes column after column."""
    values = np.random.default_rng(seed).integers(0, most + 1, shape, np.uint8)
    return torch.from_numpy(np.asfortranarray(values))


def tv_mask() -> Any:
    return tv_tensors.Mask(columns(5, 4, 70, 90).contiguous())


KEEP = torch.tensor([True, False, True, True])
BOTH = [columns(0, 80, 90), columns(1, 80, 90, most=255)]
FUNCTIONS: dict[str, tuple[str, Callable[[], Any]]] = {
    "any by name": (ANY, lambda: columns(0, 80, 90, 1).any(dim=2)),
    "any of many values": (ANY, lambda: columns(0, 75, 93, 1, most=255).any(dim=2)),
    "any of several": (ANY, lambda: columns(0, 81, 95, 3).any(-1)),
    "any as a function": ("torch.any", lambda: torch.any(columns(0, 80, 90, 1), 2)),
    "stack": (STACK, lambda: torch.stack(BOTH)),
    "stack by name": (STACK, lambda: torch.stack((*BOTH, BOTH[0]), dim=0)),
    "picked": (PICK, lambda: columns(0, 4, 70, 90).contiguous()[KEEP]),
    "picked bools": (PICK, lambda: columns(0, 4, 70, 90).contiguous().bool()[KEEP]),
    "none picked": (PICK, lambda: columns(0, 4, 70, 90).contiguous()[KEEP & False]),
    "picked of torchvision's": (PICK, lambda: tv_mask()[KEEP]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("check", [0, 1])
def test_functions_on_masks_are_torch_s(name: str, check: int) -> None:
    from fastpipe.hooks.torch.mask_tensors import MaskMode

    site, function = FUNCTIONS[name]
    expected = function()
    with fastpipe.install(check=check), MaskMode():
        made = function()
        with plainly():
            function()
    assert_same(made, expected)
    assert taken(site) == 1
    assert LEDGER.site("function", site).checked == check
    assert not LEDGER.site("function", site).is_off


LEFT: dict[str, Callable[[], Any]] = {
    "any of all": lambda: columns(0, 80, 90, 1).any(),
    "any of another dimension": lambda: columns(0, 80, 90, 1).any(dim=1),
    "any that keeps it": lambda: columns(0, 80, 90, 1).any(dim=2, keepdim=True),
    "any of several dimensions": lambda: columns(0, 80, 90, 1).any(dim=(1, 2)),
    "any of rows": lambda: columns(0, 80, 90, 1).contiguous().any(dim=2),
    "any of a part": lambda: columns(0, 80, 90, 1)[:70].any(dim=2),
    "any of bools": lambda: columns(0, 80, 90, 1).bool().any(dim=2),
    "any of a few": lambda: columns(0, 8, 9, 1).any(dim=2),
    "any of torchvision's": lambda: tv_tensors.Mask(columns(0, 80, 90, 1)).any(dim=2),
    "stack of rows": lambda: torch.stack([one.contiguous() for one in BOTH]),
    "stack behind": lambda: torch.stack(BOTH, dim=2),
    "stack into": lambda: torch.stack(BOTH, out=torch.empty(2, 80, 90, dtype=torch.uint8)),
    "stack of two sizes": lambda: torch.stack([columns(0, 80, 90), columns(1, 90, 80)]),
    "stack of two kinds": lambda: torch.stack([BOTH[0], BOTH[1].int()]),
    "stack of nothing": lambda: torch.stack([]),
    "picked by other bools": lambda: columns(0, 3, 70, 90).contiguous()[KEEP],
    "picked by numbers": lambda: columns(0, 4, 70, 90).contiguous()[KEEP.nonzero()[:, 0]],
    "picked boxes": lambda: torch.ones(4, 4)[KEEP],
    "picked of columns": lambda: columns(0, 4, 70, 90)[KEEP],
    "picked floats": lambda: columns(0, 4, 70, 90).float().contiguous()[KEEP],
    "a slice": lambda: columns(0, 4, 70, 90)[:, :5],
}


@pytest.mark.parametrize("name", LEFT)
def test_other_calls_are_torch_s(name: str) -> None:
    from fastpipe.hooks.torch.mask_tensors import MaskMode

    expected = outcome(LEFT[name])
    with fastpipe.install(check=0), MaskMode():
        made = outcome(LEFT[name])
    assert_same(made, expected)
    assert sum(map(taken, (ANY, "torch.any", STACK, PICK))) == 0


class Polygons:
    """Samples as vision's references and torchvision's wrapper make them: masks of polygons, some of them kept."""

    def __init__(self, *, has_masks: bool = True, wrapped: bool = False) -> None:
        self.has_masks, self.wrapped = has_masks, wrapped
        self.modes: list[int] = []

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        image = torch.rand(3, 70 + index, 90)
        self.modes.append(torch._C._len_torch_function_stack())
        if not self.has_masks:
            return image, {"index": index}
        masks = []
        for number in range(1 + index % 4):
            corner = 5.0 * number + index
            parts = [[corner, 3, 80, corner, 40, 60.5], [1, 1, 9.5, 1, 9, 30, 2, 12]][: 1 + number % 2]
            found = mask_api.frPyObjects(parts, 70 + index, 90)
            if self.wrapped:
                masks.append(torch.from_numpy(mask_api.decode(mask_api.merge(found))))
            else:
                masks.append(torch.as_tensor(mask_api.decode(found), dtype=torch.uint8).any(dim=2))
        stacked = torch.stack(masks, dim=0)
        keep = torch.rand(len(masks)) < 0.7
        return image, {"masks": stacked[keep].flip(-1), "index": index}


def lists(batch: list[Any]) -> tuple[Any, ...]:
    """Collates a batch as vision's references for detection do."""
    return tuple(zip(*batch, strict=True))


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_samples_of_a_loader(wrapped: bool, batch_size: int) -> None:
    dataset = Polygons(wrapped=wrapped)
    for seed, check in enumerate([2, 0]):
        assert_as_plain(dataset, seed, check=check, batch_size=batch_size, collate_fn=lists)
    assert taken(MASKS)
    assert taken(STACK if wrapped else ANY)
    assert taken(PICK)
    assert not any(site.differed or site.left for site in LEDGER.total()[0] if site.kind == "function")
    assert not torch._C._len_torch_function_stack()


class Stream(IterableDataset[Any]):
    """The same samples as an iterator."""

    def __iter__(self) -> Iterator[Any]:
        dataset = Polygons()
        return (dataset[index] for index in range(len(dataset)))


def test_samples_of_a_stream() -> None:
    assert_as_plain(Stream(), check=2, batch_size=3, shuffle=False, collate_fn=lists)
    assert taken(ANY)
    assert taken(PICK)


@pytest.mark.slow
def test_samples_of_workers() -> None:
    assert_as_plain(Polygons(), check=2, batch_size=3, collate_fn=lists, num_workers=1)
    sites = {site.name: site for site in LEDGER.total()[0] if site.kind == "function"}
    assert sites[ANY].images
    assert not any(site.differed or site.left for site in sites.values())


def test_only_data_sets_with_masks_have_the_mode() -> None:
    with_masks, without = Polygons(), Polygons(has_masks=False)
    for dataset in (with_masks, without):
        assert_as_plain(dataset, check=0, collate_fn=lists)  # plainly, and then by our way
    assert [sorted(set(dataset.modes[12:])) for dataset in (with_masks, without)] == [[0, 1], [0]]
    assert not any(with_masks.modes[12:20])  # the first batch tells
