"""Memory of batches: used again when nothing sees it, and never before."""

from __future__ import annotations

import gc
import multiprocessing
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from interrupts import is_interrupted

from fastpipe.memory import host_pool, shm_pool
from fastpipe.memory.host_pool import _KEPT, _free, reused

SHAPE = (4, 3, 300, 300)
SIZE = 2_000_000


@pytest.fixture(scope="module", autouse=True)
def nothing_else_to_collect() -> Iterator[None]:
    """Freezes the objects of other tests, which every collection would look through."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    gc.collect()
    _free.clear()


def test_the_memory_of_a_batch_that_is_gone_serves_again() -> None:
    first = reused(SHAPE, torch.float32)
    address = first.data_ptr()
    assert address % 64 == 0
    assert first.shape == SHAPE
    del first
    assert reused(SHAPE, torch.float32).data_ptr() == address


def test_a_batch_is_no_view() -> None:
    batch = reused(SHAPE, torch.float32).fill_(2)
    assert batch.is_contiguous()
    assert batch.detach_()[3, 2, 299, 299] == 2
    view = batch.view(-1)
    batch.requires_grad_()
    assert view.requires_grad  # as the batch's own, and not as that of some other tensor


@pytest.mark.parametrize(
    "kept",
    [
        lambda batch: batch,
        lambda batch: batch[2],
        lambda batch: batch[1].numpy()[0],
        lambda batch: memoryview(batch.numpy()),
        lambda batch: torch.utils.dlpack.to_dlpack(batch),
        lambda batch: batch.view(torch.int32),
        lambda batch: batch.detach().requires_grad_(),
        lambda batch: torch.nn.Parameter(batch),
    ],
    ids=["itself", "an image", "an array", "a buffer", "dlpack", "another type", "detached", "parameter"],
)
def test_what_anything_sees_is_never_used_again(kept: Any) -> None:
    batch = reused(SHAPE, torch.float32).fill_(7)
    address = batch.data_ptr()
    seen = kept(batch)
    del batch
    gc.collect()
    others = [reused(SHAPE, torch.float32).zero_() for _ in range(3)]
    assert address not in [other.data_ptr() for other in others]
    del seen, others


def test_few_pieces_are_kept_and_none_that_is_too_large() -> None:
    batches = [reused(SHAPE, torch.float32) for _ in range(_KEPT + 3)]
    batches.clear()
    assert len(_free) == _KEPT
    small = reused((3, 300, 300), torch.float32)  # less than half as large
    assert len(_free) == _KEPT
    assert small.shape == (3, 300, 300)


def test_no_line_of_pythons_runs_as_memory_is_given_back() -> None:
    """An exception there, as Ctrl-C's, would be ignored."""
    _free.clear()
    made = [reused((SIZE,), torch.uint8)]
    events: list[str] = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: events.append(f"{event} {frame.f_code.co_name}"))
    try:
        made.clear()
    finally:
        sys.setprofile(before)
    assert len(_free) == 1
    assert not [event for event in events if event.startswith("call")]


@pytest.mark.parametrize("pool", [host_pool, shm_pool], ids=["of the process", "of a worker"])
def test_a_batch_that_a_signal_takes_away_as_it_is_made(pool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is raised where it would be ignored and printed, and no memory is left in use for good."""
    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: ignored.append(repr(unraisable.exc_value)))

    opened = shm_pool._Opened(torch.zeros(1, dtype=torch.uint8))

    def made() -> torch.Tensor:
        if pool is host_pool:
            return reused((SIZE,), torch.uint8)
        return torch.from_numpy(opened.open(0, torch.zeros(8, dtype=torch.uint8), ()))

    lent, at = len(host_pool._lent), 1
    while is_interrupted(made, at, pool):
        assert not ignored, at
        assert len(host_pool._lent) == lent
        _free.clear()
        at += 1
    assert at > 3


MEGABYTES = 1_000_000


def lines_while(call: Callable[[], Any], at: int, then: Callable[[], None]) -> int:
    """Calls something, with something else before its `at`-th line in the pool; returns how many lines there were."""
    seen = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal seen
        if frame.f_code.co_filename != host_pool.__file__:
            return None
        if event == "line":
            seen += 1
            if seen == at:
                sys.settrace(None)
                then()
                sys.settrace(trace)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return seen


@pytest.mark.parametrize("what", ["given back", "taken", "taken and given back"])
def test_memory_that_is_given_back_or_taken_between_any_two_lines(what: str) -> None:
    """As the collector does, and a signal's handler."""

    def pieces(*megabytes: int) -> list[torch.Tensor]:
        return [reused((size * MEGABYTES,), torch.uint8) for size in megabytes]

    at, lines = 1, 1
    while at <= lines:
        _free.clear()
        kept = pieces(20, 8, 5, 3, 2)
        while len(kept) > 1:
            del kept[0]
        made: list[torch.Tensor] = []

        def then(kept: list[torch.Tensor] = kept, made: list[torch.Tensor] = made) -> None:
            if what != "given back":
                made.extend(pieces(8))
            if what != "taken":
                kept.clear()

        lines = lines_while(lambda made=made: made.extend(pieces(8)), at, then)  # type: ignore[misc]
        assert all(one.numel() == 8 * MEGABYTES for one in made)
        for number, one in enumerate(made):
            one.fill_(number)
        assert [int(one.max()) for one in made] == [*range(len(made))], "no two have the same memory"
        made.clear()
        kept.clear()
        assert len(_free) <= _KEPT
        at += 1
    assert at > 10


def test_threads_share_it() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(200):
            batch = reused(SHAPE, torch.float32).fill_(number)
            wrong.append(int((batch != number).sum()))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(wrong) == 0


def _child(batch: torch.Tensor, send: Any, go: Any) -> None:
    send.send("ready")
    go.wait()
    send.send(bool((batch == 7).all()))


@pytest.mark.needs_fork
def test_a_forked_child_keeps_what_it_saw() -> None:
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(False)
    go = context.Event()
    batch = reused(SHAPE, torch.float32)
    batch.fill_(7)
    child = context.Process(target=_child, args=(batch, send, go))
    child.start()
    assert receive.recv() == "ready"
    del batch
    gc.collect()
    for _ in range(3):
        reused(SHAPE, torch.float32).zero_()
    go.set()
    assert receive.recv() is True
    child.join()
