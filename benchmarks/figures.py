"""Figures of the benchmarks, taken from their JSON to docs/data: medians and speed-ups, without paths."""

from __future__ import annotations

import json
import platform
import re
import statistics
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from fastpipe.environment import library_versions, machine_fingerprint

DATA = Path(__file__).resolve().parents[1] / "docs" / "data"

KEPT = ("count", "workers", "threads", "images", "means")
"""The keys of a benchmark's JSON that are kept beside its rows."""

# By name in docs/data: the benchmark's file, and a pattern for the rows to keep, whose group is their name.
TAKEN: dict[str, tuple[str, str]] = {
    "untouched": ("untouched", r"([^:]+)"),
    "untouched_threads": ("untouched_threads", r"([^:]+)"),
    "untouched_workers": ("untouched_workers", r"([^:]+)"),
    "pipeline": ("pipeline", r"([^:]+)"),
    "loader": ("pipeline", r"loaders: (.+)"),
    "transforms": ("transforms", r"arrays, \w+: (.+), 375×500"),
    "png": ("png", r"png (.+)"),
    "imread": ("imread", r"(.+)"),
}
AS_THEY_ARE = ("index", "feeds")


def reduced(raw: Any, pattern: str) -> Any:
    """The medians of a benchmark's rows: microseconds, and speed-ups.

    If a contender is called fastpipe, `times` has its speed as a multiple of each other one's; else each one's as a
    multiple of the first one's.
    """
    rows = {}
    for name, row in raw["rows"].items():
        found, rounds = re.fullmatch(pattern, name), row["rounds_us"]
        if found is None:
            continue
        ours = rounds.get("fastpipe")
        first = next(iter(rounds.values()))
        rows[found[1]] = {
            who: {
                "us": statistics.median(own),
                "times": statistics.median(b / a for a, b in zip(ours or own, own if ours else first, strict=True)),
            }
            for who, own in rounds.items()
        }
    some = next(iter(raw["rows"].values()))["rounds_us"]
    return {"rounds": len(next(iter(some.values()))), "rows": rows, **{key: raw[key] for key in KEPT if key in raw}}


def take(folder: Path, note: str) -> list[str]:
    """Copies the shown figures of a folder's JSON to docs/data, with a note and without paths; returns the names."""
    machine = machine_fingerprint()
    versions = {**library_versions(), "python": platform.python_version()}
    versions |= {name: _version(name) for name in ("torch", "torchvision", "albumentations", "simplejpeg")}
    about = {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "machine": f"{machine['processor']}, {machine['cpus']} CPUs, {machine['system']}",
        "note": note,
        "versions": {name: versions[name] for name in sorted(versions) if versions[name]},
    }
    taken = []
    for name, (file, pattern) in {**TAKEN, **{name: (name, "") for name in AS_THEY_ARE}}.items():
        path = folder / f"{file}.json"
        if not path.exists():
            continue
        raw = json.loads(path.read_text(encoding="utf-8"))
        kept = reduced(raw, pattern) if pattern else raw
        if kept.get("rows", True):
            text = json.dumps(_rounded({"about": about, **kept}), indent=1, ensure_ascii=False)
            (DATA / f"{name}.json").write_text(text + "\n", encoding="utf-8")
            taken.append(name)
    return taken


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _rounded(value: Any) -> Any:
    """Rounds to four digits; more would be noise that changes every line at each refresh."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value


def read() -> dict[str, Any]:
    """Reads docs/data; returns its content by name."""
    return {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name in (*TAKEN, *AS_THEY_ARE)
        if (path := DATA / f"{name}.json").exists()
    }
