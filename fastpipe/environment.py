"""The environment: installed versions, and the processor, CPUs and memory that this process may use."""

from __future__ import annotations

import errno
import functools
import math
import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

if sys.platform != "win32":
    import resource

__all__ = [
    "Memory",
    "installed",
    "library_versions",
    "line_width",
    "machine_fingerprint",
    "memory",
    "no_descriptors_left",
    "opencv",
    "other_projects",
    "shared_memory_room",
    "usable_cpus",
    "versions",
]

_OPENCVS = ("python-headless", "python", "contrib-python-headless", "contrib-python")
LIBRARIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "imageio": ("imageio",),
        "opencv": tuple(f"opencv-{kind}" for kind in _OPENCVS),
        "pillow": ("pillow", "pillow-simd"),
        "turbojpeg": ("turbojpeg",),
    }
)
"""The decoding libraries, each with the names of the distributions that may contain it."""

_NO_DESCRIPTORS = os.strerror(errno.EMFILE)  # torch's RuntimeErrors contain this text
_GROUPS = Path("/sys/fs/cgroup")  # Linux's folder of the limits of control groups
SHARED_MEMORY = "/dev/shm"
"""Linux's folder of shared memory, through which workers send batches."""


@functools.cache
def opencv() -> Any:
    """The module ``cv2``, whichever package it comes from; None where there is none, or one that can't be used."""
    try:
        import cv2
    except Exception:  # one that was built for another numpy raises more than ImportError
        return None
    return cv2 if hasattr(cv2, "setNumThreads") else None


def line_width() -> int:
    """Characters per line of a report: ``COLUMNS``, else the terminal's width, else 80, as for a pipe or file."""
    return max(40, shutil.get_terminal_size((80, 24)).columns)


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of the machine, in bytes; None where the system doesn't tell.

    Attributes:
        available: bytes that programs and the page cache can use without swapping.
        shared_free: free bytes of the shared memory that batches travel through.
    """

    available: int | None
    shared_free: int | None


def installed(*distributions: str) -> str | None:
    """The version of the first installed one of these distributions; None if none is installed."""
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def has_version(distribution: str, *least: int) -> bool:
    """True unless a distribution is installed with a version below the given one: ``has_version("torch", 2, 6)``."""
    numbers = re.match(r"(\d+)\.(\d+)", installed(distribution) or "")
    return numbers is None or (*map(int, numbers.groups()),) >= least


def versions(*packages: str) -> dict[str, str]:
    """The versions of fastpipe, Python, and the installed ones of these packages."""
    own = _own_version() | {"python": platform.python_version()}
    return own | {name: version for name in packages if (version := installed(name)) is not None}


@functools.lru_cache(maxsize=1)
def library_versions() -> Mapping[str, str]:
    """The versions of fastpipe and of the installed libraries that decode images, by their short names."""
    installed_versions = {name: installed(*distributions) for name, distributions in LIBRARIES.items()}
    return MappingProxyType(
        _own_version() | {name: version for name, version in installed_versions.items() if version is not None}
    )


def other_projects() -> list[str]:
    """Other installed distributions, with versions, that have a module named ``fastpipe``."""
    having = [one for one in metadata.distributions() if "fastpipe/__init__.py" in (one.read_text("RECORD") or "")]
    return sorted({f"{one.name} {one.version}" for one in having if one.name != "torch-fastpipe"})


def _own_version() -> dict[str, str]:
    return {"fastpipe": str(sys.modules["fastpipe"].__version__)}


@functools.lru_cache(maxsize=1)
def machine_fingerprint() -> Mapping[str, str | int]:
    """Facts that tell apart machines of different speed: system, architecture, processor, number of CPUs.

    No host name: containers change theirs, and the nodes of a cluster share one home folder.
    """
    lines = _text(Path("/proc/cpuinfo"), "utf-8").splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return MappingProxyType(
        {
            "system": platform.system(),
            "architecture": platform.machine(),
            "processor": (models or [""])[0] if lines else platform.processor(),  # all there is outside of Linux
            "cpus": os.cpu_count() or 1,
        }
    )


def no_descriptors_left(error: BaseException) -> str:
    """Advice for an error about file descriptors that ran out; empty for any other error."""
    number = getattr(error, "errno", None)
    if number not in (errno.EMFILE, errno.ENFILE) and _NO_DESCRIPTORS not in str(error):
        return ""
    limit = "the limit"
    if number == errno.ENFILE:
        limit = "the whole system's limit (sysctl fs.file-max)"
    elif sys.platform != "win32":
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = f"the limit of a process, {soft} (it may raise it to {hard}),"
    return (
        f"Too many open files: {limit} is reached. Raise it (ulimit -n 65536 in the shell, docker run "
        "--ulimit nofile=65536), keep fewer batches from workers, which take a descriptor or more each, use a smaller "
        "num_workers or prefetch_factor, or share memory by name: torch.multiprocessing.set_sharing_strategy("
        "'file_system')"
    )


def busy_cpu_seconds(stat: Path = Path("/proc/stat")) -> tuple[float, float] | None:
    """Seconds of work of all CPUs together, and seconds since boot; None outside of Linux."""
    line = _text(stat).partition("\n")[0].split()
    if len(line) < 9 or line[0] != "cpu":
        return None
    user, nice, system, idle, waiting, *others = (int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in line[1:9])
    busy = user + nice + system + sum(others)
    return busy, (busy + idle + waiting) / (os.cpu_count() or 1)


def usable_cpus(groups: Path = _GROUPS) -> int:
    """CPUs that this process may use, by its affinity and by a container's quota, which the affinity doesn't show."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _text(groups / "cpu.max").partition(" ")
    if not quota:  # control groups version 1
        quota, period = (_text(groups / "cpu" / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    if quota.isdigit() and period.isdigit() and int(period):
        cpus = min(cpus, max(1, math.ceil(int(quota) / int(period))))
    return cpus


def memory(groups: Path = _GROUPS) -> Memory:
    """Memory that is available now, within a container's limits."""
    room = shared_memory_room()
    amounts = [amount for amount in (available_memory(), _left_in_container(groups)) if amount is not None]
    return Memory(min(amounts, default=None), None if room is None else room.free)


class Room(NamedTuple):
    """Sizes of shared memory in bytes: free now, and in total."""

    free: int
    size: int


def shared_memory_room() -> Room | None:
    """The room in shared memory; None where the system doesn't have it as a file system (outside of Linux)."""
    try:
        status = os.statvfs(SHARED_MEMORY)
    except (AttributeError, OSError):  # AttributeError on Windows
        return None
    return Room(status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize)


def available_memory() -> int | None:
    """Bytes that programs can use without swapping, as the system reports them."""
    for line in _text(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    try:
        import psutil  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        return None
    return int(psutil.virtual_memory().available)


def _left_in_container(groups: Path) -> int | None:
    most, used = (_text(groups / f"memory.{name}") for name in ("max", "current"))
    if not (most.isdigit() and used.isdigit()):
        return None
    # Files that the container has read count as used memory until another process needs the memory.
    kept = [line.split()[1] for line in _text(groups / "memory.stat").splitlines() if line.startswith("file ")]
    return max(0, int(most) - int(used) + sum(map(int, kept)))


def _text(file: Path, encoding: str = "ascii") -> str:
    try:
        return file.read_text(encoding=encoding, errors="replace").strip()
    except OSError:
        return ""
