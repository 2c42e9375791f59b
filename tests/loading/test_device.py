"""``device=``: uint8 to the device, normalised there; the same values as on the CPU."""

from __future__ import annotations

import sys

import pytest
import torch
from torch.utils.data import DataLoader as StockLoader

import fastpipe
from fastpipe import transforms as T
from fastpipe.executor import BatchSpec
from fastpipe.loading.collate import BatchCollate, DeferredImages

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
CROP = [T.RandomResizedCrop((20, 31)), T.RandomHorizontalFlip()]
TRANSFORMS = {
    "uint8": [*CROP, T.PILToTensor()],
    "float": [*CROP, T.ToTensor()],
    "normalised": [*CROP, T.ToTensor(), T.Normalize(MEAN, STD)],
    "gray": [*CROP, T.Grayscale(), T.ToTensor(), T.Normalize([0.5], [0.25])],
    "sometimes normalised": [*CROP, T.ToTensor(), T.RandomApply([T.Normalize(MEAN, STD)])],
    "erased": [*CROP, T.ToTensor(), T.Normalize(MEAN, STD), T.RandomErasing(0.8)],
    "foreign": [*CROP, T.Lambda(lambda image: image.rotate(9)), T.ToTensor()],
}
WORKERS = [0, 2] if sys.platform == "linux" else [0]
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def batches(loader_class, root, name, **options):
    dataset = fastpipe.ImageFolder(root, T.Compose(TRANSFORMS[name]), seed=4)
    return list(loader_class(dataset, batch_size=4, **options))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_values_are_those_of_the_cpu(root, name, workers, device):
    ours = batches(fastpipe.DataLoader, root, name, num_workers=workers, device=device)
    for (images, targets), (expected, labels) in zip(ours, batches(StockLoader, root, name), strict=True):
        assert images.device.type == targets.device.type == device
        assert images.dtype == expected.dtype
        if device == "cpu":
            assert torch.equal(images, expected)
        torch.testing.assert_close(images.cpu(), expected, rtol=1e-6, atol=1e-6)
        assert torch.equal(targets.cpu(), labels)


@pytest.mark.parametrize("name", ["uint8", "normalised", "erased"])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_dtype_and_memory_format(root, name, layout):
    ours = batches(fastpipe.DataLoader, root, name, device="cpu", dtype=torch.float16, memory_format=layout)
    for (images, _), (expected, _) in zip(ours, batches(StockLoader, root, name), strict=True):
        wanted = expected.to(torch.float16) if expected.is_floating_point() else expected
        assert images.dtype == wanted.dtype
        assert images.is_contiguous(memory_format=layout)
        assert torch.equal(images, wanted)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_on_the_meta_device(root, name, workers):
    ours = batches(fastpipe.DataLoader, root, name, num_workers=workers, device="meta")
    for batch, expected in zip(ours, batches(StockLoader, root, name), strict=True):
        for one, other in zip(batch, expected, strict=True):
            assert one.device.type == "meta"
            assert (one.shape, one.dtype) == (other.shape, other.dtype)


@pytest.mark.parametrize("name", ["normalised", "sometimes normalised", "float"])
def test_what_travels_is_uint8(root, name):
    dataset = fastpipe.ImageFolder(root, T.Compose(TRANSFORMS[name]), seed=4)
    options = BatchSpec(defer=True)
    images, targets = BatchCollate(options)(dataset.batch(range(14), options))
    assert isinstance(images, DeferredImages)
    assert images.images.dtype == torch.uint8
    assert images.images.shape == (14, 3, 20, 31)
    assert images.mean.shape == images.std.shape == (14 if name.startswith("sometimes") else 1, 3, 1, 1)
    assert targets.tolist() == [int(target) for target in dataset.targets]


def test_state_counts_what_was_handed_out(root):
    dataset = fastpipe.ImageFolder(root, T.Compose(TRANSFORMS["normalised"]), seed=4)
    loader = fastpipe.DataLoader(dataset, batch_size=4, shuffle=True, device="cpu")
    iterator = iter(loader)
    next(iterator)
    assert loader.state_dict()["sampler"]["position"] == 4
    assert loader.device == torch.device("cpu")


def test_own_collate_function_is_only_moved(root):
    dataset = fastpipe.ImageFolder(root, T.Compose(TRANSFORMS["normalised"]))
    loader = fastpipe.DataLoader(dataset, collate_fn=lambda samples: {"x": samples[0][0]}, device="meta")
    assert next(iter(loader))["x"].device.type == "meta"
