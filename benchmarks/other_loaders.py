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

import importlib
import io
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import MEAN, STD, Benchmark, Pass, command_line, torchvision, training
from PIL import Image
from torch.utils.data import DataLoader as StockLoader

import fastpipe
from fastpipe import transforms as T

BATCH, SIDE = 32, 224

Epoch = Callable[[], Iterable[Any]]


def stock(dataset: Any, kind: Any = StockLoader) -> Epoch:
    """Epochs of a loader of torch's class, in the main process."""
    loader = kind(dataset, batch_size=BATCH, num_workers=0)
    return lambda: loader


def of_torchvision(photos: Path, work: Path) -> Epoch:
    dataset = torchvision.datasets.ImageFolder(photos, training(torchvision.transforms))
    return stock(dataset)


def of_fastpipe(photos: Path, work: Path) -> Epoch:
    return stock(fastpipe.ImageFolder(photos, training(T)), fastpipe.DataLoader)


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
    transform = training(torchvision.transforms)

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
    def pipeline() -> Any:
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

    made = pipeline()
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


def checked(epoch: Epoch, expected: int) -> Pass:
    """The batches of an epoch: all images have to come, and in the right form."""

    def batches() -> Iterator[Any]:
        seen = 0
        for images, labels in epoch():
            assert images.dtype == torch.float32, images.dtype
            assert tuple(images.shape[1:]) == (3, SIDE, SIDE), images.shape
            seen += len(images)
            yield images, labels
        assert seen == expected, f"{seen} of {expected} images"

    return batches


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--images", type=int, default=128, help="how many photos, at most")
    parser.add_argument("--repeat", type=int, default=4, help="how often an epoch goes through them")
    bench = Benchmark(parser.parse_args(), "photos to float32 batches, one thread")
    options = bench.options
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        photos, count = some_of(options.photos, work / "photos", options.images, options.repeat)
        passes: dict[str, Pass] = {}
        for name, (make, module, distributions) in CONTENDERS.items():
            try:
                importlib.import_module(module)
                passes[name] = checked(make(photos, work), count)
                print(f"{name} {version_of(distributions)}")
            except ImportError as error:
                print(f"{name} is left out: {error}")
        bench.row("training", passes, count, equal=[name for name in passes if name.startswith("fastpipe")])
    bench.finish(images=count)


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
