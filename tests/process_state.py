"""The global state of a process and its libraries, and how it differs after a use of fastpipe."""

from __future__ import annotations

import decimal
import faulthandler
import gc
import hashlib
import importlib
import locale
import logging
import multiprocessing
import os
import pickle
import random
import signal
import socket
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import cv2
import numpy as np
import torch
from PIL import Image, ImageFile, PngImagePlugin

PATIENCE_S = 20.0
"""Seconds to wait for threads and processes that are about to end."""


def digest(value: Any) -> str:
    return hashlib.blake2b(pickle.dumps(value), digest_size=6).hexdigest()


def named(value: Any) -> str:
    """A function or class by its name, another object by its identity."""
    name = getattr(value, "__qualname__", None)
    return f"{value.__module__}.{name}" if name else f"{type(value).__name__} {id(value)}"


def snapshot() -> dict[str, Any]:
    """Every setting of the process and its libraries that fastpipe could touch."""
    return {f"{part}: {name}": value for part, look in _PARTS.items() for name, value in look().items()}


def _cv2() -> dict[str, Any]:
    return {
        "threads": cv2.getNumThreads(),
        "optimized": cv2.useOptimized(),
        "OpenCL": cv2.ocl.useOpenCL(),
        "log level": cv2.getLogLevel() if hasattr(cv2, "getLogLevel") else None,
    }


def _torch() -> dict[str, Any]:
    return {
        "threads": torch.get_num_threads(),
        "interop threads": torch.get_num_interop_threads(),
        "default dtype": str(torch.get_default_dtype()),
        "default device": str(torch.empty(0).device),
        "generator": digest(torch.get_rng_state().numpy()),
        "seed": torch.initial_seed(),
        "default generator": id(torch.default_generator),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "deterministic warn only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "cudnn": (torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark, torch.backends.cudnn.enabled),
        "matmul precision": torch.get_float32_matmul_precision(),
        "gradients": (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_anomaly_enabled()),
        "sharing strategy": torch.multiprocessing.get_sharing_strategy(),
        "print options": str(torch._tensor_str.PRINT_OPTS),
        "worker": torch.utils.data.get_worker_info(),
    }


def _pillow() -> dict[str, Any]:
    return {
        "limit of pixels": Image.MAX_IMAGE_PIXELS,
        "truncated images": ImageFile.LOAD_TRUNCATED_IMAGES,
        "blocks": (ImageFile.MAXBLOCK, ImageFile.SAFEBLOCK),
        "text limits": (PngImagePlugin.MAX_TEXT_CHUNK, PngImagePlugin.MAX_TEXT_MEMORY),
        "formats in order": list(Image.ID),
        "plugins": {name: named(plugin[0]) for name, plugin in Image.OPEN.items()},
        "extensions": dict(Image.EXTENSION),
        "savers": {name: named(save) for name, save in Image.SAVE.items()},
        "decoders": sorted(Image.DECODERS),
        "warns of formats": getattr(Image, "WARN_POSSIBLE_FORMATS", None),
    }


def _random() -> dict[str, Any]:
    return {"python": digest(random.getstate()), "numpy": digest(np.random.get_state())}


def _numpy() -> dict[str, Any]:
    options = {name: str(value) for name, value in np.get_printoptions().items()}
    return {"errors": np.geterr(), "error call": named(np.geterrcall()), "print options": options}


def _interpreter() -> dict[str, Any]:
    return {
        "warnings' filters": [str(entry) for entry in warnings.filters],
        "showwarning": named(warnings.showwarning),
        "formatwarning": named(warnings.formatwarning),
        "hooks": [named(hook) for hook in (sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook)],
        "tracing": (sys.gettrace() is None, sys.getprofile() is None, threading.gettrace() is None),
        "recursion": sys.getrecursionlimit(),
        "switch interval": sys.getswitchinterval(),
        "gc": (gc.isenabled(), gc.get_threshold(), len(gc.callbacks), gc.get_debug()),
        "path": list(sys.path),
        "import hooks": [named(hook) for hook in (*sys.meta_path, *sys.path_hooks)],
        "streams": [(named(one), one.encoding, one.errors) for one in (sys.stdin, sys.stdout, sys.stderr)],
        "bytecode": sys.dont_write_bytecode,
        "faulthandler": faulthandler.is_enabled(),
        "decimal": str(decimal.getcontext()),
        "builtins": sorted(vars(importlib.import_module("builtins"))),
    }


def _process() -> dict[str, Any]:
    numbers = sorted(signal.valid_signals())
    mask = os.umask(0)
    os.umask(mask)
    found: dict[str, Any] = {
        "signal handlers": {str(number): _handler(signal.getsignal(number)) for number in numbers},
        "environment": dict(os.environ),
        "working directory": os.getcwd(),
        "umask": mask,
        "locale": locale.setlocale(locale.LC_ALL),
        "start method": multiprocessing.get_start_method(allow_none=True),
        "temporary folder": tempfile.gettempdir(),
        "socket timeout": socket.getdefaulttimeout(),
        "thread stack": threading.stack_size(),
    }
    if hasattr(signal, "pthread_sigmask"):
        found["blocked signals"] = sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ())))
        found["alarms"] = signal.getitimer(signal.ITIMER_REAL)
    if hasattr(os, "sched_getaffinity"):
        found["CPUs"] = sorted(os.sched_getaffinity(0))
        found["niceness"] = os.nice(0)
    try:
        import resource
    except ImportError:
        pass
    else:
        limits = ("RLIMIT_NOFILE", "RLIMIT_CORE", "RLIMIT_AS", "RLIMIT_STACK")
        found["limits"] = {name: resource.getrlimit(getattr(resource, name)) for name in limits}
    return found


def _handler(handler: Any) -> str:
    return named(handler) if callable(handler) and hasattr(handler, "__qualname__") else str(handler)


def _logging() -> dict[str, Any]:
    root = logging.getLogger()
    return {
        "root": (root.level, [named(handler) for handler in root.handlers], len(root.filters)),
        "disabled": root.manager.disable,
        "class": named(logging.getLoggerClass()),
        "last resort": named(logging.lastResort),
        "levels": {name: logging.getLogger(name).level for name in ("PIL", "fastpipe", "matplotlib", "torch")},
    }


def _left_running() -> dict[str, Any]:
    """Threads and child processes; those that are just ending get a moment."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        gc.collect()  # an executor's threads end when it is collected
        threads = sorted(thread.name for thread in threading.enumerate())
        children = sorted(child.name for child in multiprocessing.active_children())
        if (len(threads) == 1 and not children) or time.monotonic() > deadline:
            return {"threads": threads, "children": children}
        time.sleep(0.02)


_PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "cv2": _cv2,
    "torch": _torch,
    "Pillow": _pillow,
    "random": _random,
    "numpy": _numpy,
    "Python": _interpreter,
    "process": _process,
    "logging": _logging,
    "left running": _left_running,
}


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, list[str]]:
    return {name: [str(before[name]), str(after[name])] for name in before if before[name] != after[name]}


def outcome_of(uses: Iterator[tuple[str, Callable[[], Any]]]) -> dict[str, dict[str, list[str]]]:
    found = {}
    for name, use in uses:
        # Another value everywhere than the one that a use might set.
        torch.manual_seed(11)
        random.seed(12)
        np.random.seed(13)
        before = snapshot()
        use()
        found[name] = differences(before, snapshot())
    return found
