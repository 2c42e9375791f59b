"""Trials that find that a library computes otherwise: the same values as ever, and the reason in the report."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torchvision_here
from transform_cases import as_tensor, picture

import fastpipe
from fastpipe.hooks.ledger import LEDGER
from fastpipe.tensor_kernels import floats, v2_tensors

geometry: Any = torchvision_here.module("torchvision.transforms.v2.functional._geometry")
F: Any = torchvision_here.module("torchvision.transforms.v2.functional")


@pytest.fixture
def resizes_as_floats(monkeypatch: pytest.MonkeyPatch, fresh_ledger: None) -> Iterator[None]:
    """A torchvision that resizes bytes as floats, as before 0.24 on processors with AVX-512."""
    name = "_do_native_uint8_resize_on_cpu"
    if not hasattr(geometry, name):
        pytest.skip("this torchvision decides otherwise")
    monkeypatch.setattr(geometry, name, lambda interpolation: False)
    monkeypatch.setattr(importlib.import_module("fastpipe.kernels.trials"), "_reasons", {})
    v2_tensors.resizes_natively.cache_clear()
    yield
    v2_tensors.resizes_natively.cache_clear()


@pytest.mark.parametrize("size", [[23, 40], [97, 64], [50], [3, 2]])
@pytest.mark.parametrize("mode", ["BILINEAR", "BICUBIC"])
def test_bytes_that_torchvision_resizes_as_floats(size: list[int], mode: str, resizes_as_floats: None) -> None:
    image, interpolation = as_tensor(picture(61, 83)), F.InterpolationMode[mode]
    expected = F.resize(image, size, interpolation, antialias=True)
    with fastpipe.install(check=0):
        resized = F.resize(image, size, interpolation, antialias=True)
    assert torch.equal(resized, expected)
    assert resized.stride() == expected.stride()


def test_the_report_says_why(resizes_as_floats: None) -> None:
    image = as_tensor(picture(161, 183))
    with fastpipe.install(check=0):
        for _ in range(2):
            F.resize(image, [90, 90], antialias=True)
    reasons = [note for note in LEDGER.notes if "resizes bytes in floats on this processor (bilinear)" in note]
    assert len(reasons) == 1


def test_the_core_resizes_bytes_as_floats(resizes_as_floats: None, monkeypatch: pytest.MonkeyPatch) -> None:
    if floats.rounding() is None:
        pytest.skip("this torch resizes floats in another way than the core")
    sizes = []
    resized = floats.resized
    monkeypatch.setattr(floats, "resized", lambda batch, size, *rest: sizes.append(size) or resized(batch, size, *rest))
    assert v2_tensors.run("resize", as_tensor(picture(161, 183)), [90, 80]) is not None
    assert sizes == [[90, 80]]
