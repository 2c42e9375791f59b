"""What one run of ``fastpipe bench`` found, as a value, and the JSON that keeps it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fastpipe.errors import ConfigError
from fastpipe.reporting.output import rounded
from fastpipe.tools.bench.choose import Choice
from fastpipe.tools.bench.measure import Measurement, Result
from fastpipe.tools.bench.pipeline import PipelineResult
from fastpipe.tools.timing import Timing

SCHEMA = "fastpipe-bench/2"
"""Names the layout of the JSON; the number grows when a key changes its meaning, comes or goes."""


@dataclass(frozen=True, slots=True)
class Record:
    """One run."""

    command: tuple[str, ...]  # what repeats it, word by word, every default spelt out
    measurement: Measurement  # the readers'
    choices: Mapping[str, Choice]  # format to the reader that the measurement speaks for
    pipelines: tuple[PipelineResult, ...]  # fastpipe's and torchvision's; empty where these weren't measured
    platform: str  # the operating system, in words
    versions: Mapping[str, str]  # of all that decodes images, of Python and of torch
    notes: tuple[str, ...] = ()  # readers that don't load here, and what else a person should know

    @property
    def command_line(self) -> str:
        """The command as one types it."""
        return shlex.join(self.command)

    @property
    def machine(self) -> str:
        """The machine in a line."""
        machine = self.measurement.machine
        return f"{machine['processor'] or machine['architecture']}, {machine['cpus']} CPUs, {machine['system']}"

    @property
    def pipeline_formats(self) -> list[str]:
        """The formats whose pipelines were measured."""
        return list(dict.fromkeys(one.format for one in self.pipelines))

    def pipelines_of(self, format: str, pipeline: str) -> dict[str, PipelineResult]:
        """The results for one format and pipeline, by contender."""
        return {one.who: one for one in self.pipelines if (one.format, one.pipeline) == (format, pipeline)}


def to_json(record: Record) -> dict[str, Any]:
    """The record as plain values: schema, command, machine, versions, images, results, choices, pipelines.

    Times are in microseconds an image.
    """
    measurement = record.measurement
    return {
        "schema": SCHEMA,
        "created": measurement.created,
        "command": list(record.command),
        "machine": {**measurement.machine, "platform": record.platform},
        "versions": dict(record.versions),
        "workers": measurement.workers,
        "rounds": measurement.rounds,
        "formats": {
            format: {
                "images": count,
                "mean_bytes": round(measurement.bytes[format], 1),
                "digest": measurement.digests.get(format, ""),
            }
            for format, count in measurement.images.items()
        },
        "results": [rounded(asdict(result)) for result in measurement.results],
        "choices": {format: asdict(choice) for format, choice in record.choices.items()},
        "pipelines": [rounded(asdict(result)) for result in record.pipelines],
        "notes": list(record.notes),
    }


def read_record(path: str | Path) -> Record:
    """The record that ``fastpipe bench --json FILE`` wrote.

    Raises:
        ConfigError: the file can't be read, is no such record, or was written in another layout.
    """
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"can't read {path}: {error.strerror or error}") from error
    except ValueError as error:  # not UTF-8, or not JSON
        raise ConfigError(f"{path} is not JSON ({error}); give a file that `fastpipe bench --json` wrote") from error
    schema = values.get("schema") if isinstance(values, dict) else None
    if schema != SCHEMA:
        what = f"has the layout {schema!r}" if schema else "names no layout"
        raise ConfigError(
            f"{path} {what}, and this fastpipe reads {SCHEMA!r} only; measure again with `fastpipe bench --json`"
        )
    try:
        return _record(values)
    except (KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} is damaged ({type(error).__name__}: {error}); measure again") from error


def _record(values: dict[str, Any]) -> Record:
    machine = dict(values["machine"])
    system = machine.pop("platform")
    formats = values["formats"]
    return Record(
        command=tuple(values["command"]),
        measurement=Measurement(
            results=tuple(Result(**_with_timings(result)) for result in values["results"]),
            images={format: one["images"] for format, one in formats.items()},
            bytes={format: one["mean_bytes"] for format, one in formats.items()},
            digests={format: one["digest"] for format, one in formats.items()},
            workers=values["workers"],
            rounds=values["rounds"],
            machine=machine,
            versions=values["versions"],
            created=values["created"],
        ),
        choices={format: Choice(**one) for format, one in values["choices"].items()},
        pipelines=tuple(PipelineResult(**_with_timings(result)) for result in values["pipelines"]),
        platform=system,
        versions=values["versions"],
        notes=tuple(values["notes"]),
    )


def _with_timings(result: dict[str, Any]) -> dict[str, Any]:
    timings = {
        key: Timing(**{**result[key], "rounds_us": tuple(result[key]["rounds_us"])})
        for key in ("single", "workers")
        if result[key] is not None
    }
    return {**result, **timings}
