"""Compares fastpipe from files to tensors with torchvision, with and without workers, and with other loaders.

    python benchmarks/pipeline.py PHOTOS [--only WORD] [--workers 2] [--repeat 4] [--rounds 5] [--json FILE]

PHOTOS is a folder as ImageFolder takes it (root/class/….jpg). Training is RandomResizedCrop(224) and a flip, as uint8
and as normalised floats, evaluation Resize(256) and CenterCrop(224).

The first rows are samples, in one process and one thread; albumentations works on images that cv2 decodes. The rows
"loaders" are by the clock: epochs of training as floats, in batches of 32 and random order, `--repeat` times through
the files, from the request of the first batch to the last one:

    stock loader   fastpipe.ImageFolder in torch's DataLoader, with persistent workers already running
    float32        fastpipe.DataLoader, normalised in the workers, as with torchvision
    uint8          the same, but workers send uint8, and the device "meta" normalises, which takes no time
    uint8, here    the same with device="cpu": the main process normalises, and competes with the workers
    threads, …     without workers: as many threads of this process make batches ahead

The time to the first batch is measured from making the loader, with spawned workers. The gap between two epochs on
threads is the wait for an epoch's first batch, as a multiple of the epoch's mean wait.

The row "libraries" has epochs of other loaders, in one process with one decoding thread, on `--images` photos:

    LitData        its StreamingDataset over the files' bytes in its chunks, with torchvision's transforms
    DALI           decoders.image_random_crop, resize with antialiasing, crop_mirror_normalize, on the CPU
    SPDL           its Pipeline and decoder (FFmpeg), crop and flip drawn by torchvision, filtered by FFmpeg (bicubic)

Libraries that aren't installed are named and left out (pip install litdata nvidia-dali-cuda120 spdl). FFCV has no
wheels; its format keeps images re-encoded, or raw.
"""

from __future__ import annotations

import importlib
import io
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import MEAN, STD, Benchmark, Pass, calls, command_line, evaluation, module, samples, torchvision, training
from PIL import Image
from torch.utils.data import DataLoader, RandomSampler

import fastpipe
from fastpipe import transforms as T
from fastpipe.tools.timing import summarize

BATCH, SIDE = 32, 224


# -- samples, in one thread


def pipelines(library: Any) -> dict[str, Any]:
    """The rows' transforms, of ``fastpipe.transforms`` or ``torchvision.transforms``."""
    train = [library.RandomResizedCrop(SIDE), library.RandomHorizontalFlip(), library.PILToTensor()]
    return {
        "train, uint8": library.Compose(train),
        "train, float": training(library),
        "evaluation, float": evaluation(library),
    }


def by_albumentations(name: str, paths: list[str]) -> dict[str, Pass]:
    """The usual hand-written cv2 dataset for a row; empty without albumentations, or if it has no such row."""
    if not name.startswith("train"):
        return {}
    try:
        A, cv2, last = module("albumentations"), module("cv2"), module("albumentations.pytorch").ToTensorV2()
    except ImportError:
        return {}
    normalize = [A.Normalize(MEAN, STD)] if name.endswith("float") else []
    chain = A.Compose([A.RandomResizedCrop(size=(SIDE, SIDE)), A.HorizontalFlip(), *normalize, last])

    def sample(path: str) -> Any:
        return chain(image=cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB))["image"]

    return {"albumentations": calls(sample, paths)}


def one_by_one(bench: Benchmark) -> None:
    folder, theirs = bench.options.photos, pipelines(torchvision.transforms)
    for name, transform in pipelines(T).items():
        ours = fastpipe.ImageFolder(folder, transform)
        reference = torchvision.datasets.ImageFolder(str(folder), theirs[name])
        contenders = {"torchvision": samples(reference, len(ours))}
        contenders |= by_albumentations(name, [path for path, _ in ours.samples])
        bench.row(name, contenders | {"fastpipe": samples(ours, len(ours))}, len(ours), equal=["fastpipe"])


# -- loaders, with workers and on threads


def loaders(bench: Benchmark) -> float | None:
    """Times epochs of loaders, and their first batches; returns the gap between epochs if it is selected."""
    options = bench.options
    ours = fastpipe.ImageFolder(options.photos, training(T))
    theirs = torchvision.datasets.ImageFolder(options.photos, training(torchvision.transforms))
    count = len(ours) * options.repeat
    order = RandomSampler(range(len(ours)), num_samples=count)
    kept = {"batch_size": BATCH, "sampler": order, "num_workers": options.workers, "persistent_workers": True}
    threaded = {"batch_size": BATCH, "sampler": order, "threads": options.workers}
    if bench.wants("loaders: epoch"):
        made = {
            "torchvision": DataLoader(theirs, **kept),
            "uint8": fastpipe.DataLoader(ours, device="meta", **kept),
            "uint8, here": fastpipe.DataLoader(ours, device="cpu", **kept),
            "float32": fastpipe.DataLoader(ours, **kept),
            "stock loader": DataLoader(ours, **kept),
            "threads, float32": fastpipe.DataLoader(ours, **threaded),
            "threads, uint8": fastpipe.DataLoader(ours, device="meta", **threaded),
        }
        passes: dict[str, Pass] = {who: (lambda loader=loader: loader) for who, loader in made.items()}
        bench.row("loaders: epoch", passes, count, equal=(), clock=time.perf_counter)
        del made, passes
    if bench.wants("loaders: first batch"):
        few = {"sampler": RandomSampler(range(len(ours)), num_samples=2 * options.workers * BATCH)}
        spawned = {**kept, **few, "persistent_workers": False, "multiprocessing_context": "spawn"}
        starts: dict[str, Callable[[], Any]] = {
            "torchvision": lambda: DataLoader(theirs, **spawned),
            "fastpipe": lambda: fastpipe.DataLoader(ours, **spawned),
            "fastpipe on threads": lambda: fastpipe.DataLoader(ours, **{**threaded, **few}),
        }
        taken = {who: [first_batch_us(make) for _ in range(min(options.rounds, 3))] for who, make in starts.items()}
        bench.add("loaders: first batch", {who: summarize(each) for who, each in taken.items()}, None)
    if not bench.wants("loaders: gap"):
        return None
    seeded = fastpipe.ImageFolder(options.photos, training(T), seed=0)
    between = gap(fastpipe.DataLoader(seeded, BATCH, shuffle=True, threads=options.workers), options.rounds)
    print(f"gap between epochs on threads: {between:.2f} batches")
    return between


def first_batch_us(make: Callable[[], Any]) -> float:
    """Microseconds from making a loader to its first batch."""
    start = time.perf_counter()
    iterator = iter(make())
    next(iterator)
    seconds = time.perf_counter() - start
    # Finish the epoch: a spawned worker of torch's that is ended while its thread sends a batch prints "terminate
    # called without an active exception".
    for _ in iterator:
        pass
    return seconds * 1e6


def gap(loader: Any, epochs: int) -> float:
    """The wait for an epoch's first batch as a multiple of the mean wait for a batch; the median over epochs."""
    found = []
    for number in range(epochs + 1):
        waits, start = [], time.perf_counter()
        for _ in loader:
            waits.append(time.perf_counter() - start)
            start = time.perf_counter()
        if number:
            found.append(waits[0] / statistics.mean(waits))
    return statistics.median(found)


# -- other libraries' loaders, with one thread


def of_torchvision(photos: Path, work: Path) -> Pass:
    loader = DataLoader(torchvision.datasets.ImageFolder(photos, training(torchvision.transforms)), BATCH)
    return lambda: loader


def of_fastpipe(photos: Path, work: Path) -> Pass:
    loader = fastpipe.DataLoader(fastpipe.ImageFolder(photos, training(T)), BATCH, num_workers=0)
    return lambda: loader


def of_packed(photos: Path, work: Path) -> Pass:
    fastpipe.pack(photos, work / "packed", progress=False)
    return of_fastpipe(work / "packed", work)


def of_litdata(photos: Path, work: Path) -> Pass:
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

    loader = litdata.StreamingDataLoader(Photos(str(chunks)), batch_size=BATCH, num_workers=0)
    return lambda: loader


def _bytes_of(file: tuple[str, int]) -> tuple[bytes, int]:
    path, label = file
    return Path(path).read_bytes(), label


def of_dali(photos: Path, work: Path) -> Pass:
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

    def epoch() -> Iterator[Any]:
        nonlocal ended
        if ended:
            batches.reset()  # it begins to prefetch, which belongs to this contender's time
        yield from ((batch["images"], batch["labels"]) for (batch,) in batches)
        ended = True

    return epoch


def of_spdl(photos: Path, work: Path) -> Pass:
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

    def epoch() -> Iterator[Any]:
        builder = spdl.pipeline.PipelineBuilder().add_source(files).pipe(image, concurrency=1)
        pipeline = builder.aggregate(BATCH).pipe(batch).add_sink(2).build(num_threads=1)
        with pipeline.auto_stop():
            yield from pipeline.get_iterator()

    return epoch


# By name: the function that makes epochs, the module, and the distributions that it needs.
LIBRARIES: dict[str, tuple[Callable[[Path, Path], Pass], str, tuple[str, ...]]] = {
    "torchvision": (of_torchvision, "torchvision", ("torchvision",)),
    "LitData": (of_litdata, "litdata", ("litdata",)),
    "DALI": (of_dali, "nvidia.dali", ("nvidia-dali-cuda130", "nvidia-dali-cuda120")),
    "SPDL": (of_spdl, "spdl.io", ("spdl-io", "spdl")),
    "fastpipe, packed": (of_packed, "fastpipe", ()),
    "fastpipe": (of_fastpipe, "fastpipe", ()),
}


def libraries(bench: Benchmark) -> None:
    """Times epochs of each library's loader; ratios are of the processor time of all threads."""
    if not bench.wants("libraries: train, float"):
        return
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        photos, count = some_of(bench.options.photos, work / "photos", bench.options.images, bench.options.repeat)
        passes: dict[str, Pass] = {}
        for name, (make, needed, distributions) in LIBRARIES.items():
            try:
                importlib.import_module(needed)
                passes[name] = checked(make(photos, work), count)
                print(f"{name} {version_of(distributions)}")
            except ImportError as error:
                print(f"{name} is left out: {error}")
        equal = [name for name in passes if name.startswith("fastpipe")]
        bench.row("libraries: train, float", passes, count, equal=equal)


def version_of(distributions: tuple[str, ...]) -> str:
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return fastpipe.__version__


def checked(epoch: Pass, expected: int) -> Pass:
    """Checks that an epoch's batches have all images, in the right form."""

    def batches() -> Iterator[Any]:
        seen = 0
        for images, labels in epoch():
            assert images.dtype == torch.float32, images.dtype
            assert tuple(images.shape[1:]) == (3, SIDE, SIDE), images.shape
            seen += len(images)
            yield images, labels
        assert seen == expected, f"{seen} of {expected} images"

    return batches


def some_of(photos: Path, folder: Path, most: int, repeat: int) -> tuple[Path, int]:
    """Makes `repeat` links to each of some photos, spread over the classes; returns the folder and their number."""
    samples = fastpipe.ImageFolder(photos).samples
    chosen = list(samples[:: max(1, len(samples) // most)][:most]) * repeat
    for number, (path, label) in enumerate(chosen):
        link = folder / f"class{label:04}" / f"{number}{Path(path).suffix.lower()}"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(Path(path).absolute())
    return folder, len(chosen)


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--workers", type=int, default=2, help="workers of loaders, or threads (%(default)s)")
    parser.add_argument("--repeat", type=int, default=4, help="times that an epoch reads each file (%(default)s)")
    parser.add_argument("--images", type=int, default=128, help="photos for other libraries, at most (%(default)s)")
    bench = Benchmark(parser.parse_args(), "files to tensors")
    one_by_one(bench)
    between = loaders(bench)
    libraries(bench)
    bench.finish(workers=bench.options.workers, gap=between)


if __name__ == "__main__":
    main()
