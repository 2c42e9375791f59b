"""`explain` and `doctor` say that `convert` helps, and how much."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchvision_here
from recipe_conformance import seed_all, states
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset

import fastpipe
from fastpipe.explanation.conversion_gain import ConversionGain, conversion_gain
from fastpipe.tools.doctor import examine, findings

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
    assert "header could be read" not in text


def test_verify_compares_images_in_memory(make: Make):
    for name in ("CIFAR10", "MNIST", "SVHN"):
        ours = fastpipe.convert(make(name, transform=crops()))
        assert fastpipe.verify(ours).holds
        assert ours.image(-1).tobytes() == ours.image(len(ours) - 1).tobytes()


def test_doctor_s_findings_name_the_line():
    gain = ConversionGain(4.56, 32)
    one = findings.one_by_one("CIFAR10", gain)
    assert "fastpipe.convert(dataset)" in one.remedy
    assert "4.6 times as fast, measured on 32 of them here" in one.remedy


@pytest.mark.slow
@pytest.mark.parametrize("name", ["CIFAR10", "ImageFolder"])
def test_doctor_says_what_convert_would_gain(make: Make, name: str, monkeypatch: pytest.MonkeyPatch):
    asked = []

    def measured(dataset: Any) -> ConversionGain:
        asked.append(conversion_gain(dataset))
        return ConversionGain(4.56, 8)  # whatever else this machine is doing

    monkeypatch.setattr(examine, "conversion_gain", measured)
    dataset = make(name, transform=crops())
    diagnosis = fastpipe.doctor(dataset, seconds=1.0)
    kind = "samples are made one by one" if name == "CIFAR10" else "images are decoded whole"
    found = next(one for one in diagnosis.findings if one.name == kind)
    assert "fastpipe.convert(dataset)" in found.remedy
    assert "the same samples 4.6 times as fast, measured on 8 of them here" in found.remedy
    assert asked[0] is not None
    assert asked[0].ratio is not None
    assert kind not in {one.name for one in fastpipe.doctor(fastpipe.convert(dataset), seconds=1.0).findings}


@pytest.mark.parametrize("name", ["CIFAR10", "CocoDetection", "ImageFolder", "OxfordIIITPet", "VOCSegmentation"])
def test_explain_takes_what_convert_takes(make: Make, name: str):
    dataset = make(name, transform=crops())
    loader = DataLoader(ConcatDataset([dataset, Subset(dataset, [1, 0])]), 2)
    for given in (dataset, loader, fastpipe.convert(dataset), fastpipe.convert(loader)):
        found = fastpipe.explain(given)
        assert f"{name}" in found.subject or "Image" in found.subject
        assert len(found.drawn) + len(found.rest) == len(crops().transforms)


def test_explain_takes_other_libraries_data_sets(tmp_path: Any):
    hf = pytest.importorskip("datasets")
    table = hf.Dataset.from_dict({"image": [None]}, features=hf.Features({"image": hf.Image()}))
    shown = table.with_transform(len)
    for given in (shown, DataLoader(shown), fastpipe.convert(shown)):
        assert fastpipe.explain(given).rest == ("builtins.len",)
    tensors = TensorDataset(torch.zeros(3, 3, 8, 9))
    assert fastpipe.explain(tensors).rest == fastpipe.explain(fastpipe.convert(tensors)).rest == ()
