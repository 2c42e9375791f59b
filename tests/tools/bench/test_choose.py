"""The choice, on made measurements."""

from __future__ import annotations

import pytest

from fastpipe.config import MachineConfig
from fastpipe.environment import library_versions, machine_fingerprint
from fastpipe.tools.bench.choose import choose, to_config
from fastpipe.tools.bench.measure import Measurement, ReaderResult, SampleSummary
from fastpipe.tools.timing import Timing


def timing(median: float, spread: float = 1.0) -> Timing:
    return Timing(median, spread, (median,))


def result(
    reader: str,
    region: float | None,
    single: float = 500.0,
    *,
    format: str = "jpeg",
    spread: float = 1.0,
    decoded: float = 1.0,
    exact: bool = True,
    request: str = "region",
) -> ReaderResult:
    crowded = None if region is None else timing(region, spread)
    return ReaderResult(reader, format, request, exact, decoded, single=timing(single), workers=crowded)


def measurement(*results: ReaderResult, workers: int = 4) -> Measurement:
    return Measurement(
        results,
        images={one.format: SampleSummary(10, 1000.0) for one in results},
        workers=workers,
        rounds=5,
        machine=machine_fingerprint(),
        versions=library_versions(),
        created="2026-01-01T00:00:00+00:00",
    )


def test_the_fastest_under_workers_wins() -> None:
    # Alone, Pillow would win; a reader is chosen under the concurrency that it will run in.
    choice = choose(measurement(result("cv2", 700, single=900), result("pil", 1000, single=600)))["jpeg"]
    assert choice.reader == "cv2"
    assert "700 µs" in choice.reason
    assert "pil with 1,000 µs" in choice.reason


def test_without_workers_one_process_decides() -> None:
    made = measurement(result("cv2", None, single=900), result("pil", None, single=600), workers=0)
    assert choose(made)["jpeg"].reader == "pil"


def test_only_regions_decide() -> None:
    made = measurement(
        *(result("cv2", 100, request=request) for request in ("full",)), result("cv2", 900), result("pil", 500)
    )
    assert choose(made)["jpeg"].reader == "pil"


@pytest.mark.parametrize("request_", ["full", "region"])
def test_wrong_pixels_are_out(request_: str) -> None:
    made = measurement(result("cv2", 100), result("pil", 500), result("cv2", None, exact=False, request=request_))
    assert choose(made)["jpeg"].reader == "pil"


def test_each_format_has_its_own() -> None:
    made = measurement(
        *(result("cv2", 100), result("pil", 500)),
        *(result("cv2", 500, format="png"), result("pil", 100, format="png")),
    )
    assert {name: choice.reader for name, choice in choose(made).items()} == {"jpeg": "cv2", "png": "pil"}


@pytest.mark.needs_core
@pytest.mark.parametrize(("apart", "spread"), [(2.0, 0.0), (9.0, 5.0)])
def test_a_tie_goes_to_the_reader_with_regions(apart: float, spread: float) -> None:
    made = measurement(result("cv2", 100, spread=spread), result("core", 100 + apart, spread=spread))
    choice = choose(made)["jpeg"]
    assert choice.reader == "core"
    assert "as fast within the spread as cv2" in choice.reason


def test_a_tie_goes_to_the_larger_share_then_to_pillow() -> None:
    assert choose(measurement(result("cv2", 100, decoded=0.5), result("pil", 101)))["jpeg"].reader == "pil"
    assert choose(measurement(result("cv2", 100), result("pil", 101)))["jpeg"].reader == "pil"
    assert choose(measurement(result("cv2", 100), result("pil", 110)))["jpeg"].reader == "cv2"


def test_a_format_without_times_is_left_open() -> None:
    assert choose(measurement(result("cv2", None, exact=False))) == {}


def test_the_config_holds_the_choice_and_its_figures() -> None:
    made = measurement(result("cv2", 700.04), result("pil", 1000))
    config = to_config(made, choose(made))
    assert config.readers == {"jpeg": "cv2"}
    assert config.measured == {"jpeg": {"cv2": 700.0, "pil": 1000}}
    assert config.mismatches() == ()


def test_formats_that_were_not_measured_are_kept_where_they_still_hold() -> None:
    made = measurement(result("cv2", 700))
    earlier = MachineConfig(readers={"jpeg": "pil", "png": "pil"}, machine=machine_fingerprint())
    assert to_config(made, choose(made), earlier).readers == {"jpeg": "cv2", "png": "pil"}
    foreign = MachineConfig(readers={"png": "pil"}, machine={"cpus": -1})
    assert to_config(made, choose(made), foreign).readers == {"jpeg": "cv2"}
