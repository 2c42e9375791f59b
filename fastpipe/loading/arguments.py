"""Checks of what `fastpipe.DataLoader` is given: its arguments, and a state to go on from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch

from fastpipe.environment import usable_cpus
from fastpipe.errors import DatasetError


def threads_of_each(threads: int | Literal["auto"] | None, workers: int) -> int | None:
    """The threads that decode a batch in each process; "auto" shares the CPUs between the processes.

    Raises:
        DatasetError: a negative number, or another word.
    """
    count: Any = max(1, usable_cpus() // max(workers, 1)) if threads == "auto" else threads
    if count is not None and (isinstance(count, str) or count < 0):
        raise DatasetError(f'threads={count!r}: give the number of threads that decode a batch, 0 or "auto".')
    chosen: int | None = count
    return chosen


def check_output(
    device: torch.device | str | None, dtype: torch.dtype | None, memory_format: torch.memory_format
) -> None:
    """Raises a DatasetError where batches can't be made in a dtype or memory format, or can't be on a device."""
    if dtype is not None and not dtype.is_floating_point:
        raise DatasetError(f"dtype={dtype}: give a floating dtype; for uint8 images end the transform in PILToTensor.")
    if memory_format not in (torch.contiguous_format, torch.channels_last):
        raise DatasetError(f"memory_format={memory_format}: give torch.contiguous_format or torch.channels_last.")
    if device is not None and torch.device(device).type == "cuda" and not torch.cuda.is_available():
        lacks = "CUDA" if torch.version.cuda is None else "a GPU"
        raise DatasetError(
            f"device={str(device)!r}: this torch ({torch.__version__}) is without {lacks}. Leave device out, or "
            "install torch for this GPU's driver."
        )


def check_state(state: Any) -> None:
    """Raises a DatasetError, which says what was given, where a state is none of `DataLoader.state_dict`'s."""
    if _is_state(state):
        return
    what = f"a {type(state).__name__}"
    there: list[str] = []
    if isinstance(state, Mapping):
        what = f"a dict with {', '.join(map(repr, state)) or 'nothing in it'}"
        there = [repr(name) for name, value in state.items() if _is_state(value)]
    cure = f": state[{there[0]}] is one" if len(there) == 1 else ""
    raise DatasetError(f"load_state_dict got {what}, and takes what DataLoader.state_dict() returned{cure}.")


def _is_state(value: Any) -> bool:
    """Whether something is what `DataLoader.state_dict` gives."""
    return isinstance(value, Mapping) and isinstance(value.get("sampler"), Mapping) and "epoch" in value["sampler"]
