"""Mutated image files through the readers, in a process that is watched for crashes, hangs and memory.

    python tests/fuzz/run.py --reader all --count 200000 --seed 0
    python tests/fuzz/run.py --reader turbojpeg --file fuzz-findings/0-1234.jpeg      # one input again

For each input the outcome must agree with Pillow's: the same pixels (of the whole image, of a region, and of the
header's size), or both refuse. What doesn't is written to a folder with a line that repeats it. The exit status is 1
if there is any.
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
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS), str(_TESTS.parent)]

from fuzz.mutate import mutation  # noqa: E402
from fuzz.seeds import FORMATS, seeds  # noqa: E402
from fuzz.worker import MARK  # noqa: E402

_MAX_FINDINGS = 200


@dataclass
class Report:
    """What a run came to.

    Attributes:
        inputs: checked.
        crashes: inputs whose process died, hangs: inputs that took longer than the timeout.
        findings: number of the input → what was wrong; -1 for an undamaged file.
        peak: most memory resident at once, in bytes; growth: the most that one input added to it.
        resident: bytes at the run's tenth and at its end, of the last process.
        restarts: how often a process had to be started again.
    """

    inputs: int = 0
    crashes: int = 0
    hangs: int = 0
    findings: dict[int, list[str]] = field(default_factory=dict)
    formats: Counter[str] = field(default_factory=Counter)
    peak: int = 0
    growth: int = 0
    resident: list[int] = field(default_factory=list)
    restarts: int = 0
    seconds: float = 0.0

    @property
    def disagreements(self) -> int:
        return len(self.findings) - self.crashes - self.hangs


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
        max_growth: bytes that one input may add to the process's peak.
        folder: where the inputs that failed are written; None to keep none.
        check: ``module:function`` that checks an input, as `fuzz.check.check` does.
        verbose: print what is found and how far it is.
    """
    report = Report()
    stop, began = start + count, time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        while start < stop and len(report.findings) < _MAX_FINDINGS:
            job = {
                "check": check,
                "folder": scratch,
                "formats": formats,
                "max_growth": max_growth,
                "readers": readers,
                "seed": seed,
                "start": start,
                "stop": stop,
            }
            number, fault = _one_process(job, report, timeout, verbose)
            if fault:
                report.restarts += 1
                report.findings[number] = [fault, (Path(scratch) / "traceback").read_text()[-3000:]]
                if number < start:
                    raise RuntimeError(f"the undamaged files bring the process down: {report.findings[number]}")
            report.inputs += min(number + 1, stop) - start
            start = number + 1
        if folder is not None:
            _keep(report, seed, formats, readers, folder)
    report.seconds = time.monotonic() - began
    return report


def _one_process(job: dict[str, Any], report: Report, timeout: float, verbose: bool) -> tuple[int, str]:
    """Run a job until it ends or its process dies; the number of the last input, and what it did."""
    mark = Path(job["folder"]) / "mark"
    mark.write_bytes(MARK.pack(-1))
    command = [sys.executable, str(Path(__file__).with_name("worker.py")), json.dumps(job)]
    path = os.pathsep.join([str(_TESTS), str(_TESTS.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "OPENCV_LOG_LEVEL": "SILENT", "FASTPIPE_CONFIG": job["folder"]}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    lines: queue.Queue[str] = queue.Queue()
    assert process.stdout is not None
    thread = threading.Thread(target=lambda out: [lines.put(line) for line in out], args=(process.stdout,))
    thread.start()
    last, since, worked, fault = -2, time.monotonic(), 0.0, ""
    while process.poll() is None and not fault:
        number = MARK.unpack(mark.read_bytes())[0]
        if number != last:
            last, since, worked = number, time.monotonic(), _processor_time(process.pid)
        elif (waited := time.monotonic() - since) > timeout:
            # On a busy machine the process may not have had its turn; and at first libraries are loaded.
            busy = number >= 0 and _processor_time(process.pid) - worked > timeout / 2
            if busy or waited > 10 * timeout:
                fault = f"hang: more than {waited:.0f} s"
                _end(process)
        _note(lines, report, verbose, job)
        time.sleep(0.02)
    status = process.wait()
    thread.join()
    _note(lines, report, verbose, job)
    number = MARK.unpack(mark.read_bytes())[0]
    if fault:
        report.hangs += 1
    elif status:
        name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        fault = f"crash: {name}"
        report.crashes += 1
    if fault and verbose:
        print(f"input {number}: {fault}", flush=True)
    return (number, fault) if fault else (job["stop"] - 1, "")


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


def _note(lines: queue.Queue[str], report: Report, verbose: bool, job: dict[str, Any]) -> None:
    while not lines.empty():
        line = json.loads(lines.get())
        if "peak" in line:
            report.peak = max(report.peak, line["peak"])
            report.growth = max(report.growth, line["growth"])
        elif "found" in line:
            report.findings[line["number"]] = line["found"]
            report.formats[line.get("format", "")] += 1
            if verbose:
                print(f"input {line['number']} ({line.get('format')}): {'; '.join(line['found'])}", flush=True)
        else:
            report.resident.append(line["resident"])
            if verbose and line["done"] % 20000 == 0:
                print(f"… {line['done']} of {job['stop']}, {line['resident'] >> 20} MiB resident", flush=True)


def _keep(report: Report, seed: int, formats: tuple[str, ...], readers: list[str], folder: Path) -> None:
    for number, found in report.findings.items():
        folder.mkdir(parents=True, exist_ok=True)
        if number < 0:
            continue
        format, data = mutation(seed, number, formats)
        path = folder / f"{seed}-{number}.{format}"
        path.write_bytes(data)
        again = f"python tests/fuzz/run.py --reader {','.join(readers)} --file {path}"
        path.with_suffix(".txt").write_text("\n".join([again, *found, ""]), encoding="utf-8")


def _check_file(path: Path, readers: list[str]) -> int:
    from fuzz import check

    check.prepare()
    with tempfile.TemporaryDirectory() as scratch:
        found = [
            one for number in range(8) for one in check.check(path.read_bytes(), tuple(readers), number, Path(scratch))
        ]
    print("\n".join(found) or f"{path}: {', '.join(readers)} agree with Pillow")
    return 1 if found else 0


def _printed(report: Report, names: list[str]) -> None:
    resident = report.resident[max(len(report.resident) // 10, 1) - 1] if report.resident else 0
    last = report.resident[-1] if report.resident else 0
    print(
        f"readers {', '.join(names)}: {report.inputs} inputs in {report.seconds:.0f} s\n"
        f"crashes {report.crashes}, hangs {report.hangs}, disagreements {report.disagreements}\n"
        f"peak {report.peak / 2**20:.0f} MiB, at most {report.growth / 2**20:.1f} MiB more by one input; "
        f"resident {resident / 2**20:.0f} MiB at a tenth, {last / 2**20:.0f} MiB at the end"
    )


def main() -> int:
    """The command line; 1 where anything was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reader", default="all", help="names, with commas between; all: those that load here")
    parser.add_argument("--count", type=int, default=200_000, help="inputs (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="the first input's number, to go on after a break")
    parser.add_argument("--formats", default=",".join(FORMATS), help="%(default)s")
    parser.add_argument("--timeout", type=float, default=20.0, help="seconds that one input may take (%(default)s)")
    parser.add_argument("--max-growth", type=int, default=64, help="MiB that one input may add (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("fuzz-findings"), help="folder for the inputs that failed")
    parser.add_argument("--file", type=Path, help="check this one file, in this process")
    given = parser.parse_args()

    from fastpipe.readers import available_readers

    names = available_readers() if given.reader == "all" else given.reader.split(",")
    if given.file is not None:
        return _check_file(given.file, names)
    formats = tuple(name for name in given.formats.split(",") if name in seeds())
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
    _printed(report, names)
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
