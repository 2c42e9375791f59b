"""The global state of a process, compared before and after each public use of fastpipe.

Run as a program, ``python global_state.py FOLDER GROUP…``, so that nothing of pytest's is in the process: prints JSON,
use → what changed → before and after.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import pkgutil
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import corpus
import cv2
import numpy as np
import torch
from PIL import Image
from process_state import outcome_of
from torch.utils.data import DataLoader as TorchDataLoader

WORKERS: dict[str, Any] = {"num_workers": 2}


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
        image = image.rotate(float(np.random.uniform(-9, 9)))
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
            if module.name.startswith(
                ("fastpipe.hooks.", "fastpipe.interop.transforms.", "fastpipe.interop.albumentations.")
            ):
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
