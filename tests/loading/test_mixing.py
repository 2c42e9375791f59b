"""Collate functions that are MixUp and CutMix: run ahead of time, with one worker's random numbers."""

from __future__ import annotations

import random
import sys
import warnings

import pytest
import torch
import torchvision_here
from loading.batches import dataset, epochs, equal
from torch.utils.data import default_collate

import fastpipe
from fastpipe.errors import FastpipeWarning
from fastpipe.loading.mixing import mixes_alone
from fastpipe.transforms import v2 as ours

theirs = torchvision_here.module("torchvision.transforms.v2")
pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="torch's worker, that it is compared with, starts slowly"
)

mix = theirs.RandomChoice([theirs.CutMix(num_classes=3), theirs.MixUp(alpha=0.4, num_classes=3)])


def starred(batch):
    """As torchvision's own example has it."""
    return mix(*default_collate(batch))


def named(samples):
    pictures, targets = torch.utils.data.default_collate(samples)
    return mix(pictures, targets)


def whole(batch):
    return mix(default_collate(batch))


def first(batch):
    batch = default_collate(batch)
    return mix(*batch)


def twice(batch):
    images, labels = default_collate(batch)
    images, labels = mix(images, labels)
    return images, labels


def with_what(mix):
    return lambda batch: mix(*default_collate(batch))


KNOWN = [starred, named, whole, first, twice, *map(with_what, [
    theirs.MixUp(num_classes=3), ours.CutMix(num_classes=3), ours.RandomChoice([ours.MixUp(num_classes=3)], p=[1.0]),
])]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("collate", KNOWN)
def test_batches_are_one_workers_and_made_ahead(root, collate, seed):
    expected = epochs(dataset(root, seed=seed), 3, num_workers=1, collate_fn=collate)
    for threads in (1, 3):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = epochs(dataset(root, seed=seed), 3, threads=threads, collate_fn=collate)
        assert equal(found, expected)
    assert any((labels % 1 != 0).any() for _, labels in found)


def test_the_global_generator_stays_where_it_is(root):
    loader = fastpipe.DataLoader(dataset(root), 3, threads=2, collate_fn=starred)
    batches = iter(loader)
    state = torch.get_rng_state()
    assert len(list(batches)) == 5
    assert torch.equal(torch.get_rng_state(), state)


def test_another_mix_is_noticed(root):
    """By the name that the function looks it up by."""
    values = {"mix": theirs.MixUp(num_classes=3), "default_collate": default_collate}
    exec("def collate(batch): return mix(*default_collate(batch))", values)
    loader = fastpipe.DataLoader(dataset(root), 3, threads=2, collate_fn=values["collate"])
    list(loader)
    values["mix"] = lambda images, labels: (images * random.random(), labels)
    with pytest.warns(FastpipeWarning, match="the collate_fn is Python code"):
        list(loader)


class Own(theirs.MixUp):
    def make_params(self, flat_inputs):
        return {"lam": random.random()}


def patched():
    one = theirs.MixUp(num_classes=3)
    one.make_params = lambda flat_inputs: {"lam": random.random()}
    return one


def of_the_labels(images, labels):
    return labels


def more(batch):
    images, labels = default_collate(batch)
    return mix(images * random.random(), labels)


def swapped(batch):
    images, labels = default_collate(batch)
    return mix(labels, images)


def otherwise(batch, mix=mix):
    return mix(*default_collate(batch))


def other_collate(batch):
    return mix(*fastpipe.collate_fn(batch))


def sometimes(batch):
    if batch is None:
        return random.random()
    return mix(*default_collate(batch))


def saved(batch):
    try:
        return mix(*default_collate(batch))
    except ValueError:
        return random.random()


def of_one(batch):
    return mix(*default_collate(batch[:1]))


def late(batch):
    yield mix(*default_collate(batch))


def nested(batch):
    return (lambda: mix(*default_collate(batch)))()


def test_what_is_not_known(root):
    functions = [more, swapped, otherwise, other_collate, sometimes, saved, of_one, late, nested]
    functions += [default_collate, mix, print, None]
    functions += map(with_what, [
        Own(num_classes=3), patched(), theirs.RandomChoice([theirs.MixUp(num_classes=3), Own(num_classes=3)]),
        theirs.MixUp(num_classes=3, labels_getter=of_the_labels), theirs.ColorJitter(0.5), print,
    ])  # fmt: skip
    assert not any(map(mixes_alone, functions))
    assert all(map(mixes_alone, KNOWN))
