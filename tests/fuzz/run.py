"""Mutated image files through the readers, in a process that is watched for crashes, hangs and memory.

    python tests/fuzz/run.py --count 500000 --seed 1                    # all readers that load here
    python tests/fuzz/run.py --reader turbojpeg --formats jpeg
    python tests/fuzz/run.py --file fuzz-findings/1-1234.jpeg           # one input again
    python tests/fuzz/run.py --show fuzz-findings/1.json                # the figures of a run

For each input the outcome must agree with Pillow's: the same pixels (of the whole image, of a region, and of the
header's size), or both refuse. What doesn't is written to a folder with the command that repeats it. The figures are
in SEED.json there all the while; a run that was stopped goes on where it was. The exit status is 1 if anything was
found.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS), str(_TESTS.parent)]

from fuzz.check import HEADER, PILLOW
from fuzz.mutate import mutation
from fuzz.report import Finding, Report, code_digest
from fuzz.seeds import FORMATS, seeds

_MAX_FINDINGS = 200
_BEGIN_SECONDS = 120.0
_SAVE_SECONDS = 2.0
_SHOW_SECONDS = 20.0


def watch(
    readers: list[str],
    count: int,
    seed: int = 0,
    *,
    start: int = 0,
    formats: tuple[str, ...] = FORMATS,
    timeout: float = 20.0,
    max_growth: int = 64 << 20,
    folder: Path | None = None,
    check: str = "fuzz.check:check",
    verbose: bool = False,
) -> Report:
    """Run inputs ``start … start + count`` in watched processes.

    Args:
        readers: each input goes through all of them.
        count: inputs.
        seed: of the mutations; the same numbers give the same inputs.
        start: the first input's number.
        formats: what is mutated.
        timeout: seconds that one input may take.
        max_growth: bytes that one reader's turn may add to the process's peak.
        folder: where the inputs that failed are written, and the figures, from which a run goes on; None for neither.
        check: ``module:function`` that checks an input, as `fuzz.check.check` does.
        verbose: print what is found and how far it is.

    Raises:
        ValueError: the folder has the figures of another run.
    """
    report = _begun(readers, list(formats), seed, start, folder)
    stop = start + count
    with tempfile.TemporaryDirectory() as scratch:
        while report.next < stop and len(report.findings) < _MAX_FINDINGS:
            job = {
                "check": check,
                "folder": scratch,
                "formats": formats,
                "max_findings": _MAX_FINDINGS,
                "max_growth": max_growth,
                "readers": readers,
                "seed": seed,
                "start": report.next,
                "stop": stop,
            }
            try:
                _Process(job, report, timeout, folder, verbose).run()
            finally:  # also at Ctrl-C
                if folder is not None:
                    report.save(folder / f"{seed}.json", _command())
    return report


def _begun(readers: list[str], formats: list[str], seed: int, start: int, folder: Path | None) -> Report:
    """The report that the folder has of this run, or a new one."""
    path = None if folder is None else folder / f"{seed}.json"
    if path is None or not path.exists():
        return Report.begin(readers, formats, seed, start)
    report = Report.load(path)
    if (report.names, report.formats, report.start) != (readers, formats, start) or report.code != code_digest():
        raise ValueError(
            f"{path} has the figures of a run with other readers, formats, first input or code; to begin anew give "
            "another --seed or --out, or remove it"
        )
    report.findings = [one for one in report.findings if one.number < report.next]
    return report


def _command() -> str:
    return " ".join(["python", "tests/fuzz/run.py", *sys.argv[1:]])


@dataclass
class _Process:
    """One watched process, from its start until it is done or dead."""

    job: dict[str, Any]
    report: Report
    timeout: float
    folder: Path | None
    verbose: bool
    lines: queue.Queue[str] = field(default_factory=queue.Queue)

    def run(self) -> None:
        """Let it work; what it did is in the report then."""
        report, mark = self.report, Path(self.job["folder"]) / "mark"
        began, before = time.monotonic(), report.seconds
        self.saved = self.shown = began
        cells = memoryview(bytearray(8 * len(report.cells))).cast("q")
        for at, value in enumerate(report.cells):
            cells[at] = value
        cells[0], cells[1] = -1, -1
        mark.write_bytes(cells)
        command = [sys.executable, str(Path(__file__).with_name("worker.py")), json.dumps(self.job)]
        path = os.pathsep.join([str(_TESTS), str(_TESTS.parent), os.environ.get("PYTHONPATH", "")])
        home = {"FASTPIPE_CONFIG": str(Path(self.job["folder"]) / "config.toml"), "OPENCV_LOG_LEVEL": "SILENT"}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path, **home}
        )
        try:
            assert process.stdout is not None
            thread = threading.Thread(target=lambda out: [self.lines.put(one) for one in out], args=(process.stdout,))
            thread.start()
            fault = self._wait(process, mark, lambda: before + time.monotonic() - began)
            status = process.wait()
            thread.join()
        finally:
            process.kill()
        self._note()
        report.seconds = before + time.monotonic() - began
        if not fault and status:
            name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
            fault = f"crash: {name}"
        if fault:
            self._died(mark, fault)

    def _wait(self, process: subprocess.Popen[str], mark: Path, seconds: Any) -> str:
        last, since, worked = -2, time.monotonic(), 0.0
        while process.poll() is None:
            number = _cells(mark)[0]
            if number != last:
                last, since, worked = number, time.monotonic(), _processor_time(process.pid)
            elif (waited := time.monotonic() - since) > self.timeout:
                # On a busy machine the process may not have had its turn; and at first libraries are loaded.
                busy = number >= 0 and _processor_time(process.pid) - worked > self.timeout / 2
                if busy or waited > 10 * self.timeout + (_BEGIN_SECONDS if number < 0 else 0.0):
                    _end(process)
                    return f"hang: more than {waited:.0f} s"
            self.report.seconds = seconds()
            self._note()
            time.sleep(0.02)
        return ""

    def _died(self, mark: Path, fault: str) -> None:
        """Note the input and the reader that brought the process down, and go on behind it."""
        report = self.report
        number, turn = _cells(mark)[:2]
        trace = (Path(self.job["folder"]) / "traceback").read_text()[-3000:]
        if number < self.job["start"]:
            raise RuntimeError(f"the undamaged files bring the process down: {fault}\n{trace}")
        names = [*report.names, HEADER, PILLOW]
        name = names[turn] if turn >= 0 else ""
        format, _ = mutation(report.seed, number, report.formats)
        report.cells = _cells(mark)
        report.next = number + 1
        report.restarts += 1
        self._found(Finding(number, format, name, fault.partition(":")[0], fault, trace))

    def _note(self) -> None:
        """Take down what the process has said."""
        report, now = self.report, time.monotonic()
        while not self.lines.empty():
            line = json.loads(self.lines.get())
            if "text" in line:
                kind = "memory" if line["text"].startswith("memory:") else "disagreement"
                self._found(Finding(line["number"], line["format"], line["reader"], kind, line["text"]))
                continue
            report.next, report.cells = line["done"], line["cells"]
            report.resident.append((line["done"], line["resident"]))
            if len(report.resident) > 1000:
                report.resident = report.resident[::2]
            if self.folder is not None and now - self.saved > _SAVE_SECONDS:
                self.saved = now
                report.save(self.folder / f"{report.seed}.json", _command())
            if self.verbose and now - self.shown > _SHOW_SECONDS:
                self.shown = now
                rate = report.inputs / report.seconds
                left = (self.job["stop"] - report.next) / rate
                print(f"… {report.inputs} inputs, {rate:.0f} a second, {left / 60:.0f} minutes left", flush=True)

    def _found(self, one: Finding) -> None:
        report = self.report
        report.findings.append(one)
        if self.verbose:
            print(f"input {one.number} ({one.format}), {one.reader}: {one.text}", flush=True)
        if self.folder is None or one.number < 0:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        format, data = mutation(report.seed, one.number, report.formats)
        path = self.folder / f"{report.seed}-{one.number}.{format}"
        path.write_bytes(data)
        again = f"python tests/fuzz/run.py --reader {','.join(report.names)} --file {path}"
        found = [f"{other.reader}: {other.text}" for other in report.findings if other.number == one.number]
        path.with_suffix(".txt").write_text("\n".join([again, *found, one.trace]), encoding="utf-8")


def _cells(mark: Path) -> list[int]:
    return memoryview(mark.read_bytes()).cast("q").tolist()


def _processor_time(pid: int) -> float:
    """Seconds of a processor that a process has used; without /proc, those of the clock."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return time.monotonic()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _end(process: subprocess.Popen[str]) -> None:
    """End a process that hangs; where it can, it writes where it was first."""
    if hasattr(signal, "SIGABRT") and os.name != "nt":
        process.send_signal(signal.SIGABRT)
        try:
            process.wait(5)
            return
        except subprocess.TimeoutExpired:
            pass
    process.kill()


def _check_file(path: Path, readers: list[str]) -> int:
    from fuzz import check

    check.prepare()
    _, _, number = path.stem.rpartition("-")
    numbers = [int(number)] if number.isdigit() else []  # it chose the region
    found: dict[str, None] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for one in (*numbers, *range(16)):
            for name, text in check.check(path.read_bytes(), tuple(readers), one, Path(scratch)):
                found[f"{name}: {text}"] = None
    print("\n".join(found) or f"{path}: {', '.join(readers)} agree with Pillow")
    return 1 if found else 0


def main() -> int:
    """The command line; 1 where anything was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reader", default="all", help="names, with commas between; all: those that load here")
    parser.add_argument("--count", type=int, default=200_000, help="inputs (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="the first input's number (%(default)s)")
    parser.add_argument("--formats", default=",".join(FORMATS), help="as often as they are named (%(default)s)")
    parser.add_argument("--timeout", type=float, default=20.0, help="seconds that one input may take (%(default)s)")
    parser.add_argument("--max-growth", type=int, default=64, help="MiB that one input may add (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("fuzz-findings"), help="folder for findings and figures")
    parser.add_argument("--file", type=Path, help="check this one file, in this process")
    parser.add_argument("--show", type=Path, help="print the figures in this file, also of a run that goes on")
    given = parser.parse_args()
    if given.show is not None:
        print(Report.load(given.show).text())
        return 0

    from fastpipe.readers import available_readers

    names = list(available_readers()) if given.reader == "all" else given.reader.split(",")
    if given.file is not None:
        return _check_file(given.file, names)
    formats = tuple(name for name in given.formats.split(",") if name in seeds())
    try:
        report = watch(
            names,
            given.count,
            given.seed,
            start=given.start,
            formats=formats,
            timeout=given.timeout,
            max_growth=given.max_growth << 20,
            folder=given.out,
            verbose=True,
        )
    except ValueError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        print(f"stopped; the same command goes on, and --show {given.out / f'{given.seed}.json'} prints the figures")
        return 130
    print(report.text())
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
