"""The record of one run of ``fastpipe bench``, and its JSON."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fastpipe.reporting.output import round_times
from fastpipe.tools.bench.choose import Choice
from fastpipe.tools.bench.measure import Measurement
from fastpipe.tools.bench.pipeline import PipelineResult

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
        "results": [round_times(asdict(result)) for result in measurement.results],
        "choices": {format: asdict(choice) for format, choice in record.choices.items()},
        "pipelines": [round_times(asdict(result)) for result in record.pipelines],
        "notes": list(record.notes),
    }
