"""Batches of numpy arrays, and of tensors made of them: torch's own result, in memory that is used again."""

from __future__ import annotations

import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from plain_and_hooked import assert_as_plain, assert_same
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

import fastpipe
from fastpipe.memory import stacking
from fastpipe.memory.host_pool import SMALL, reused_bytes

cv2 = pytest.importorskip("cv2")

COUNT = 20
Pair = namedtuple("Pair", ["image", "heat"])


class Record(np.ndarray[Any, Any]):
    """A class of a user's that derives from numpy's."""


def large(index: int, *shape: int, dtype: Any = np.float32) -> Any:
    """An array whose batch is stacked in reused memory; another one for each index."""
    shape = shape or (3, 120, 120)
    return (np.arange(np.prod(shape)).reshape(shape) % 251 + index).astype(dtype)


def read_only(index: int) -> Any:
    array = large(index)
    array.flags.writeable = False
    return array


SAMPLES: dict[str, Callable[[int], Any]] = {
    "array": large,
    "tensor of an array": lambda index: torch.from_numpy(large(index)),
    "heat maps": lambda index: {
        "input": large(index, 120, 120, 3).transpose(2, 0, 1),
        "hm": large(index, 8, 64, 64),
        "reg_mask": np.ones(16, np.uint8),
        "ind": np.arange(16),
        "wh": np.zeros((16, 2), np.float32),
        "name": str(index),
    },
    "pairs": lambda index: Pair(large(index), [large(index, 2, 200, 200), (index, float(index))]),
    "ordered": lambda index: OrderedDict(b=large(index), a=torch.from_numpy(large(index, 65, 300))),
    "kinds": lambda index: [
        large(index, 300, 120, dtype=one)
        for one in (np.uint8, np.int8, np.int16, np.int32, np.int64, np.float16, np.float64, np.bool_, np.complex64)
    ],
    "unsigned": lambda index: [large(index, 300, 240, dtype=one) for one in (np.uint16, np.uint32, np.uint64)],
    "strided": lambda index: large(index, 240, 480)[::2, 5::3],
    "columns first": lambda index: np.asfortranarray(large(index)),
    "repeated": lambda index: np.broadcast_to(np.float32(index), (3, 120, 120)),
    "read only": read_only,
    "0-d": lambda index: (np.array(index), np.float32(index), np.array(1.5)),
    "none": lambda index: np.zeros((0, 4), np.float32),
    "of a user's class": lambda index: large(index).view(Record),
    "four dimensions": lambda index: large(index, 40, 30, 3, 10).transpose(3, 2, 0, 1),
    "as a view of one array": lambda index: WHOLE[index : index + 3],
    "turned": lambda index: torch.from_numpy(large(index, 120, 120, 3)).permute(2, 0, 1),
    "with gradients": lambda index: torch.from_numpy(large(index)).requires_grad_(),
    "conjugated": lambda index: torch.from_numpy(large(index, 300, 120, dtype=np.complex64)).conj(),
}
WRONG: dict[str, Callable[[int], Any]] = {
    "negative strides": lambda index: large(index)[:, ::-1],
    "objects": lambda index: np.array([index, None], object),
    "texts": lambda index: np.array(["a", "b"]),
    "of two shapes": lambda index: large(index, 3, 120, 120 + index % 2),
    "of two dtypes": lambda index: large(index, dtype=(np.float32, np.float64)[index % 2]),
    "in another byte order": lambda index: large(index).astype(">f4"),
    "of two lengths": lambda index: [large(index)] * (1 + index % 2),
    "sometimes none": lambda index: None if index % 2 else large(index),
    "with times": lambda index: np.zeros(3, "M8[s]"),
}
WHOLE = large(0, COUNT + 3, 200, 200)


class Arrays(Dataset[Any]):
    """Samples of a user's, one of whose files OpenCV has read."""

    def __init__(self, make: Callable[[int], Any], photo: str) -> None:
        self.make, self.photo = make, photo

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        assert cv2.imread(self.photo) is not None
        return self.make(index)


class Stream(IterableDataset[Any]):
    def __init__(self, make: Callable[[int], Any], photo: str) -> None:
        self.samples = Arrays(make, photo)

    def __iter__(self) -> Any:
        return (self.samples[index] for index in range(COUNT))


def positional(samples: list[Any]) -> Any:
    """As many repositories stack."""
    images, others = zip(*samples, strict=True)
    return (
        torch.stack(images, 0),
        torch.stack(tensors=[*others], dim=0),
        torch.stack(images, 1),
        torch.stack(images, -1),
    )


@pytest.fixture
def photo(tmp_path: Path) -> str:
    path = tmp_path / "photo.jpg"
    path.write_bytes(corpus.jpeg(20, 30))
    return str(path)


class TestAsTorch:
    @pytest.mark.parametrize("name", SAMPLES)
    def test_samples(self, photo: str, name: str) -> None:
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        assert_as_plain(Arrays(SAMPLES[name], photo))

    @pytest.mark.parametrize("name", WRONG)
    def test_errors(self, photo: str, name: str) -> None:
        assert error_of(Arrays(WRONG[name], photo)) == error_of(Arrays(WRONG[name], photo), hooked=True)

    @pytest.mark.slow
    def test_workers(self, photo: str) -> None:
        for name in ("heat maps", "pairs", "kinds", "turned", "0-d", "four dimensions"):
            assert_as_plain(Arrays(SAMPLES[name], photo), num_workers=2)

    def test_streams(self, photo: str) -> None:
        for name in ("heat maps", "turned"):
            assert_as_plain(Stream(SAMPLES[name], photo), shuffle=None)

    def test_functions_that_stack(self, photo: str) -> None:
        def sample(index: int) -> Any:
            return torch.from_numpy(large(index)), torch.from_numpy(large(index, 200, 120, dtype=np.int64))

        assert_as_plain(Arrays(sample, photo), collate_fn=positional)

    def test_calls_without_a_loader(self, photo: str) -> None:
        samples = [SAMPLES["heat maps"](index) for index in range(4)]
        expected = default_collate(samples)
        with fastpipe.install():
            assert cv2.imread(photo) is not None
            assert_same(default_collate(samples), expected)


@pytest.mark.needs_core
class TestMemory:
    def test_a_batch_is_a_copy(self, photo: str) -> None:
        samples = [large(index) for index in range(COUNT)]
        with fastpipe.install():
            for batch in DataLoader(Arrays(samples.__getitem__, photo), 10):
                assert not any(np.shares_memory(batch.numpy(), one) for one in samples)
                batch.zero_()
        assert all(np.array_equal(one, large(index)) for index, one in enumerate(samples))

    @pytest.mark.parametrize("collate", [default_collate, lambda samples: torch.stack(samples, 0)])
    def test_memory_is_used_again(self, photo: str, collate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        lent: list[int] = []
        monkeypatch.setattr(stacking, "reused_bytes", lambda size: lent.append(size) or reused_bytes(size))
        with fastpipe.install():
            for _ in DataLoader(Arrays(SAMPLES["tensor of an array"], photo), 10, collate_fn=collate):
                pass
        assert lent == [10 * large(0).nbytes] * 2
        assert lent[0] > SMALL

    def test_batches_that_are_kept_stay(self, photo: str) -> None:
        with fastpipe.install():
            batches = [*DataLoader(Arrays(large, photo), 5)]
        whole = torch.cat(batches).numpy()
        assert np.array_equal(whole, np.stack([large(index) for index in range(COUNT)]))


def error_of(dataset: Any, hooked: bool = False) -> tuple[type, str]:
    """The error of the first batch, or its dtype where torch can make it."""
    try:
        if hooked:
            with fastpipe.install():
                batch = next(iter(DataLoader(dataset, 8)))
        else:
            batch = next(iter(DataLoader(dataset, 8)))
    except Exception as error:  # whatever torch raises
        return type(error), str(error)
    return type(batch), str(batch)
