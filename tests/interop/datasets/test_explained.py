"""`explain` and `doctor` take what `convert` takes, and say that it helps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hugging_face_here
import pytest
import torch
import torchvision_here
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset

import fastpipe

V1 = torchvision_here.module("torchvision.transforms")
Make = Callable[..., Any]


def crops() -> Any:
    return V1.Compose([V1.RandomCrop(24, pad_if_needed=True), V1.RandomHorizontalFlip(), V1.ToTensor()])


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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["CIFAR10", "ImageFolder"])
def test_doctor_says_that_convert_helps(make: Make, name: str):
    dataset = make(name, transform=crops())
    diagnosis = fastpipe.doctor(dataset, seconds=1.0)
    kind = "images are decoded whole"
    found = next(one for one in diagnosis.findings if one.name == kind)
    assert "fastpipe.convert(dataset)" in found.remedy
    assert kind not in {one.name for one in fastpipe.doctor(fastpipe.convert(dataset), seconds=1.0).findings}


@pytest.mark.parametrize("name", ["CIFAR10", "CocoDetection", "ImageFolder", "VOCSegmentation"])
def test_explain_takes_what_convert_takes(make: Make, name: str):
    dataset = make(name, transform=crops())
    loader = DataLoader(ConcatDataset([dataset, Subset(dataset, [1, 0])]), 2)
    for given in (dataset, loader, fastpipe.convert(dataset), fastpipe.convert(loader)):
        found = fastpipe.explain(given)
        assert f"{name}" in found.subject or "Image" in found.subject
        assert len(found.drawn) + len(found.rest) == len(crops().transforms)


def test_explain_takes_other_libraries_data_sets(tmp_path: Any):
    hf = hugging_face_here.datasets()
    table = hf.Dataset.from_dict({"image": [None]}, features=hf.Features({"image": hf.Image()}))
    shown = table.with_transform(len)
    for given in (shown, DataLoader(shown), fastpipe.convert(shown)):
        assert fastpipe.explain(given).rest == ("builtins.len",)
    tensors = TensorDataset(torch.zeros(3, 3, 8, 9))
    assert fastpipe.explain(tensors).rest == fastpipe.explain(fastpipe.convert(tensors)).rest == ()
