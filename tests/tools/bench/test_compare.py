"""What counts as a change."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fastpipe.reporting.output import make_console
from fastpipe.tools.bench.compare import compare, comparison_json
from fastpipe.tools.bench.report import print_comparison


def verdicts(before, after) -> dict[tuple[str, str, str], str]:
    found = compare(before, after)
    return {(change.who, change.what, change.place): change.verdict for change in found.changes}


def test_the_same_is_no_change(make_record) -> None:
    found = compare(make_record(), make_record())
    assert {change.verdict for change in found.changes} == {"no change"}
    assert found.differences == found.missing == ()
    assert found.drift == 0
    # readers × requests × places, and contenders × pipelines × places
    assert len(found.changes) == 2 * 2 * 2 + 2 * 3 * 2


def test_one_reader_that_grew_faster(make_record) -> None:
    before, after = make_record(), make_record(cv2=1500.0)
    found = verdicts(before, after)
    assert {verdict for (who, *_), verdict in found.items() if who == "cv2"} == {"faster"}
    assert {verdict for (who, *_), verdict in found.items() if who != "cv2"} == {"no change"}
    assert {found for (who, *_), found in verdicts(after, before).items() if who == "cv2"} == {"slower"}
    change = next(change for change in compare(before, after).changes if change.who == "cv2")
    assert change.ratio == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("change", "wobble", "verdict"),
    [(1.02, 0.0, "no change"), (1.04, 0.0, "slower"), (1.04, 0.05, "no change"), (0.8, 0.05, "faster")],
)
def test_a_change_is_more_than_the_spread(make_record, change: float, wobble: float, verdict: str) -> None:
    before, after = make_record(wobble=wobble), make_record(wobble=wobble, cv2=2000.0 * change)
    assert verdicts(before, after)["cv2", "full", "single"] == verdict


def test_a_machine_that_is_slower_today_changed_no_reader(make_record) -> None:
    before, after = make_record(), make_record(slow=1.2, cv2=3000.0)
    found = compare(before, after)
    assert found.drift == pytest.approx(0.2)
    by_reader = {change.who: change.verdict for change in found.changes}
    assert by_reader["pil"] == "no change"
    assert by_reader["cv2"] == "slower"


def test_another_machine_s_difference_is_no_drift(make_record, elsewhere) -> None:
    found = compare(make_record(), elsewhere)
    assert found.drift == 0
    assert {change.verdict for change in found.changes} == {"faster"}
    assert "cpus: 8 → 96" in found.differences
    assert "pillow: 11.0 → 12.0" in found.differences
    assert any(line.startswith("jpeg images: 10 of 99 kB (0123") for line in found.differences)


def test_too_few_rounds_are_no_verdict(make_record) -> None:
    found = compare(make_record(rounds=2), make_record(slow=3))
    assert {change.verdict for change in found.changes} == {"too few rounds"}
    assert "rounds: 2 → 5" in found.differences


def test_what_only_one_run_has(make_record) -> None:
    before, after = make_record(turbojpeg=1000.0), replace(make_record(workers=0), pipelines=())
    found = compare(before, after)
    assert "measured only before: turbojpeg, jpeg: whole image; region" in found.missing
    assert "measured only before: torchvision, jpeg: train, uint8; train, float; evaluation, float" in found.missing
    assert {change.place for change in found.changes} == {"single"}
    assert "DataLoader workers: 2 → 0" in found.differences
    assert "measured before with: fastpipe bench 'my photos/<train>' --workers=2" in found.differences


def test_other_workers_are_said_beside_the_figures(make_record, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = make_record(), make_record(workers=1)
    print_comparison(make_console(), compare(before, after))
    assert "| in workers (2 → 1) |" in capsys.readouterr().out


def test_nothing_in_common(make_record, capsys: pytest.CaptureFixture[str]) -> None:
    before = make_record()
    measurement = replace(before.measurement, results=())
    after = replace(before, measurement=measurement, pipelines=())
    found = compare(before, after)
    print_comparison(make_console(), found)
    assert "nothing in common" in capsys.readouterr().out


def test_as_text_and_as_json(make_record, elsewhere, capsys: pytest.CaptureFixture[str]) -> None:
    before = make_record()
    found = compare(before, elsewhere)
    print_comparison(make_console(), found)
    printed = capsys.readouterr().out
    assert "before: 2026-01-02T03:04:05+00:00, Made <CPU> & Co, 8 CPUs" in printed
    assert "after/before" in printed
    assert "cpus: 8 → 96" in printed
    assert "20 faster" in printed
    assert "\x1b" not in printed
    values = json.loads(json.dumps(comparison_json(found)))
    assert values["changes"][0]["ratio"] == 0.5
    assert values["changes"][0]["before"] == {"median_us": 3000.0, "spread_us": 15.0}
