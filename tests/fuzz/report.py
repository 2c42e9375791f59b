"""The outcome of a run of the fuzzer: figures for each reader and format, as text and as JSON."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fuzz.worker import FIELDS, places

import fastpipe
from fastpipe import readers

_CODE = Path(readers.__file__).parent


@dataclass(frozen=True)
class Finding:
    """One thing wrong with one input.

    Attributes:
        number: of the input; -1 for an undamaged file.
        format: that it was made from.
        reader: whose outcome it is.
        kind: crash, hang, memory or disagreement.
        text: what was wrong.
        trace: of a crash or hang, where the process was.
    """

    number: int
    format: str
    reader: str
    kind: str
    text: str
    trace: str = ""


@dataclass
class Report:
    """Figures of a run, also of one that goes on.

    Attributes:
        names: the readers; formats: as often as they are chosen.
        seed: of the mutations; start: the first input's number; next: the first one that wasn't checked yet.
        cells: the figures of all readers and formats, see `fuzz.worker.places`.
        resident: (inputs so far, bytes resident) of the last process.
        restarts: how often a process had to be started again.
        code: digest of the readers' source; versions: of what was fuzzed.
    """

    names: list[str]
    formats: list[str]
    seed: int
    start: int
    next: int
    cells: list[int] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    resident: list[tuple[int, int]] = field(default_factory=list)
    restarts: int = 0
    seconds: float = 0.0
    code: str = ""
    versions: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def begin(cls, names: list[str], formats: list[str], seed: int, start: int) -> Report:
        report = cls(names, formats, seed, start, start, code=code_digest(), versions=versions())
        report.cells = [start, -1] + [0] * (len(places(names, formats)) * len(FIELDS))
        return report

    @classmethod
    def load(cls, path: Path) -> Report:
        known = json.loads(path.read_text(encoding="utf-8"))
        known["findings"] = [Finding(**one) for one in known["findings"]]
        for name in ("figures", "command", "written"):
            known.pop(name, None)
        return cls(**known)

    def save(self, path: Path, command: str = "") -> None:
        """Write it as JSON; a kill at any moment leaves the old file or the new one."""
        written = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        content = {"command": command, "written": written, **asdict(self), "figures": self.figures()}
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(content, indent=1), encoding="utf-8")
        os.replace(new, path)

    @property
    def inputs(self) -> int:
        return self.next - self.start

    def count(self, *kinds: str, reader: str | None = None, format: str | None = None) -> int:
        """Inputs with a finding of these kinds."""
        return len(
            {
                one.number
                for one in self.findings
                if one.kind in kinds and reader in (None, one.reader) and format in (None, one.format)
            }
        )

    def figures(self) -> list[dict[str, Any]]:
        """A row for each reader and format."""
        rows = []
        for (name, format), at in places(self.names, self.formats).items():
            inputs, own, peak, growth, slowest = self.cells[at : at + len(FIELDS)]
            found = {
                "crashes": self.count("crash", reader=name, format=format),
                "hangs": self.count("hang", reader=name, format=format),
                "disagreements": self.count("disagreement", reader=name, format=format),
                "memory": self.count("memory", reader=name, format=format),
            }
            more = {"peak_bytes": peak, "growth_bytes": growth, "slowest_seconds": slowest / 1e6}
            rows.append({"reader": name, "format": format, "inputs": inputs, "own": own, **found, **more})
        return rows

    def text(self) -> str:
        """The figures as a Markdown table, a reader's formats together behind its sum, and what holds for all."""
        lines = [
            "| reader | format | inputs | own pixels | crashes | hangs | disagreements | peak, MiB | by one input, MiB "
            "| slowest, s |",
            "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        ]
        figures = self.figures()
        for name in dict.fromkeys(row["reader"] for row in figures):
            mine = [row for row in figures if row["reader"] == name]
            total: dict[str, Any] = {"reader": f"**{name}**", "format": "all"}
            for key in ("inputs", "own", "crashes", "hangs", "disagreements"):
                total[key] = sum(row[key] for row in mine)
            for key in ("peak_bytes", "growth_bytes", "slowest_seconds"):
                total[key] = max(row[key] for row in mine)
            lines += [_line(row) for row in (total, *mine) if row["inputs"]]
        first, last = (self.resident[0][1], self.resident[-1][1]) if self.resident else (0, 0)
        tenth = next((size for done, size in self.resident if done - self.start >= self.inputs / 10), first)
        return "\n".join(
            [
                *lines,
                "",
                f"{self.inputs} inputs (seed {self.seed}, {self.start} … {self.next - 1}) in {self.seconds:.0f} s: "
                f"{self.count('crash')} crashes, {self.count('hang')} hangs, "
                f"{self.count('disagreement')} disagreements, {self.count('memory')} over the limit of memory",
                f"resident: {tenth >> 20} MiB at a tenth of the inputs, {last >> 20} MiB at the end; "
                f"{self.restarts} restarts",
            ]
        )


def _line(row: dict[str, Any]) -> str:
    counts = " | ".join(f"{row[key]:,}" for key in ("inputs", "own", "crashes", "hangs", "disagreements"))
    sizes = f"{row['peak_bytes'] / 2**20:.0f} | {row['growth_bytes'] / 2**20:.1f} | {row['slowest_seconds']:.2f}"
    return f"| {row['reader']} | {row['format']} | {counts} | {sizes} |"


def code_digest() -> str:
    """Tells two states of the readers' source apart."""
    digest = hashlib.sha256()
    for path in sorted(_CODE.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def versions() -> dict[str, dict[str, str]]:
    """The versions of fastpipe, of the libraries that read, and of the system."""
    system = {"fastpipe": fastpipe.__version__, "python": platform.python_version(), "system": platform.platform()}
    return {"": system, **readers.bundled_libraries()}
