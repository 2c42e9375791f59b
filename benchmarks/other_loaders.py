"""Other libraries that load images for training, beside torchvision and fastpipe, on the same photos in one run.

    python benchmarks/other_loaders.py PHOTOS [--images 128] [--repeat 4] [--rounds 5] [--json FILE]

PHOTOS is a folder as ImageFolder takes it (root/class/….jpg). Each contender makes an epoch of the usual training from
files to normalised float32 batches of 32 in main memory, `RandomResizedCrop(224)` and a flip, in one process with one
thread that decodes. A figure is processor time, of all threads, so that other work on the machine matters less: the
median over the rounds, which are interleaved; a ratio is the median of each round's. An epoch goes through the photos
`--repeat` times.

Libraries that aren't installed are named and left out:

    pip install litdata nvidia-dali-cuda120 spdl        # DALI works on the CPU here; SPDL decodes by FFmpeg's libraries

    torchvision     torchvision's ImageFolder in torch's DataLoader
    LitData         its StreamingDataset over the files' bytes in its chunks, with torchvision's transforms
    DALI            decoders.image_random_crop, resize with antialiasing, crop_mirror_normalize, on the CPU
    SPDL            its Pipeline and decoder (FFmpeg), crop and flip drawn by torchvision, filtered by FFmpeg (bicubic)
    fastpipe        fastpipe.DataLoader; then the same on packed images

Only torchvision, LitData (by torchvision) and fastpipe give torchvision's pixels. FFCV has no wheels: whoever has built
it can compare by a file of its own; its format keeps images re-encoded, or raw.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
import torch
from PIL import Image
from rich.table import Table
from torch.utils.data import DataLoader as StockLoader
from torchvision_here import torchvision

import fastpipe
from fastpipe import transforms as T
from fastpipe.reporting.output import make_console

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
BATCH, SIDE = 32, 224

Epoch = Callable[[], Iterable[Any]]


def recipe(module: Any) -> Any:
    crop, flip = module.RandomResizedCrop(SIDE), module.RandomHorizontalFlip()
    return module.Compose([crop, flip, module.ToTensor(), module.Normalize(MEAN, STD)])


def stock(dataset: Any, kind: Any = StockLoader) -> Epoch:
    """Epochs of a loader of torch's class, in the main process."""
    loader = kind(dataset, batch_size=BATCH, num_workers=0)
    return lambda: loader


def of_torchvision(photos: Path, work: Path) -> Epoch:
    dataset = torchvision.datasets.ImageFolder(photos, recipe(torchvision.transforms))
    return stock(dataset)


def of_fastpipe(photos: Path, work: Path) -> Epoch:
    return stock(fastpipe.ImageFolder(photos, recipe(T)), fastpipe.DataLoader)


def of_packed(photos: Path, work: Path) -> Epoch:
    packed = work / "packed"
    if not packed.exists():
        fastpipe.pack(photos, packed, progress=False)
    return of_fastpipe(packed, work)


def of_litdata(photos: Path, work: Path) -> Epoch:
    import litdata

    os.environ.setdefault("LITDATA_DISABLE_VERSION_CHECK", "1")
    chunks = work / "chunks"
    if not chunks.exists():
        files = [(path, label) for path, label in torchvision.datasets.ImageFolder(photos).samples]
        litdata.optimize(_bytes_of, files, str(chunks), chunk_bytes="64MB", num_workers=1)
    transform = recipe(torchvision.transforms)

    class Photos(litdata.StreamingDataset):  # type: ignore[name-defined,misc]
        def __getitem__(self, index: Any) -> tuple[Any, int]:
            data, label = super().__getitem__(index)
            return transform(Image.open(io.BytesIO(data)).convert("RGB")), label

    return stock(Photos(str(chunks)), litdata.StreamingDataLoader)


def _bytes_of(file: tuple[str, int]) -> tuple[bytes, int]:
    path, label = file
    return Path(path).read_bytes(), label


def of_dali(photos: Path, work: Path) -> Epoch:
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy

    @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None, prefetch_queue_depth=1)
    def training() -> Any:
        files, labels = fn.readers.file(file_root=str(photos), name="files")
        crops = fn.decoders.image_random_crop(
            files, device="cpu", output_type=types.RGB, random_area=[0.08, 1], random_aspect_ratio=[3 / 4, 4 / 3]
        )
        resized = fn.resize(crops, size=[SIDE, SIDE], interp_type=types.INTERP_LINEAR, antialias=True)
        images = fn.crop_mirror_normalize(
            resized,
            dtype=types.FLOAT,
            output_layout="CHW",
            mean=[255 * value for value in MEAN],
            std=[255 * value for value in STD],
            mirror=fn.random.coin_flip(probability=0.5),
        )
        return images, labels

    made = training()
    made.build()
    names, policy = ["images", "labels"], LastBatchPolicy.PARTIAL
    batches = DALIGenericIterator(made, names, reader_name="files", last_batch_policy=policy, auto_reset=False)

    ended = False

    def epoch() -> Iterable[Any]:
        nonlocal ended
        if ended:
            batches.reset()  # which begins to prefetch: in this contender's time
        yield from ((batch["images"], batch["labels"]) for (batch,) in batches)
        ended = True

    return epoch


def of_spdl(photos: Path, work: Path) -> Epoch:
    import spdl.io
    import spdl.pipeline

    files = torchvision.datasets.ImageFolder(photos).samples
    scale = np.float32(255) * np.array(STD, np.float32)
    shift = np.array(MEAN, np.float32) / np.array(STD, np.float32)

    def image(file: tuple[str, int]) -> tuple[Any, int]:
        path, label = file
        packets = spdl.io.demux_image(path)
        size = torch.empty(1, packets.codec.height, packets.codec.width)
        box = torchvision.transforms.RandomResizedCrop.get_params(size, [0.08, 1.0], [3 / 4, 4 / 3])
        top, left, height, width = box
        steps = [f"crop={width}:{height}:{left}:{top}:exact=1", f"scale={SIDE}:{SIDE}", "format=rgb24"]
        if torch.rand(1) < 0.5:
            steps.insert(1, "hflip")
        frames = spdl.io.decode_packets(packets, filter_desc=",".join(steps))
        pixels = spdl.io.to_numpy(spdl.io.convert_frames(frames))
        return torch.from_numpy(pixels / scale - shift).permute(2, 0, 1), label

    def batch(samples: list[tuple[Any, int]]) -> tuple[Any, Any]:
        images, labels = zip(*samples, strict=True)
        return torch.stack(images).contiguous(), torch.tensor(labels)

    def epoch() -> Iterable[Any]:
        builder = spdl.pipeline.PipelineBuilder().add_source(files).pipe(image, concurrency=1)
        pipeline = builder.aggregate(BATCH).pipe(batch).add_sink(2).build(num_threads=1)
        with pipeline.auto_stop():
            yield from pipeline.get_iterator()

    return epoch


# name → (what makes its epochs, the module and the distributions that it needs)
CONTENDERS: dict[str, tuple[Callable[[Path, Path], Epoch], str, tuple[str, ...]]] = {
    "torchvision": (of_torchvision, "torchvision", ("torchvision",)),
    "LitData": (of_litdata, "litdata", ("litdata",)),
    "DALI": (of_dali, "nvidia.dali", ("nvidia-dali-cuda130", "nvidia-dali-cuda120")),
    "SPDL": (of_spdl, "spdl.io", ("spdl-io", "spdl")),
    "fastpipe": (of_fastpipe, "fastpipe", ()),
    "fastpipe, packed": (of_packed, "fastpipe", ()),
}


def version_of(distributions: tuple[str, ...]) -> str:
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return fastpipe.__version__


def timed(epoch: Epoch, expected: int) -> float:
    """Microseconds of processor time an image; all of them have to come, and in the right form."""
    start, seen = time.process_time(), 0
    for images, _ in epoch():
        assert images.dtype == torch.float32, images.dtype
        assert tuple(images.shape[1:]) == (3, SIDE, SIDE), images.shape
        seen += len(images)
    assert seen == expected, f"{seen} of {expected} images"
    return (time.process_time() - start) / seen * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", type=Path, help="a folder of images, one folder a class")
    parser.add_argument("--images", type=int, default=128, help="how many of them, at most")
    parser.add_argument("--repeat", type=int, default=4, help="how often an epoch goes through them")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        photos, count = some_of(arguments.photos, work / "photos", arguments.images, arguments.repeat)
        epochs: dict[str, Epoch] = {}
        for name, (make, module, _) in CONTENDERS.items():
            try:
                importlib.import_module(module)
                epochs[name] = make(photos, work)
            except ImportError as error:
                print(f"{name} is left out: {error}")
        times: dict[str, list[float]] = {name: [] for name in epochs}
        for round_ in range(arguments.rounds + 1):
            for name, epoch in epochs.items():
                figure = timed(epoch, count)
                if round_:  # the first, uncounted round warms caches
                    times[name].append(figure)
    table = Table(title=f"{count} photos to float32 batches, one thread", title_justify="left")
    for column in ("", "version", "µs an image", "torchvision to it"):
        table.add_column(column, justify="left" if column in ("", "version") else "right")
    rows = []
    for name, found in times.items():
        row: dict[str, Any] = {"name": name, "version": version_of(CONTENDERS[name][2])}
        row["us"] = statistics.median(found)
        row["ratio"] = statistics.median(b / a for a, b in zip(found, times["torchvision"], strict=True))
        rows.append(row)
        table.add_row(name, row["version"], f"{row['us']:,.0f}", f"{row['ratio']:.2f}×")
    make_console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps({"rows": rows, "images": count, "rounds": arguments.rounds}, indent=2))


def some_of(photos: Path, folder: Path, most: int, repeat: int) -> tuple[Path, int]:
    """Links to photos in a folder of class folders, spread over the classes, `repeat` to each; and how many links."""
    samples = fastpipe.ImageFolder(photos).samples
    chosen = list(samples[:: max(1, len(samples) // most)][:most]) * repeat
    for number, (path, label) in enumerate(chosen):
        link = folder / f"class{label:04}" / f"{number}{Path(path).suffix.lower()}"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(Path(path).absolute())
    return folder, len(chosen)


if __name__ == "__main__":
    main()
