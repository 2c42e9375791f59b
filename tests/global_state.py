"""The global state of a process, compared before and after each public use of fastpipe.

Run as a program, ``python global_state.py FOLDER GROUP…``, so that nothing of pytest's is in the process: prints JSON,
use → what changed → before and after.
"""

from __future__ import annotations

import argparse
import contextlib
import decimal
import faulthandler
import gc
import hashlib
import importlib
import io
import json
import locale
import logging
import multiprocessing
import os
import pickle
import pkgutil
import random
import signal
import socket
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import corpus
import cv2
import numpy as np
import torch
from PIL import Image, ImageFile, PngImagePlugin
from torch.utils.data import DataLoader as TorchDataLoader

WORKERS: dict[str, Any] = {"num_workers": 2}
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
    return {"python": digest(random.getstate()), "numpy": digest(np.random.get_state())}  # noqa: NPY002


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
        np.random.seed(13)  # noqa: NPY002 - the global one
        before = snapshot()
        use()
        found[name] = differences(before, snapshot())
    return found


def photos(folder: Path) -> Path:
    root = folder / "photos"
    for number in range(16):
        path = root / f"class{number % 2}" / f"{number:02}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(corpus.jpeg(60 + number, 80, seed=number))
    return root


def foreign(image: Any) -> Any:
    """As people write transforms: from every global generator."""
    if random.random() < 0.5:
        image = image.rotate(float(np.random.uniform(-9, 9)))  # noqa: NPY002 - the global one
    return image.rotate(float(torch.rand(()) * 9))


def failing(image: Any) -> Any:
    foreign(image)
    raise ValueError("a transform that fails")


def _failing(use: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        try:
            use()
        except Exception:
            return
        raise AssertionError("it was to fail")

    return run


def _their_own() -> None:
    """Makes the changes that Pillow, turbojpeg and torch make with the first unusual file and the first workers."""
    Image.init()  # loads its plugins
    with contextlib.suppress(ImportError):
        importlib.import_module("turbojpeg")  # pybind11 keeps what it knows in builtins
    list(TorchDataLoader(torch.arange(4), **WORKERS))  # a handler for SIGCHLD; Python settles on a start method


def _import(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    for library in ("albumentations", "imageio.v3", "PIL.JpegImagePlugin", "pyarrow.parquet", "turbojpeg", "yaml"):
        try:  # what these set when they are imported is theirs
            importlib.import_module(library)
        except ImportError:
            continue

    def everything() -> None:
        import fastpipe

        for module in pkgutil.walk_packages(fastpipe.__path__, "fastpipe."):
            if module.name.endswith(("__main__", ".worker", "_core")):
                continue  # programs, readers of packages that aren't everywhere, and the library in C
            if module.name.startswith(("fastpipe.hooks.", "fastpipe.interop.transforms.")):
                continue  # imported only where the library that they are for is already
            try:
                importlib.import_module(module.name)
            except ImportError as error:
                if (error.name or "").partition(".")[0] == "fastpipe":
                    raise

    def names() -> None:
        import fastpipe

        for name in fastpipe.__all__:
            getattr(fastpipe, name)

    yield "import fastpipe", lambda: importlib.import_module("fastpipe")
    yield "every public name", names
    yield "every module", everything


def _readers(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    from fastpipe import readers
    from fastpipe.errors import DecodeError

    _their_own()
    kinds = ("jpeg-420", "jpeg-cmyk", "jpeg-progressive", "jpeg-exif-6", "png-rgb", "png-palette", "gif", "mpo")
    files = [corpus.files()[name] for name in kinds]
    path = folder / "one.jpg"
    path.write_bytes(files[0])

    def refused(reader: str) -> None:
        for data in (files[0][:300], b"no image", files[4][:-20], b""):
            try:
                readers.read_image(data, reader=reader)
            except DecodeError:
                continue

    def read(reader: str) -> None:
        for data in (*files, path):
            readers.read_image(data, reader=reader)
            readers.read_image(data, reader=reader, region=(1, 2, 9, 7), apply_exif=True, max_pixels=10**6)

    yield "reader_status", readers.reader_status
    for reader in readers.available_readers():
        yield f"read_image with {reader}", lambda reader=reader: read(reader)
        yield f"read_image with {reader}, refused", lambda reader=reader: refused(reader)
    yield "too many pixels", _failing(lambda: readers.read_image(files[0], max_pixels=10))


def _datasets(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    import fastpipe
    from fastpipe import transforms as T
    from fastpipe.progress_bar import SlowBar

    root = photos(folder)
    _their_own()
    still = T.Compose([T.Resize(40), T.CenterCrop(32), T.ToTensor()])
    drawn = T.Compose([T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.ToTensor()])
    own = T.Compose([foreign, T.RandomResizedCrop(32), T.ToTensor()])

    def bar() -> None:
        with redirect_stderr(io.StringIO()), SlowBar("working") as shown:
            shown._due = 0.0  # as on a terminal, and after a while
            shown.expect(2)
            shown.advance()

    def all_of(transform: Any, **options: Any) -> Callable[[], Any]:
        def run() -> None:
            dataset = fastpipe.ImageFolder(root, transform, index=None, **options)
            [dataset[number] for number in range(4)]
            dataset.__getitems__(list(range(len(dataset))))

        return run

    yield "a progress bar", bar
    yield "index build", lambda: fastpipe.ImageIndex.from_folder(root)
    yield "index build with details", lambda: fastpipe.ImageIndex.from_folder(root, sizes=True)
    yield "ImageFolder in the cache", lambda: fastpipe.ImageFolder(root)[0]
    yield "ImageFolder, nothing drawn", all_of(still)
    yield "ImageFolder with a seed", all_of(drawn, seed=3)
    yield "ImageFolder with threads", all_of(still, threads=2)
    yield "ImageFolder with a seed and threads", all_of(drawn, seed=3, threads=3)
    yield "ImageFolder with a seed and foreign transforms", all_of(own, seed=3)
    yield "a foreign transform that fails", _failing(all_of(T.Compose([failing, T.ToTensor()]), seed=3))
    files = sorted(map(str, root.rglob("*.jpg")))
    yield "ImageList", lambda: fastpipe.ImageList((files, [0] * len(files)), transform=still)[3]
    yield "explain", lambda: str(fastpipe.explain(drawn))
    (root / "class0/bad.jpg").write_bytes(b"no image")
    yield "bad files", all_of(still, on_error="replace", bad_files_log=folder / "bad.csv", max_bad_fraction=0.5)


def _loaders(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    import fastpipe
    from fastpipe import transforms as T

    root = photos(folder)
    drawn = T.Compose([T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.ToTensor()])
    _their_own()

    def made(batch_size: int, **options: Any) -> fastpipe.DataLoader:
        dataset = fastpipe.ImageFolder(root, drawn, seed=3, index=None)
        generator = torch.Generator()  # else torch's loader takes its workers' seed from the global one
        return fastpipe.DataLoader(dataset, batch_size, shuffle=True, generator=generator, **options)

    def loop(**options: Any) -> Callable[[], Any]:
        def run() -> None:
            loader = made(4, **options)
            for _ in range(2):
                list(loader)

        return run

    def left_early() -> None:
        next(iter(made(2, **WORKERS)))

    yield "DataLoader", loop()
    yield "DataLoader with threads", loop(threads=2)
    yield "DataLoader with workers", loop(**WORKERS)
    yield "DataLoader with workers and threads", loop(threads=2, **WORKERS)
    yield "DataLoader with persistent workers", loop(persistent_workers=True, **WORKERS)
    yield "DataLoader, left early", left_early
    dataset = fastpipe.ImageFolder(root, drawn, seed=3, index=None)
    yield "tune", lambda: fastpipe.tune(dataset, 4, seconds=0.5, max_workers=2, progress=False)


def _tools(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    import fastpipe
    from fastpipe import transforms as T
    from fastpipe.errors import FastpipeError
    from fastpipe.tools.import_torchvision import import_torchvision

    root = photos(folder)
    _their_own()
    (root / "class0/bad.jpg").write_bytes(b"no image")
    own = T.Compose([foreign, T.RandomResizedCrop(32), T.ToTensor()])
    drawn = T.Compose([T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.ToTensor()])
    good = fastpipe.ImageFolder(root, own, index=None)
    yield "check", lambda: fastpipe.check(root, jobs=2, progress=False, report=folder / "report.csv")
    yield "check of headers", lambda: fastpipe.check(root, decode="header", jobs=1, progress=False)
    yield "preview", lambda: fastpipe.preview(good, [1, 2])
    try:
        import_torchvision()
    except FastpipeError:
        return
    images = sorted(path for path in root.rglob("*.jpg") if path.name != "bad.jpg")
    yield "verify", lambda: fastpipe.verify(drawn, images, images=4)
    yield "verify with foreign transforms", lambda: fastpipe.verify(own, images, images=2)


def _measuring(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    import fastpipe
    from fastpipe.errors import FastpipeError
    from fastpipe.tools.bench.choose import to_config
    from fastpipe.tools.bench.result import bench
    from fastpipe.tools.import_torchvision import import_torchvision

    root = photos(folder)
    _their_own()
    for prepare in (import_torchvision, lambda: importlib.import_module("matplotlib.figure")):
        try:
            prepare()
        except (FastpipeError, ImportError):
            continue
    small = {"images": 2, "rounds": 1, "workers": 1}
    yield "bench", lambda: bench(root, formats=["jpeg"], **small)

    def configure() -> None:
        result = bench(root, readers=["pil"], formats=["jpeg"], **small)
        to_config(result.measurement, result.choices).save(folder / "config.toml")

    yield "configure", configure
    yield "doctor", lambda: str(fastpipe.doctor(root, batch_size=4, seconds=0.3))


def _commands(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    from fastpipe.cli import main

    sys.path.insert(0, str(folder))  # where a command finds the transform; it puts the file's folder there itself
    root = photos(folder)
    _their_own()
    transform = folder / "mine.py"
    transform.write_text(
        "from fastpipe import transforms as T\n"
        "mine = T.Compose([T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.ToTensor()])\n"
    )

    def command(*arguments: str) -> Callable[[], Any]:
        def run() -> None:
            status: Any = None
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                try:
                    main(list(arguments))
                except SystemExit as end:
                    status = end.code
            if status != 0:
                raise AssertionError(f"{arguments} ends with {status}")

        return run

    yield "fastpipe --version", command("--version")
    yield "fastpipe doctor --versions", command("doctor", "--versions")
    yield "fastpipe index", command("index", str(root), "--quiet")
    yield "fastpipe explain", command("explain", f"{transform}:mine")
    yield "fastpipe check", command("check", str(root), "--jobs", "1", "--quiet")


GROUPS: dict[str, Callable[[Path], Iterator[tuple[str, Callable[[], Any]]]]] = {
    "import": _import,
    "readers": _readers,
    "datasets": _datasets,
    "loaders": _loaders,
    "tools": _tools,
    "measuring": _measuring,
    "commands": _commands,
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("groups", choices=GROUPS, nargs="+")
    wanted = parser.parse_args()
    found = {}
    # Other values than those that anybody would set: a value that is set to its default is noticed.
    torch.set_num_threads(3)
    cv2.setNumThreads(3)
    for group in wanted.groups:
        folder = wanted.folder / group
        folder.mkdir()
        found[group] = outcome_of(GROUPS[group](folder))
    print(json.dumps(found))
