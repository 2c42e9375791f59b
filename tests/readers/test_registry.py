"""Which readers there are, how one is added, and what is said where one is missing."""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import types
from importlib import metadata
from typing import Any

import corpus
import numpy as np
import pytest

from fastpipe import core, readers
from fastpipe.errors import DecodeError, FastpipeWarning, ReaderError, ReaderUnavailableError, UnknownReaderError
from fastpipe.readers import registry


@pytest.fixture
def _clean_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test registers into copies of the tables."""
    for table in ("_loaded", "_failed"):
        monkeypatch.setattr(registry, table, dict(getattr(registry, table)))
    monkeypatch.setattr(registry, "_plugins", functools.cache(registry._plugins.__wrapped__))


class Inverting(readers.Reader):
    """Pixels that nothing else gives, to see who decoded."""

    name = "inverting"
    formats = frozenset({"JPEG"})
    proves = True

    def accepts(self, header: readers.Header) -> bool:
        return header.format == "JPEG"

    def decode(self, data: bytes) -> np.ndarray:
        return 255 - readers.get_reader("pil").decode(data)


def test_names_are_sorted_and_pil_is_always_there() -> None:
    names = readers.available_readers()
    assert names == sorted(names)
    assert "pil" in names
    assert ("core" in names) == core.available()
    assert readers.__all__ == sorted(readers.__all__)
    assert all(hasattr(readers, name) for name in readers.__all__)


def test_every_status_has_a_version_or_a_reason() -> None:
    for name, status in readers.reader_status().items():
        assert status.name == name
        assert bool(status.version) == status.available
        assert bool(status.reason) != status.available
        assert status.available or name == "core" or "pip install" in status.reason


def test_an_unknown_reader_lists_the_known_ones() -> None:
    with pytest.raises(UnknownReaderError, match=r"'turbo'.*cv2.*pil.*turbojpeg"):
        readers.read_image(corpus.files()["jpeg-420"], reader="turbo")


@pytest.mark.usefixtures("_clean_registry")
def test_a_reader_that_does_not_load_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._BUILT_IN, "absent", ("no_such_module_at_all:Reader", "pip install absent"))
    with pytest.raises(ReaderUnavailableError, match=r"'absent'.*no_such_module_at_all.*pip install absent"):
        readers.read_image(corpus.files()["jpeg-420"], reader="absent")
    assert "absent" not in readers.available_readers()
    assert "pip install absent" in readers.reader_status()["absent"].reason


@pytest.mark.usefixtures("_clean_registry")
def test_a_registered_reader_is_used_where_it_reads_the_format() -> None:
    readers.register_reader(Inverting())
    assert "inverting" in readers.available_readers()
    inverted = readers.read_image(corpus.files()["jpeg-420"], reader="inverting")
    np.testing.assert_array_equal(255 - inverted, corpus.reference("jpeg-420"))
    # Not a format of its own: Pillow reads it.
    np.testing.assert_array_equal(
        readers.read_image(corpus.files()["png-rgb"], reader="inverting"), corpus.reference("png-rgb")
    )
    region = readers.read_image(corpus.files()["jpeg-420"], reader="inverting", region=(3, 5, 20, 30))
    np.testing.assert_array_equal(255 - region, corpus.reference("jpeg-420")[3:23, 5:35])


@pytest.mark.needs_core
@pytest.mark.usefixtures("_clean_registry")
def test_a_registered_reader_gets_files_that_are_plain_and_whole() -> None:
    asked: list[bytes] = []

    class Noting(readers.Reader):
        name = "noting"
        formats = frozenset({"JPEG", "PNG", "WEBP"})

        def decode(self, data: bytes) -> np.ndarray:
            asked.append(data)
            return readers.get_reader("pil").decode(data)

    readers.register_reader(Noting())
    whole = ["jpeg-420", "jpeg-gray", "jpeg-restart-rows", "webp"]
    for name in [*whole, "jpeg-420-cut-half", "jpeg-420-marker-inside", "jpeg-progressive", "jpeg-cmyk", "png-rgb"]:
        expected = corpus.reference(name)
        if expected is None:
            with pytest.raises(DecodeError):
                readers.read_image(corpus.files()[name], reader="noting")
        else:
            np.testing.assert_array_equal(readers.read_image(corpus.files()[name], reader="noting"), expected)
    assert asked == [corpus.files()[name] for name in whole]


@pytest.mark.parametrize("region", [None, (3, 5, 20, 30)])
@pytest.mark.usefixtures("_clean_registry")
def test_pixels_of_another_size_or_type_are_not_taken(region: tuple[int, int, int, int] | None) -> None:
    expected = corpus.reference("jpeg-420")
    for number, wrong in enumerate((expected[:10], expected[..., :1], expected.astype(np.uint16))):

        class Odd(Inverting):
            name = f"odd-{number}"

            def decode(self, data: bytes, wrong: np.ndarray = wrong) -> np.ndarray:
                return wrong

        readers.register_reader(Odd())
        with pytest.warns(FastpipeWarning, match=f"the reader '{Odd.name}' gave uint"):
            pixels = readers.read_image(corpus.files()["jpeg-420"], reader=Odd.name, region=region)
        top, left, height, width = region or (0, 0, *expected.shape[:2])
        np.testing.assert_array_equal(pixels, expected[top : top + height, left : left + width])


@pytest.mark.usefixtures("_clean_registry")
def test_a_readers_bug_is_warned_about_and_pillow_reads() -> None:
    class Buggy(Inverting):
        name = "buggy"

        def decode(self, *args: Any, **options: Any) -> np.ndarray:
            raise KeyError("a bug")

    readers.register_reader(Buggy())
    with pytest.warns(FastpipeWarning, match=r"'buggy'.*KeyError.*a bug"):
        pixels = readers.read_image(corpus.files()["jpeg-420"], reader="buggy")
    np.testing.assert_array_equal(pixels, corpus.reference("jpeg-420"))


@pytest.mark.usefixtures("_clean_registry")
def test_what_is_no_reader_is_not_registered() -> None:
    with pytest.raises(TypeError, match=r"instance of fastpipe\.readers\.Reader"):
        readers.register_reader(Inverting)

    class Taken(Inverting):
        name = "pil"

    with pytest.raises(ReaderError, match="built-in"):
        readers.register_reader(Taken())


@pytest.mark.usefixtures("_clean_registry")
def test_entry_points_are_found_and_loaded_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("a_readers_package")
    module.Inverting = Inverting
    monkeypatch.setitem(sys.modules, "a_readers_package", module)
    points = [
        metadata.EntryPoint("inverting", "a_readers_package:Inverting", "fastpipe.readers"),
        metadata.EntryPoint("broken", "a_package_that_is_not_there:Reader", "fastpipe.readers"),
    ]
    monkeypatch.setattr(metadata, "entry_points", lambda group: points if group == "fastpipe.readers" else [])
    assert readers.get_reader("inverting").name == "inverting"
    with pytest.warns(FastpipeWarning, match=r"'broken'.*a_package_that_is_not_there"):
        status = readers.reader_status()
    assert status["inverting"].available
    assert not status["broken"].available
    assert "a_package_that_is_not_there" in status["broken"].reason


@pytest.mark.usefixtures("_clean_registry")
def test_the_config_chooses_and_the_argument_wins() -> None:
    class Choice:
        def reader_for(self, format: str) -> str | None:
            return "inverting" if format == "JPEG" else None

    readers.register_reader(Inverting())
    data, expected = corpus.files()["jpeg-420"], corpus.reference("jpeg-420")
    np.testing.assert_array_equal(255 - readers.read_image(data, config=Choice()), expected)
    np.testing.assert_array_equal(readers.read_image(data, config=Choice(), reader="pil"), expected)


def test_defaults_end_with_the_reader_of_everything() -> None:
    for format in ("JPEG", "MPO", "PNG", "WEBP", "TIFF", "no such format"):
        assert readers.default_order(format)[-1] == "pil"


@pytest.mark.needs_fork
@pytest.mark.usefixtures("_clean_registry")
def test_a_process_that_is_forked_while_a_thread_loads_a_reader_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slowly(name: str) -> readers.Reader:
        begun.set()
        go_on.wait(10)
        return Inverting()

    monkeypatch.setattr(registry, "_load", slowly)
    monkeypatch.setattr(registry, "_plugins", lambda: {"inverting": "a_module:Inverting"})
    loading = threading.Thread(target=readers.get_reader, args=["inverting"])
    loading.start()
    begun.wait(10)
    threading.Timer(0.2, go_on.set).start()
    if not (child := os.fork()):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)  # ends a child that waits for a thread which it doesn't have
        os._exit(0 if readers.get_reader("inverting").name == "inverting" else 1)
    assert os.waitpid(child, 0)[1] == 0
    loading.join()
