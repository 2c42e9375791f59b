"""The measurement: what is checked before it is timed, in one process and in workers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fastpipe.errors import DecodeError, UnknownReaderError
from fastpipe.readers import Header, available_readers, get_reader, register_reader, registry
from fastpipe.readers.base import Pixels, Reader
from fastpipe.reporting.output import make_console
from fastpipe.tools.bench.measure import REQUESTS, box_asked_for, check_reader, measure
from fastpipe.tools.bench.result import reader_table
from fastpipe.tools.bench.samples import Sample, made_samples, sample_folder
from fastpipe.tools.timing import summarize


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    return made_samples(["jpeg", "png"], 3)


class _Other(Reader):
    """Pillow under another name, with one fault."""

    formats = frozenset({"JPEG"})
    proves = True

    def __init__(self, name: str) -> None:
        type(self).name = name
        self._pillow = get_reader("pil")

    def accepts(self, header: Header) -> bool:
        return header.format == "JPEG"

    def decode(self, data: bytes) -> Pixels:
        return self._pillow.decode(data)


class _OffByOne(_Other):
    def decode(self, data: bytes) -> Pixels:
        pixels = super().decode(data)
        pixels[0, 0, 0] ^= 1
        return pixels


class _Picky(_Other):
    def accepts(self, header: Header) -> bool:
        return header.format == "JPEG" and header.subsampling == "4:2:0"


class _Refusing(_Other):
    def decode(self, data: bytes) -> Pixels:
        raise DecodeError("<bytes>", "JPEG", self.name, "not today")


class _Crashing(_Other):
    def decode(self, data: bytes) -> Pixels:
        raise KeyError("boom")


class _WrongSize(_Other):
    def decode(self, data: bytes) -> Pixels:
        return super().decode(data)[:-1]


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_loaded", dict(registry._loaded))
    for kind in (_OffByOne, _Picky, _Refusing, _Crashing, _WrongSize):
        register_reader(kind(kind.__name__.strip("_").lower()))


@pytest.mark.needs_core
def test_one_process_and_workers(samples: list[Sample]) -> None:
    pytest.importorskip("imageio")
    steps: list[tuple[int, int, str]] = []
    measured = measure(samples, ["pil", "imageio"], workers=1, rounds=2, progress=lambda *step: steps.append(step))
    jpeg = {(result.reader, result.request): result for result in measured.results if result.format == "jpeg"}
    assert set(jpeg) == {(reader, request) for reader in ("pil", "imageio") for request in REQUESTS}
    for result in jpeg.values():
        assert result.exact, result.note
        assert result.single is not None
        assert result.workers is not None
        assert len(result.single.rounds_us) == len(result.workers.rounds_us) == 2
        assert result.single.median_us > 0
        assert result.workers.median_us > 0
    assert {format: samples.count for format, samples in measured.images.items()} == {"jpeg": 3, "png": 3}
    assert steps[-1][0] == steps[-1][1]


def test_without_workers(samples: list[Sample]) -> None:
    measured = measure(samples, ["pil"], workers=0, rounds=1)
    assert all(result.workers is None for result in measured.results)
    assert {result.request for result in measured.results if result.format == "png"} == {"full", "region"}


@pytest.mark.usefixtures("others")
def test_wrong_pixels_are_not_timed(samples: list[Sample]) -> None:
    measured = measure(samples, ["offbyone", "crashing", "pil"], workers=0, rounds=1)
    full = {result.reader: result for result in measured.of("jpeg", "full")}
    assert not full["offbyone"].exact
    assert full["offbyone"].single is None
    assert "3 of 3 images" in full["offbyone"].note
    assert "by up to 1/255" in full["offbyone"].note
    assert "KeyError: 'boom'" in full["crashing"].note
    assert full["pil"].single is not None


@pytest.mark.usefixtures("others")
@pytest.mark.needs_core
def test_pillow_s_answers_are_not_a_reader_s_own(samples: list[Sample]) -> None:
    jpegs, pngs = ([sample for sample in samples if sample.format == format] for format in ("jpeg", "png"))
    subsampled = [sample.header.subsampling == "4:2:0" for sample in jpegs]
    alone = [check_reader([sample], "full", get_reader("picky")) for sample in jpegs]
    assert [one is not None and one.decoded == 1 for one in alone] == subsampled
    picky = check_reader(jpegs, "full", get_reader("picky"))
    assert picky is not None
    assert picky.decoded == sum(subsampled) / len(jpegs)
    assert 0 < picky.decoded < 1
    assert check_reader(jpegs, "full", get_reader("refusing")) is None
    assert check_reader(pngs, "full", get_reader("picky")) is None


@pytest.mark.usefixtures("others")
def test_another_size_is_wrong(samples: list[Sample]) -> None:
    result = check_reader([sample for sample in samples if sample.format == "jpeg"], "full", get_reader("wrongsize"))
    assert result is not None
    assert not result.exact
    assert "in place of" in result.note


def test_what_the_requests_mean(samples: list[Sample]) -> None:
    sample = samples[0]
    assert box_asked_for(sample, "full") is None
    assert box_asked_for(sample, "region") == sample.box


def test_unknown_readers_are_refused_before_anything_is_measured(samples: list[Sample]) -> None:
    with pytest.raises(UnknownReaderError, match="nope"):
        measure(samples, ["pil", "nope"], workers=0, rounds=1)


def test_the_summary_is_the_median_and_half_the_interquartile_range() -> None:
    rounds = (5.0, 1.0, 2.0, 4.0, 100.0)
    timing = summarize(rounds)
    low, high = np.percentile(rounds, [25, 75])
    assert timing.median_us == np.median(rounds)
    assert timing.spread_us == (high - low) / 2
    assert timing.rounds_us == rounds
    assert summarize([3.0]).spread_us == 0
    assert summarize([3.0]).median_us == 3


def test_the_table(samples: list[Sample], capsys: pytest.CaptureFixture[str]) -> None:
    measured = measure(samples, ["pil"], workers=0, rounds=1)
    make_console().print(reader_table(measured, "jpeg"))
    printed = capsys.readouterr().out
    assert "jpeg: 3 images" in printed
    assert "\x1b" not in printed


def test_an_image_of_one_pixel(tmp_path: Path) -> None:
    Image.new("RGB", (1, 1), (200, 10, 10)).save(tmp_path / "tiny.jpg")
    measured = measure(sample_folder(tmp_path), available_readers(), workers=0, rounds=1)
    assert all(result.exact for result in measured.results), [result.note for result in measured.results]
    assert {"full", "region"} <= {result.request for result in measured.results if result.reader == "pil"}
