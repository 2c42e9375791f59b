"""Compares the core with other decoders and resizers: whole JPEGs and PNGs, regions, resized and normalised images.

    python benchmarks/core.py PHOTOS [--count 60] [--rounds 5] [--workers 2] [--only WORD] [--json FILE]

One thread, bytes in memory. The JPEGs are baseline files from below PHOTOS, and the same with their coefficients in
progressive scans. The PNGs are made in a temporary folder: the photos, with a longer side of 500 pixels, as Pillow
writes them by default and with ``optimize=True``, and palette masks of 20 classes. A region is the box of a
RandomResizedCrop. Pipelines (RandomResizedCrop(224), flip, ToTensor, Normalize) go from PNG files to float tensors, one
by one, and in loaders with `--workers` workers, by the clock. The core's pixels are compared with Pillow's before
anything is timed. `mark` is the expected speed as a multiple of the first contender's.
"""

from __future__ import annotations

import io
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import simplejpeg
import torch
from harness import MEAN, STD, Benchmark, calls, command_line, photos, samples, torchvision, training
from PIL import Image
from torch.utils.data import DataLoader as StockLoader
from torch.utils.data import RandomSampler

import fastpipe
from fastpipe import core, readers
from fastpipe import transforms as T
from fastpipe.transforms import functional as F
from fastpipe.types import Box

CROP, OUT = (270, 340), (224, 224)
"""Height and width of the input of the resize (a typical crop of a photo), and of the result."""

SIDE, CLASSES, REPEAT = 500, 20, 3
PNGS = {"default": {}, "optimize": {"optimize": True}, "masks": {}}

Decode = Callable[[bytes], Any]


def baseline(paths: Sequence[Path], count: int) -> list[bytes]:
    """The bytes of the first baseline JPEGs in colour."""
    found = []
    for path in paths:
        header = readers.parse_header(data := path.read_bytes())
        if header.format == "JPEG" and header.plain and not header.progressive and header.color_space == "YCbCr":
            found.append(data)
        if len(found) == count:
            break
    if not found:
        raise SystemExit("there is no baseline JPEG in colour")
    return found


def in_several_scans(data: bytes) -> bytes:
    """Converts a JPEG to progressive scans of the same coefficients."""
    out = io.BytesIO()
    with Image.open(io.BytesIO(data)) as image:
        image.save(out, "JPEG", quality="keep", progressive=True)
    return out.getvalue()


def pillow(data: bytes, mode: str | None = "RGB") -> np.ndarray[Any, Any]:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image if mode is None else image.convert(mode))


def opencv(data: bytes, flag: int = cv2.IMREAD_COLOR_RGB) -> Any:
    return cv2.imdecode(np.frombuffer(data, np.uint8), flag)


def turbojpeg() -> dict[str, Any]:
    """The reader of libjpeg-turbo 3 by name; empty if it doesn't load here."""
    name = "turbojpeg"
    return {name: readers.get_reader(name)} if name in readers.available_readers() else {}


def crops(files: Sequence[bytes]) -> list[Box]:
    """Draws a RandomResizedCrop's box for each file, the same on every run."""
    torch.manual_seed(0)
    sizes = [readers.parse_header(data).size for data in files]
    drawn = (T.RandomResizedCrop.get_params(torch.empty(3, *size), [0.08, 1.0], [3 / 4, 4 / 3]) for size in sizes)
    return [Box(*map(int, box)) for box in drawn]


def of_box(data: bytes, box: Box, decode: Decode = pillow) -> np.ndarray[Any, Any]:
    """Decodes the whole image, and cuts a box out."""
    part: np.ndarray[Any, Any] = decode(data)[box.top : box.bottom, box.left : box.right]
    return part


def decoding(bench: Benchmark, name: str, files: Sequence[bytes], others: dict[str, Decode], mark: float) -> None:
    """Times whole images with other decoders and the core."""
    own = readers.get_reader("core").decode
    contenders = {who: calls(decode, files) for who, decode in {**others, "fastpipe": own}.items()}
    bench.row(name, contenders, len(files), equal=["fastpipe"], reference=calls(pillow, files), mark=mark)


def regions(bench: Benchmark, name: str, files: Sequence[bytes], others: dict[str, Any], mark: float) -> None:
    """Times a box of each image: by readers that decode regions, and by decoders of whole images."""
    pairs = list(zip(files, crops(files), strict=True))
    contenders = {
        who: calls(
            lambda pair, how=how: of_box(*pair, how) if callable(how) else how.decode_region(*pair),
            pairs,
        )
        for who, how in {**others, "fastpipe": readers.get_reader("core")}.items()
    }
    reference = calls(lambda pair: of_box(*pair), pairs)
    bench.row(name, contenders, len(files), equal=["fastpipe"], reference=reference, mark=mark)


def jpegs(bench: Benchmark, files: Sequence[bytes]) -> None:
    turbo = turbojpeg()
    others: dict[str, Decode] = {
        "simplejpeg": lambda data: simplejpeg.decode_jpeg(data, "RGB"),
        **{name: reader.decode for name, reader in turbo.items()},
        "opencv": opencv,
        "pillow": pillow,
    }
    decoding(bench, "jpeg: whole", files, others, 2.0)
    decoding(bench, "jpeg: progressive", [*map(in_several_scans, files[: max(10, len(files) // 4)])], others, 1.3)
    regions(bench, "jpeg: region", files, turbo or {"opencv": opencv}, 2.3)


def resizing(bench: Benchmark, files: Sequence[bytes]) -> None:
    """Times the resize of 270×340 to 224×224, bilinear with antialiasing; also to normalised floats (C, H, W)."""
    images = [Image.fromarray(pillow(data)).resize(CROP[::-1], Image.Resampling.BICUBIC) for data in files[:20]]
    tensors = [torch.from_numpy(np.array(image)).permute(2, 0, 1)[None] for image in images]  # torch's fastest layout
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))

    def by_torch(tensor: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(tensor, OUT, mode="bilinear", antialias=True, align_corners=False)[0]

    def normalised_by_torch(tensor: torch.Tensor) -> torch.Tensor:
        return by_torch(tensor).contiguous().to(torch.float32).div_(255).sub_(mean).div_(std)

    def by_pillow(image: Image.Image) -> Image.Image:
        return image.resize(OUT[::-1], Image.Resampling.BILINEAR)

    theirs = torchvision.transforms.functional
    ways: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any], float]] = {
        "resize": (by_torch, by_pillow, lambda image: F.resize(image, OUT), 2.3),
        "resize, normalised": (
            normalised_by_torch,
            lambda image: theirs.normalize(theirs.to_tensor(by_pillow(image)), MEAN, STD),
            T.Compose([T.Resize(OUT), T.ToTensor(), T.Normalize(MEAN, STD)]),
            3.0,
        ),
    }
    for name, (torchs, pillows, ours, mark) in ways.items():
        contenders = {
            "torch": calls(torchs, tensors),
            "pillow": calls(pillows, images),
            "fastpipe": calls(ours, images),
        }
        reference = contenders["pillow"]
        bench.row(name, contenders, len(images), equal=["fastpipe"], reference=reference, mark=mark, least_s=0.05)


def make_pngs(paths: Sequence[Path], count: int, folder: Path) -> None:
    """Writes the PNGs, in a folder for each kind, as ImageFolder takes them."""
    made = 0
    for path in paths:
        with Image.open(path) as image:
            if image.mode != "RGB" or made == count:
                continue
            share = SIDE / max(image.size)
            small = image.resize((max(1, round(image.width * share)), max(1, round(image.height * share))), 1)
        small.info.clear()
        steps = small.convert("L").resize((small.width // 16 + 1, small.height // 16 + 1), Image.Resampling.BOX)
        levels = np.asarray(steps.resize(small.size, Image.Resampling.BICUBIC)).astype(np.uint16) * CLASSES // 256
        mask = Image.frombytes("P", small.size, levels.astype(np.uint8).tobytes())
        mask.putpalette(random.Random(3).randbytes(3 * CLASSES))
        for kind, options in PNGS.items():
            target = folder / kind / str(made % 2)
            target.mkdir(parents=True, exist_ok=True)
            (mask if kind == "masks" else small).save(target / f"{made:04}.png", **options)
        made += 1


def pngs(bench: Benchmark, folder: Path) -> None:
    for kind in PNGS:
        files = [path.read_bytes() for path in sorted((folder / kind).rglob("*.png"))]
        others = {"opencv": opencv, "pillow": pillow}
        decoding(bench, f"png {kind}: whole", files, others, 3.0)
        regions(bench, f"png {kind}: region", files, others, 3.5)
        if kind == "masks":
            contenders = {
                "opencv": calls(lambda data: opencv(data, cv2.IMREAD_UNCHANGED), files),
                "pillow": calls(lambda data: pillow(data, None), files),
                "fastpipe": calls(lambda data: readers.read_image(data, reader="core", mode="P"), files),
            }
            reference = contenders["pillow"]
            bench.row("png masks: indices", contenders, len(files), equal=["fastpipe"], reference=reference, mark=3.0)
        else:
            pipelines(bench, f"png {kind}", folder / kind)


def pipelines(bench: Benchmark, name: str, folder: Path) -> None:
    """Times pipelines from files to floats: one by one, and in loaders."""
    ours = fastpipe.ImageFolder(folder, training(T))
    theirs = torchvision.datasets.ImageFolder(folder, training(torchvision.transforms))
    count, workers = len(ours), bench.options.workers
    contenders = {"torchvision": samples(theirs, count), "fastpipe": samples(ours, count)}
    bench.row(f"{name}: pipeline", contenders, count, mark=3.0)
    options: dict[str, Any] = {"batch_size": 32, "sampler": RandomSampler(range(count), num_samples=count * REPEAT)}
    with_workers = {**options, "num_workers": workers, "persistent_workers": True}
    for kind, own in (("loader", with_workers), ("loader on threads", {**options, "threads": workers})):
        if bench.wants(f"{name}: {kind}"):
            loaders = {"torchvision": StockLoader(theirs, **with_workers), "fastpipe": fastpipe.DataLoader(ours, **own)}
            passes = {who: (lambda loader=loader: loader) for who, loader in loaders.items()}
            bench.row(f"{name}: {kind}", passes, count * REPEAT, equal=(), mark=3.0, clock=time.perf_counter)


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--count", type=int, default=60, help="files of each kind (%(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="workers of loaders (%(default)s)")
    bench = Benchmark(parser.parse_args(), f"the core ({core.isa()})" if core.available() else core.why_not())
    options = bench.options
    paths = photos(options.photos, 5 * options.count)
    files = baseline(paths, options.count)
    jpegs(bench, files)
    resizing(bench, files)
    with tempfile.TemporaryDirectory() as made:
        make_pngs(paths, options.count, Path(made))
        pngs(bench, Path(made))
    bench.finish(count=options.count, workers=options.workers)


if __name__ == "__main__":
    main()
