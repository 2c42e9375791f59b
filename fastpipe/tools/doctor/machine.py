"""What this process may use of the machine: CPUs, memory and shared memory, limits of a container included."""

from __future__ import annotations

import math
import os
import shutil
import sys
from pathlib import Path

from fastpipe.tools.doctor.values import Memory

__all__ = ["memory", "usable_cpus"]

_GROUPS = Path("/sys/fs/cgroup")
_SHARED = "/dev/shm"


def usable_cpus(groups: Path = _GROUPS) -> int:
    """CPUs that this process may use: its affinity, and a container's quota, which the affinity doesn't show.

    Args:
        groups: where Linux shows the limits of control groups.
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _text(groups / "cpu.max").partition(" ")
    if not quota:  # control groups of the first version
        quota, period = (_text(groups / "cpu" / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    if quota.isdigit() and period.isdigit() and int(period):
        cpus = min(cpus, max(1, math.ceil(int(quota) / int(period))))
    return cpus


def memory(groups: Path = _GROUPS) -> Memory:
    """What is to be had now.

    Args:
        groups: where Linux shows the limits of control groups.
    """
    shared = shutil.disk_usage(_SHARED).free if sys.platform == "linux" and os.path.isdir(_SHARED) else None
    found = [amount for amount in (_available(), _left_in_container(groups)) if amount is not None]
    return Memory(min(found, default=None), shared)


def _available() -> int | None:
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
    # What the container's processes have read stays counted until somebody needs the memory.
    kept = [line.split()[1] for line in _text(groups / "memory.stat").splitlines() if line.startswith("file ")]
    return max(0, int(most) - int(used) + sum(map(int, kept)))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
