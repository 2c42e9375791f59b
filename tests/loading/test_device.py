"""``device=``: uint8 to the device, normalised there; the same values as on the CPU."""

from __future__ import annotations

import sys
from collections import OrderedDict, UserDict
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from torch.utils.data import DataLoader as StockLoader

import fastpipe
from fastpipe import transforms as T
from fastpipe.executor import BatchSpec
from fastpipe.loading.collate import BatchCollate, DeferredImages, to_device
from fastpipe.loading.device import CopiedAhead

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
CROP = [T.RandomResizedCrop((20, 31)), T.RandomHorizontalFlip()]
TRANSFORMS = {
    "uint8": [*CROP, T.PILToTensor()],
    "float": [*CROP, T.ToTensor()],
    "normalised": [*CROP, T.ToTensor(), T.Normalize(MEAN, STD)],
    "gray": [*CROP, T.Grayscale(), T.ToTensor(), T.Normalize([0.5], [0.25])],
    "sometimes normalised": [*CROP, T.ToTensor(), T.RandomApply([T.Normalize(MEAN, STD)])],
    "erased": [*CROP, T.ToTensor(), T.Normalize(MEAN, STD), T.RandomErasing(0.8)],
    "floats first": [T.ToTensor(), *CROP, T.Normalize(MEAN, STD)],
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
        assert torch.equal(images.cpu(), expected)
        assert torch.equal(targets.cpu(), labels)


@pytest.mark.parametrize("name", ["uint8", "normalised", "erased", "floats first"])
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


@pytest.mark.parametrize("mapping", [dict, OrderedDict, UserDict])
def test_mappings_keep_their_class(root, mapping):
    dataset = fastpipe.ImageFolder(root, T.Compose(TRANSFORMS["normalised"]))
    collate = mock.Mock(side_effect=lambda samples: mapping({"x": samples[0][0], "names": ["a"]}))
    batch = next(iter(fastpipe.DataLoader(dataset, collate_fn=collate, device="meta")))
    assert type(batch) is mapping
    assert (batch["x"].device.type, batch["names"]) == ("meta", ["a"])


@pytest.mark.parametrize(("device", "waits"), [("cuda", False), ("mps", True), ("xpu", True), ("cpu", True)])
def test_only_cuda_copies_behind_the_call(device, waits):
    """Elsewhere the copy could read memory that the next batch is already made in."""
    with mock.patch.object(torch.Tensor, "to") as to:
        to_device(torch.zeros(2), torch.device(device))
    assert to.call_args.kwargs == {"non_blocking": not waits}


def test_all_that_is_deferred_is_pinned():
    images = DeferredImages(torch.zeros(2, 3, 4, 5, dtype=torch.uint8), *torch.ones(2, 1, 3, 1, 1), torch.float32)
    with mock.patch.object(torch.Tensor, "pin_memory", lambda one, *device: one + 1):
        pinned = images.pin_memory()
    assert (pinned.images == 1).all()
    assert (pinned.mean == 2).all()
    assert (pinned.std == 2).all()


class FakeStream:
    """A stream of `fake_cuda`, which notes what happens on it."""

    def __init__(self, log, name="side"):
        self.log, self.name, self.device = log, name, torch.device("cpu")
        self.events = 0

    def record_event(self):
        self.events += 1
        self.log.append(("copied", self.name, self.events))
        return self.events

    def wait_event(self, event):
        self.log.append(("wait", self.name, event))


@pytest.fixture
def fake_cuda(monkeypatch):
    """torch.cuda's streams, whose device is the CPU; the log of what is done on them, in order."""
    log = []
    active = [FakeStream(log, "current")]

    class Active:
        def __init__(self, stream):
            self.stream = stream

        def __enter__(self):
            active.append(self.stream)

        def __exit__(self, *_):
            active.pop()

    fake = SimpleNamespace(Stream=lambda device: FakeStream(log), stream=Active, current_stream=lambda _: active[0])
    monkeypatch.setattr("fastpipe.loading.device.torch.cuda", fake)
    real = torch.Tensor.to

    def to(tensor, *arguments, **options):
        if "non_blocking" in options:
            log.append(("copy", active[-1].name, len(tensor)))
        return real(tensor, *arguments, **options)

    monkeypatch.setattr(torch.Tensor, "to", to)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, by: log.append(("used by", by.name, len(tensor))))
    return log


class Batches:
    """A source of batches of 1, 2, … images; an exception among the lengths is raised."""

    def __init__(self, *lengths):
        self.left = list(lengths)

    @property
    def is_drained(self):
        return not self.left

    def __next__(self):
        if not self.left:
            raise StopIteration
        length = self.left.pop(0)
        if isinstance(length, BaseException):
            raise length
        return [torch.zeros(length)]


def test_copies_are_one_batch_ahead_on_a_stream_of_their_own(fake_cuda):
    batches = CopiedAhead(Batches(1, 2, 3), torch.device("cuda"))
    assert len(next(batches)[0]) == 1
    assert fake_cuda == [
        *[("copy", "side", 1), ("copied", "side", 1), ("copy", "side", 2), ("copied", "side", 2)],
        *[("wait", "current", 1), ("used by", "current", 1)],  # the training waits for its own batch alone
    ]
    del fake_cuda[:]
    assert len(next(batches)[0]) == 2
    assert fake_cuda == [
        *[("copy", "side", 3), ("copied", "side", 3), ("wait", "current", 2), ("used by", "current", 2)]
    ]
    assert len(next(batches)[0]) == 3
    with pytest.raises(StopIteration):
        next(batches)
    with pytest.raises(StopIteration):
        next(batches)


def test_a_batch_that_is_copied_ahead_is_not_handed_out(fake_cuda):
    source = Batches(1, 2, 3)
    batches = CopiedAhead(source, torch.device("cuda"))
    drained = []
    for _ in range(3):
        next(batches)
        drained.append((source.is_drained, batches.is_drained))
    assert drained == [(False, False), (True, False), (True, True)]


def test_an_error_comes_in_the_place_of_its_batch(fake_cuda):
    batches = CopiedAhead(Batches(1, 2, ValueError("bad"), 4), torch.device("cuda"))
    assert [len(next(batches)[0]) for _ in range(2)] == [1, 2]
    with pytest.raises(ValueError, match="bad"):
        next(batches)
    assert batches.is_drained


def test_an_interrupt_loses_no_batch(fake_cuda):
    batches = CopiedAhead(Batches(1, KeyboardInterrupt(), 2, 3), torch.device("cuda"))
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    assert [len(next(batches)[0]) for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("options", [{}, {"threads": 2}])
def test_an_epoch_ends_with_the_batch_that_is_handed_out_last(root, fake_cuda, monkeypatch, options):
    """By a loader of its own whose device is taken for a GPU."""
    dataset = fastpipe.ImageFolder(root, T.Compose(TRANSFORMS["normalised"]), seed=4)
    expected = batches(StockLoader, root, "normalised")
    monkeypatch.setattr("fastpipe.loading.iteration.on_device", lambda source, device: CopiedAhead(source, device))
    loader = fastpipe.DataLoader(dataset, batch_size=4, device="cpu", **options)
    ended, states, found = [], [], []
    for batch in loader:
        ended.append(loader._meter.ended is not None)
        states.append(loader.state_dict()["sampler"]["position"])
        found.append(batch)
    assert len(ended) == len(expected) == 4
    assert states[:3] == [4, 8, 12]
    for (images, targets), (theirs, labels) in zip(found, expected, strict=True):
        assert torch.equal(images, theirs)
        assert torch.equal(targets, labels)
    if options:  # torch's own iterator without workers knows the end only when it is asked for more
        assert ended == [False, False, False, True]
    assert ended[:3] == [False, False, False]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
@pytest.mark.parametrize("options", [{"num_workers": 2}, {"threads": 2}, {"num_workers": 1, "threads": 2}])
def test_on_a_gpu_copies_come_from_pinned_memory_on_their_own_stream(root, options):
    """By what torch's profiler saw of the device, while the training's stream is kept busy."""
    dataset = fastpipe.ImageFolder(root, T.Compose(TRANSFORMS["normalised"]), seed=4)
    loader = fastpipe.DataLoader(dataset, batch_size=4, device="cuda", **options)
    work = torch.ones(2048, 2048, device="cuda")
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for images, _ in loader:
            work = work @ work
            work[0, 0] += images.sum()
        torch.cuda.synchronize()
    events = profile.profiler.kineto_results.events()
    on_gpu = [event for event in events if event.device_type() == torch.autograd.DeviceType.CUDA]
    copies = [event for event in on_gpu if "Memcpy HtoD" in event.name()]
    products = {event.device_resource_id() for event in on_gpu if "gemm" in event.name().lower()}
    assert len(copies) >= len(loader)
    assert {event.name() for event in copies} == {"Memcpy HtoD (Pinned -> Device)"}
    assert products
    assert not products & {event.device_resource_id() for event in copies}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
@pytest.mark.parametrize("options", [{"num_workers": 2}, {"threads": 2}])
def test_on_a_gpu_batches_hold_while_memory_is_used_again(root, options):
    """Twenty epochs, beside a training that is slower than the loader: pinned and device memory come round."""
    dataset = fastpipe.ImageFolder(root, T.Compose(TRANSFORMS["normalised"]), seed=4)
    loader = fastpipe.DataLoader(dataset, batch_size=4, device="cuda", **options)
    stock = StockLoader(dataset, batch_size=4)
    work = torch.rand(2048, 2048, device="cuda")
    for epoch in range(20):
        loader.set_epoch(epoch)
        sums = []
        for images, _ in loader:
            for _ in range(5):
                work = torch.nn.functional.normalize(work @ work)
            sums.append(images.double().sum())  # queued behind the products, so read late
        dataset.set_epoch(epoch)
        expected = torch.stack([images.double().sum() for images, _ in stock])
        torch.testing.assert_close(torch.stack(sums).cpu(), expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_on_a_gpu_waits_are_nvtx_ranges(root, monkeypatch):
    """Each batch's is opened while NVTX's recorder of torch is on; Nsight Systems shows their names."""
    dataset = fastpipe.ImageFolder(root, T.Compose(TRANSFORMS["normalised"]))
    opened = []
    real = fastpipe.loading.iteration.record_function
    monkeypatch.setattr("fastpipe.loading.iteration.record_function", lambda name: opened.append(name) or real(name))
    loader = fastpipe.DataLoader(dataset, batch_size=4, device="cuda")
    with torch.autograd.profiler.emit_nvtx():
        count = len(list(loader))
    assert opened[:count] == [f"fastpipe: batch {number}" for number in range(count)]
