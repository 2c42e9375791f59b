"""Photos of many sizes, for the scripts that the hooks are tried on; and installed hooks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import corpus
import pytest
import torchvision_here

import fastpipe
from fastpipe.hooks.account_folder import remove_folder
from fastpipe.hooks.ledger import LEDGER
from fastpipe.hooks.packing_gain import DecodesToMeasure


@pytest.fixture(scope="module")
def photos(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """As many JPEGs as the module's COUNT, most of them of a size of their own."""
    root = tmp_path_factory.mktemp("photos")
    files = [root / f"{number}.jpg" for number in range(request.module.COUNT)]
    for number, file in enumerate(files):
        file.write_bytes(corpus.jpeg(130 + 7 * (number % 5), 170 - 9 * (number % 4), seed=number))
    return [str(file) for file in files]


@pytest.fixture(scope="module")
def photo(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A JPEG of 60×80 pixels."""
    path = tmp_path_factory.mktemp("photo") / "a.jpg"
    path.write_bytes(corpus.jpeg(60, 80))
    return str(path)


@pytest.fixture
def fresh_ledger(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An account of its own: no sites, no notes, and nothing that the child processes of other tests have written."""
    with monkeypatch.context() as fresh:
        empty = {"_sites": {}, "notes": {}, "_folder": None, "_owner": None, "decodes": DecodesToMeasure()}
        for name, value in empty.items():
            fresh.setattr(LEDGER, name, value)
        yield
        if LEDGER._owner is not None:
            remove_folder(LEDGER.folder(), LEDGER._owner)


@pytest.fixture
def varied_photos(tmp_path: Path) -> list[Path]:
    """JPEGs of several sizes and kinds, one of them of a single pixel."""
    sizes = [(61, 83), (40, 40), (97, 33), (1, 1), (224, 300)]
    paths = []
    for number, (height, width) in enumerate(sizes):
        paths.append(tmp_path / f"{number}.jpg")
        paths[-1].write_bytes(corpus.jpeg(height, width, ("444", "420", "gray")[number % 3], number))
    return paths


@pytest.fixture
def installed() -> Iterator[None]:
    """Installed hooks that check nothing."""
    with fastpipe.install(check=0):
        yield


@pytest.fixture
def hooks_without_checks(fresh_ledger: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Installed hooks that check nothing, and take images of any size; an account of its own."""
    torchvision_here.module("torchvision.io")  # imported by `tensor_files`
    monkeypatch.setattr("fastpipe.hooks.torchvision.tensor_files.LEAST_BYTES", 0)
    monkeypatch.setattr("fastpipe.hooks.torchvision.tensor_files.LEAST_PIXELS", 0)
    with fastpipe.install(check=0):
        yield
