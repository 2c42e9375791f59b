"""`explain` and `doctor` say that `convert` helps, and how much."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchvision_here
from recipe_conformance import seed_all, states
from torch.utils.data import Subset

import fastpipe
from fastpipe.explanation.conversion_gain import ConversionGain, conversion_gain
from fastpipe.tools.doctor import findings

V1 = torchvision_here.module("torchvision.transforms")
Make = Callable[..., Any]


def crops() -> Any:
    return V1.Compose([V1.RandomCrop(24, pad_if_needed=True), V1.RandomHorizontalFlip(), V1.ToTensor()])


@pytest.mark.parametrize("name", ["ImageFolder", "CIFAR10"])
def test_explain_names_the_line_and_what_it_measured(make: Make, name: str):
    dataset = make(name, transform=crops())
    seed_all(0)
    before = states()
    gain = conversion_gain(dataset)
    assert states() == before
    assert gain is not None
    assert gain.ratio is not None
    assert 0 < gain.samples <= len(dataset)
    if gain.pays:  # on a busy machine it may not show
        text = " ".join(str(fastpipe.explain(dataset)).split())
        assert "fastpipe.convert(dataset)" in text or "ends the plan" in text
    assert conversion_gain(Subset(dataset, [0, 1])) is not None
    assert conversion_gain(fastpipe.convert(dataset)) is None


def test_what_can_t_be_converted_or_made_has_no_figure(make: Make):
    assert conversion_gain(make("ImageFolder", loader=print)) is None
    assert conversion_gain(object()) is None
    broken = conversion_gain(make("CIFAR10", transform=V1.RandomCrop(99)))
    assert broken == ConversionGain(None, 0)
    assert str(broken) == "the same samples"


def test_explain_of_what_was_converted_shows_a_plan(make: Make):
    text = str(fastpipe.explain(fastpipe.convert(make("CIFAR10", transform=crops()))))
    assert "nothing: CIFAR10 has its images in memory" in text
    assert "the whole transform is planned" in text


def test_doctor_s_findings_name_the_line():
    gain = ConversionGain(4.56, 32)
    one = findings.one_by_one("CIFAR10", gain)
    assert "fastpipe.convert(dataset)" in one.remedy
    assert "4.6 times as fast, measured on 32 of them here" in one.remedy


@pytest.mark.slow
def test_doctor_measures_what_convert_would_gain(make: Make):
    diagnosis = fastpipe.doctor(make("CIFAR10", transform=crops()), seconds=1.0)
    found = next(one for one in diagnosis.findings if one.name == "samples are made one by one")
    assert re.search(r"fastpipe\.convert\(dataset\): the same samples \d+\.\d times as fast", found.remedy)
    assert torch.is_tensor(fastpipe.convert(make("CIFAR10", transform=crops()))[0][0])
