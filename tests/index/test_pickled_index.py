"""A dataset that was pickled opens again, although its folder has changed and its index was written anew since."""

from __future__ import annotations

import os
import pickle
import time
from pathlib import Path

import corpus
import pytest

import fastpipe


def _age(folder: Path, days: float) -> None:
    then = time.time() - days * 86400
    for file in folder.iterdir():
        os.utime(file, (then, then))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("a", "c"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        (tmp_path / "photos" / name / "0.jpg").write_bytes(corpus.jpeg(20, 30))
    return tmp_path / "photos"


def _change(root: Path, index: Path, name: str) -> None:
    """Changes the folder, so that its index is written anew; one that was opened for that is left until the next."""
    (root / name).mkdir()
    (root / name / "0.jpg").write_bytes(corpus.jpeg(20, 30))
    assert name in fastpipe.ImageFolder(root, index=index).classes


def test_a_dataset_pickled_before_and_opened_after_the_index_is_written_anew(root: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    dataset = fastpipe.ImageFolder(root, index=index)
    samples, kept = list(dataset.samples), pickle.dumps(dataset)
    assert len(kept) < 5000
    _change(root, index, "b")
    for file in index.glob("*.index"):
        os.utime(file, (time.time() - 3 * 86400,) * 2)
    _change(root, index, "d")
    again = pickle.loads(kept)
    assert list(again.samples) == samples
    assert again.classes == ["a", "c"]


def test_a_dataset_pickled_after_its_index_is_gone(root: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    dataset = fastpipe.ImageFolder(root, index=index)
    assert dataset.index is not None
    samples = list(dataset.samples)
    _change(root, index, "b")
    _age(index, 3)
    _change(root, index, "d")
    assert not (index / f"{dataset.index.generation}.index").exists()
    assert list(pickle.loads(pickle.dumps(dataset)).samples) == samples
    assert not list(index.glob("*.pickled"))


def test_what_nobody_pickled_for_a_month_is_removed(root: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    dataset = fastpipe.ImageFolder(root, index=index)
    assert dataset.index is not None
    first = index / f"{dataset.index.generation}.index"
    pickle.dumps(dataset)
    _change(root, index, "b")
    for days, name, is_left in ((29, "d", True), (31, "e", False)):
        _age(index, days)
        _change(root, index, name)
        assert first.exists() == is_left
    assert not list(index.glob("*.pickled"))
