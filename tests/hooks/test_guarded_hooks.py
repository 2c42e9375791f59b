"""Errors planted in what hooks do besides the library's own calls: the script goes on, and the report says so."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torchvision_io_here
from hooks.composed import T, v2
from PIL import Image
from torchvision_here import module

import fastpipe
from fastpipe.hooks import children
from fastpipe.hooks.ledger import LEDGER

pytestmark = [pytest.mark.needs_core, pytest.mark.usefixtures("fresh_ledger")]
io, tv_tensors = module("torchvision.io"), module("torchvision.tv_tensors")


def failing(*_: object, **__: object) -> Any:
    raise RuntimeError("planted")


def decoded(path: Path) -> Any:
    return io.decode_image(torch.from_numpy(np.fromfile(path, np.uint8))).numpy()


def cropped(path: Path) -> Any:
    boxes = tv_tensors.BoundingBoxes([[2.0, 3.0, 20.0, 30.0]], format="XYXY", canvas_size=(61, 83))
    image, kept = v2.RandomIoUCrop(sampler_options=[0.1], trials=40)(Image.open(path).convert("RGB"), boxes)
    return np.append(np.asarray(image).ravel(), kept.numpy().ravel())


def composed(path: Path) -> Any:
    return T.Compose([T.RandomCrop(20), T.ToTensor()])(Image.open(path).convert("RGB")).numpy()


def of_sample(path: Path) -> Any:
    return v2.Compose([v2.RandomCrop(20), v2.ToImage()])(Image.open(path).convert("RGB"), 5)[0].numpy()


PLANTED: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "torchvision's decoder": ("fastpipe.hooks.torchvision.tensor_files.TensorFiles._opened", decoded),
    "trials of crops": ("fastpipe.transforms.v2._params._Boxes.within", cropped),
    "the plan of a Compose": ("fastpipe.hooks.torchvision.compose_calls.ComposeCalls._planned", composed),
    "v2's Compose of a sample": ("fastpipe.hooks.torchvision.compose_calls.ComposeCalls._planned", of_sample),
}


@pytest.mark.parametrize("name", PLANTED)
def test_the_library_s_own_way_goes_on(name: str, varied_photos: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    target, call = PLANTED[name]
    if call is decoded and torchvision_io_here.why_not():
        pytest.skip("torchvision decodes nothing here")
    torch.manual_seed(4)
    expected, drawn = call(varied_photos[0]), torch.rand(1)
    monkeypatch.setattr("fastpipe.hooks.torchvision.tensor_files.LEAST_BYTES", 0)
    monkeypatch.setattr("fastpipe.hooks.torchvision.tensor_files.LEAST_PIXELS", 0)
    with fastpipe.install(check=0):
        call(varied_photos[0])  # imports what is planted in
        monkeypatch.setattr(target, failing)
        torch.manual_seed(4)
        np.testing.assert_array_equal(call(varied_photos[0]), expected)
        assert torch.equal(torch.rand(1), drawn)
        report = fastpipe.report()
    told = [*report.notes, *(reason for site in report.sites for reason in site.left)]
    assert any("RuntimeError: planted" in text for text in told), told


def test_processes_start_and_end_though_their_ledger_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    from multiprocessing import spawn

    with fastpipe.install(check=0):
        for name in ("folder", "fold_ended", "flush_child", "begin_child"):
            monkeypatch.setattr(LEDGER, name, failing)
        assert subprocess.run([sys.executable, "-c", "print('fastpipe')"], check=True, capture_output=True).stdout
        assert "fastpipe" not in spawn.get_preparation_data("one")
        if hasattr(os, "fork"):
            child = os.fork()
            if not child:
                os._exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert any("planted" in note for note in LEDGER.notes)


def test_an_exit_is_one_though_the_ledger_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    statuses: list[int] = []
    monkeypatch.setattr(os, "_exit", statuses.append)
    monkeypatch.setattr(children, "as_builtin", lambda plain, replacement: replacement)
    children._flush_before_exit.__wrapped__()
    monkeypatch.setattr(LEDGER, "flush_child", failing)
    os._exit(3)
    assert statuses == [3]


def test_masks_are_plain_where_the_faster_ones_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pycocotools")
    from fastpipe.hooks import pycocotools

    monkeypatch.setattr(pycocotools, "_fetchers", None)
    with pycocotools.fetching(SimpleNamespace()):  # type: ignore[arg-type] # any object
        pass
    assert any("masks" in note for note in LEDGER.notes)
