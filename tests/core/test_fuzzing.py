"""The core's own fuzzers: that they run, and see what they are made to see. See tests/fuzz/README.md."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz import core as runner

RUN = Path(__file__).resolve().parents[1] / "fuzz/core.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(RUN), *arguments], capture_output=True, text=True)


@pytest.mark.needs_core
def test_a_share_of_the_inputs(tmp_path: Path) -> None:
    done = run("--count", "1000", "--seed", "77", "--processes", "2", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(next(tmp_path.glob("run-77-*.json")).read_text())
    assert report["inputs"] == report["decoded"] + report["refused"] == 1000
    assert report["decoded"] > 250
    assert report["found"] == 0
    assert "1,000 inputs in 1 runs" in run("--show", str(tmp_path)).stdout


@pytest.mark.needs_core
def test_a_wrong_pixel_and_a_crash_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = f"""if True:
        import os, sys
        sys.argv = ["core.py", "--count", "40", "--seed", "5", "--formats", "jpeg", "--processes", "2"]
        sys.argv += ["--out", {str(tmp_path)!r}]
        sys.path[:0] = [{str(RUN.parents[1])!r}]
        from fuzz import core as runner
        right, check = runner._pillow, runner.Checker.check
        def wrong(data):
            pixels = right(data)
            return None if pixels is None else pixels ^ 1
        runner._pillow = wrong
        def crashing(self, data, number):
            if number == 31:
                os.abort()
            return check(self, data, number)
        runner.Checker.check = crashing
        sys.exit(runner.main())
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "is up to 1 from Pillow" in done.stdout
    assert "input 31: it brings the process down (-6)" in done.stdout
    report = json.loads(next(tmp_path.glob("run-5-*.json")).read_text())
    assert report["inputs"] == 39
    assert report["found"] > 5
    assert (tmp_path / "5-31.jpeg").exists()


@pytest.mark.needs_core
def test_packed_images_that_are_decoded_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those whose damage the SHA-256 of the JPEG's own bytes sees: nearly all."""
    monkeypatch.setattr(runner, "same_coefficients", lambda jpeg, packed: False)
    checker = runner.Checker()
    checks = [checker.check(runner.damaged(7, number, ("packed",)), number) for number in range(150)]
    found = [bool(found) for found, outcome in checks if outcome == runner.DECODED]
    assert len(found) > 30
    assert sum(found) > 0.9 * len(found)


@pytest.mark.needs_core
def test_one_file(tmp_path: Path) -> None:
    path = tmp_path / "1-2.jpeg"
    path.write_bytes(b"\xff\xd8\xff")
    done = run("--file", str(path))
    assert done.returncode == 0
    assert "agrees with Pillow, or refuses" in done.stdout
