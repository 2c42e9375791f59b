"""A made result, so that reports are tested without measuring."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fastpipe.tools.bench.choose import choose
from fastpipe.tools.bench.measure import Measurement, ReaderResult, SampleSummary
from fastpipe.tools.bench.result import BenchResult
from fastpipe.tools.timing import Timing, summarize

ResultMaker = Callable[..., BenchResult]


@pytest.fixture(scope="session")
def make_result() -> ResultMaker:
    """``make_result(slow=1.0, wobble=0.01, rounds=5, workers=2)``: every time `slow` times as long, ± `wobble`."""

    def make(
        slow: float = 1.0, wobble: float = 0.01, rounds: int = 5, workers: int = 2, **readers: float
    ) -> BenchResult:
        def timing(median_us: float) -> Timing:
            steps = [(number - rounds // 2) / max(1, rounds // 2) for number in range(rounds)]
            return summarize([median_us * slow * (1 + wobble * step) for step in steps])

        def result(reader: str, request: str, us: float) -> ReaderResult:
            inside = timing(us * 1.2) if workers else None
            return ReaderResult(reader, "jpeg", request, True, 1.0, single=timing(us), workers=inside)

        times = {"pil": 3000.0, "cv2": 2000.0} | readers
        results = [result(reader, "full", us) for reader, us in times.items()]
        results += [result(reader, "region", us * 0.9) for reader, us in times.items()]
        results.append(ReaderResult("imageio", "jpeg", "full", False, 1.0, note="not <b>Pillow's</b> pixels & so on"))
        measurement = Measurement(
            results=tuple(results),
            images={"jpeg": SampleSummary(10, 98765.4)},
            workers=workers,
            rounds=rounds,
            machine={"system": "Linux", "architecture": "x86_64", "processor": "Made <CPU> & Co", "cpus": 8},
            versions={"fastpipe": "0.1.0", "pillow": "11.0", "python": "3.12.1", "torch": "2.6.0"},
            created="2026-01-02T03:04:05+00:00",
        )
        return BenchResult(
            measurement=measurement,
            choices=choose(measurement),
            notes=("the reader 'x' doesn't load here",),
        )

    return make
