"""A program that forks while threads make batches."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from pathlib import Path

import pytest
from loading.batches import dataset, equal

import fastpipe
from fastpipe.errors import LoaderError

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.needs_fork

CHILD = """if True:
    import multiprocessing, sys, time
    import torch, fastpipe
    from fastpipe import transforms as T

    def look(images, result):
        sums = {float(images.double().sum())}
        for _ in range(40):
            time.sleep(0.01)
            sums.add(float(images.double().sum()))
        result.put(sums)

    if __name__ == "__main__":
        data = fastpipe.ImageFolder(sys.argv[1], T.Compose([T.RandomResizedCrop(256), T.ToTensor()]), seed=1)
        fork = multiprocessing.get_context("fork")
        for options in ({"num_workers": 2}, {"threads": 2}, {}):
            loader = fastpipe.DataLoader(data, 4, shuffle=True, **options)
            result, children, right = fork.SimpleQueue(), [], []
            for epoch in range(12):
                for images, _ in loader:
                    if epoch < 3 and len(children) <= epoch:
                        right.append(float(images.double().sum()))
                        children.append(fork.Process(target=look, args=(images, result)))
                        children[-1].start()
            found = [result.get() for _ in children]
            for child in children:
                child.join()
            assert all(len(sums) == 1 for sums in found), (options, found)
            assert sorted(one for sums in found for one in sums) == sorted(right), options
            print("right")
            loader = images = None
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_what_a_forked_child_holds_never_changes(root):
    command = [sys.executable, "-W", "ignore", "-c", CHILD, str(root)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (0, "right\n" * 3), done.stderr


def test_in_a_child_of_fork(root):
    """The iteration that was begun says that it can't go on; another one works, and nothing is left."""
    loader = fastpipe.DataLoader(dataset(root, seed=3), 3, threads=2)
    batches = iter(loader)
    next(batches)
    expected = [[part.clone() for part in batch] for batch in fastpipe.DataLoader(dataset(root, seed=3), 3)]

    def child(result):
        try:
            next(batches)
        except LoaderError as error:
            loader.set_epoch(0)
            result.put("fork" in str(error) and equal([list(batch) for batch in loader], expected))

    context = multiprocessing.get_context("fork")
    result = context.SimpleQueue()
    process = context.Process(target=child, args=(result,))
    process.start()
    assert result.get()
    process.join(30)
    assert process.exitcode == 0
    assert len(list(batches)) == len(expected) - 1


def test_workers_are_forked_while_batches_are_made(root):
    loader = fastpipe.DataLoader(dataset(root, seed=3), 3, threads=3)
    expected = [[part.clone() for part in batch] for batch in fastpipe.DataLoader(dataset(root, seed=3), 3)]
    for _ in range(5):
        batches = iter(loader)
        next(batches)
        others = fastpipe.DataLoader(dataset(root, seed=3), 3, num_workers=2, multiprocessing_context="fork")
        assert equal([list(batch) for batch in others], expected)
        list(batches)
