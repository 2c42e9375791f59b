"""The core against what else decodes and resizes, all in one run.

    python benchmarks/core.py [--photos PATH] [--count 100] [--rounds 7] [--only TEXT] [--json FILE]

One thread, bytes in memory. The photos are JPEGs from below PATH, or made here. Rounds are interleaved, and who goes
first changes, so that drift of the machine hits all alike; a figure is the median over rounds of the time for one
image, a ratio the median of each round's ratio to the core's time, above 1 where the core is faster. Before anything is
timed, the core's pixels are compared with Pillow's: all of them, whole photos, boxes and resized ones.

Held against: whole images 2.0 times as fast as the fastest of turbojpeg, simplejpeg, cv2 and Pillow, progressive ones
1.3 times, a RandomResizedCrop's box 2.3 times as fast as turbojpeg's region; a resize 6 times as fast as Pillow and 2.3
times as fast as torch's native kernel; normalised float32 3 times as fast as the fastest way without the core.
(fastpipe's own functions resize in the core, too: their column says what one call for all saves.)
"""

from __future__ import annotations

import argparse
import io
import json
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import corpus
import cv2
import numpy as np
import simplejpeg
import torch
from PIL import Image
from rich.console import Console
from rich.table import Table

from fastpipe import core, readers, transforms
from fastpipe.core import Filter
from fastpipe.transforms import functional
from fastpipe.types import Box, DecodeRequest

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
CROP, OUT = (270, 340), (224, 224)
"""Height and width of what is resized, a usual crop of a photo, and of the result."""

TARGETS = {
    ("whole", "fastest"): 2.0,
    ("progressive", "fastest"): 1.3,
    ("region", "turbojpeg"): 2.3,
    ("resize", "pillow"): 6.0,
    ("resize", "torch"): 2.3,
    ("normalised float32", "fastest"): 3.0,
}

Contender = Callable[[int], Any]


def load(folder: Path | None, count: int) -> list[bytes]:
    """The files: baseline JPEGs that the core decodes, the same ones on every run."""
    if folder is None:
        return [corpus.jpeg(375, 500, ("420", "444")[seed % 2], seed, 92) for seed in range(min(count, 20))]
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    random.Random(0).shuffle(paths)
    found, refused = [], 0
    for path in paths:
        data = path.read_bytes()
        header = readers.parse_header(data)
        if header.format != "JPEG" or header.progressive or header.color_space != "YCbCr":
            continue
        job, out = core.Job(), np.empty((*header.size, 3), np.uint8)
        job.read(data)
        job.write_array(out)
        if core.run(job):
            refused += 1
            continue
        found.append(data)
        if len(found) == count:
            break
    if not found:
        raise SystemExit(f"the core decodes no baseline JPEG in colour below {folder}")
    print(f"{len(found)} photos, and {refused} that the core refuses", file=sys.stderr)
    return found


def pillow(data: bytes) -> np.ndarray[Any, Any]:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def core_decode(files: list[bytes], boxes: list[Box] | None = None) -> Contender:
    """Header, box and pixels into a new array, as a reader gives them."""
    job = core.Job()

    def decode(index: int) -> np.ndarray[Any, Any]:
        data = files[index]
        if boxes is None:
            header = core.read_header(data)
            assert not isinstance(header, core.Status)
            box = Box(0, 0, *header.size)
        else:
            box = boxes[index]
        out = np.empty((*box.size, 3), np.uint8)
        job.read(data, box)
        job.write_array(out)
        if status := core.run(job):
            raise ValueError(core.status_text(status))
        return out

    return decode


def whole(files: list[bytes]) -> dict[str, Contender]:
    """Whole images to RGB."""
    found: dict[str, Contender] = {
        "core": core_decode(files),
        "simplejpeg": lambda index: simplejpeg.decode_jpeg(files[index], "RGB"),
        "cv2": lambda index: cv2.imdecode(np.frombuffer(files[index], np.uint8), cv2.IMREAD_COLOR_RGB),
        "pillow": lambda index: pillow(files[index]),
    }
    if "turbojpeg" in readers.available_readers():
        turbo = readers.get_reader("turbojpeg")
        found["turbojpeg"] = lambda index: turbo.decode(files[index])
    return found


def progressive(files: list[bytes]) -> dict[str, Contender]:
    """The same photos with their coefficients in progressive scans."""
    turned = []
    for data in files[: max(10, len(files) // 4)]:
        out = io.BytesIO()
        with Image.open(io.BytesIO(data)) as image:
            image.save(out, "JPEG", quality="keep", progressive=True)
        turned.append(out.getvalue())
    return whole(turned)


def crop_boxes(files: list[bytes]) -> list[Box]:
    """A RandomResizedCrop's box of each, the same ones on every run."""
    torch.manual_seed(0)
    drawn = []
    for data in files:
        height, width = readers.parse_header(data).size
        box = transforms.RandomResizedCrop.get_params(torch.empty(3, height, width), [0.08, 1.0], [3 / 4, 4 / 3])
        drawn.append(Box(*map(int, box)))
    return drawn


def region(files: list[bytes]) -> dict[str, Contender]:
    """A RandomResizedCrop's box of each."""
    boxes = crop_boxes(files)
    found: dict[str, Contender] = {"core": core_decode(files, boxes)}
    for name in ("turbojpeg", "cv2"):
        if name in readers.available_readers():
            reader, scratch = readers.get_reader(name), readers.Scratch()
            found[name] = lambda index, reader=reader, scratch=scratch: reader.decode_request(
                files[index], DecodeRequest(boxes[index]), scratch
            )
    return found


def crops(files: list[bytes]) -> list[np.ndarray[Any, Any]]:
    """Pieces of that size of the photos' beginnings, made larger where a photo is smaller."""
    found = []
    for data in files[:20]:
        image = Image.fromarray(pillow(data))
        found.append(np.asarray(image.resize(CROP[::-1], Image.Resampling.BICUBIC)).copy())
    return found


def core_resize(images: list[np.ndarray[Any, Any]], normalized: bool) -> Contender:
    job = core.Job()
    job.resize(CROP, (0, 0), OUT, (0, 0, *OUT), Filter.BILINEAR, _vertical_first(CROP, OUT))
    array, tensor = np.empty((*OUT, 3), np.uint8), torch.empty((3, *OUT))
    if normalized:
        job.write_tensor(tensor, MEAN, STD)
    else:
        job.write_array(array)

    def resize(index: int) -> Any:
        job.read_pixels(images[index])
        if status := core.run(job):
            raise ValueError(core.status_text(status))
        return tensor if normalized else array

    return resize


def _vertical_first(crop: tuple[int, int], out: tuple[int, int]) -> bool:
    """Pillow's order of the passes, since version 13."""
    rows, columns = crop[0] - out[0], crop[1] - out[1]
    return int(Image.__version__.partition(".")[0]) >= 13 and rows > 0 and rows > 2 * columns


def resize(files: list[bytes]) -> dict[str, Contender]:
    """270×340 uint8 to 224×224, bilinear with antialiasing."""
    images = crops(files)
    pictures = [Image.fromarray(image) for image in images]
    tensors = [torch.from_numpy(image).permute(2, 0, 1)[None] for image in images]  # channels last, torch's best
    return {
        "core": core_resize(images, False),
        "pillow": lambda index: pictures[index].resize(OUT[::-1], Image.Resampling.BILINEAR),
        "torch": lambda index: torch.nn.functional.interpolate(
            tensors[index], OUT, mode="bilinear", antialias=True, align_corners=False
        ),
        "fastpipe": lambda index: functional.resize(images[index], list(OUT)),
    }


def normalised(files: list[bytes]) -> dict[str, Contender]:
    """The same, and on to a normalised float32 tensor (C, H, W)."""
    images = crops(files)
    pictures = [Image.fromarray(image) for image in images]
    tensors = [torch.from_numpy(image).permute(2, 0, 1)[None] for image in images]
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))

    def by_torch(index: int) -> torch.Tensor:
        small = torch.nn.functional.interpolate(
            tensors[index], OUT, mode="bilinear", antialias=True, align_corners=False
        )[0]
        return small.contiguous().to(torch.float32).div_(255).sub_(mean).div_(std)

    def by_pillow(index: int) -> torch.Tensor:
        small = pictures[index].resize(OUT[::-1], Image.Resampling.BILINEAR)
        return functional.normalize(functional.to_tensor(small), MEAN, STD)

    def by_fastpipe(index: int) -> torch.Tensor:
        return functional.normalize(functional.to_tensor(functional.resize(images[index], list(OUT))), MEAN, STD)

    return {"core": core_resize(images, True), "torch": by_torch, "pillow": by_pillow, "fastpipe": by_fastpipe}


ROWS: dict[str, Callable[[list[bytes]], dict[str, Contender]]] = {
    "whole": whole,
    "region": region,
    "progressive": progressive,
    "resize": resize,
    "normalised float32": normalised,
}


def check(files: list[bytes]) -> None:
    """That the core gives Pillow's pixels; ends the program where it doesn't."""
    boxes = crop_boxes(files)
    of_whole, of_box = core_decode(files), core_decode(files, boxes)
    for index, (data, box) in enumerate(zip(files, boxes, strict=True)):
        expected = pillow(data)
        part = expected[box.top : box.bottom, box.left : box.right]
        if not (np.array_equal(of_whole(index), expected) and np.array_equal(of_box(index), part)):
            raise SystemExit(f"photo {index}: the core's pixels aren't Pillow's")
    contenders = resize(files)
    for index in range(len(files[:20])):
        if not np.array_equal(contenders["core"](index), np.asarray(contenders["pillow"](index))):
            raise SystemExit(f"resized photo {index}: the core's pixels aren't Pillow's")
    contenders = normalised(files)
    for index in range(len(files[:20])):
        if not torch.equal(contenders["core"](index), contenders["pillow"](index)):
            raise SystemExit(f"normalised photo {index}: the core's numbers aren't Pillow's and torch's")
    print(
        f"{len(files)} whole photos and {len(files)} boxes equal Pillow's, and so do the resized ones", file=sys.stderr
    )


def measure(contenders: dict[str, Contender], count: int, rounds: int) -> dict[str, list[float]]:
    """Microseconds an image, one figure a round, for each contender."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for number in range(rounds + 1):  # the first one warms up
        for name in names[number % len(names) :] + names[: number % len(names)]:
            contender = contenders[name]
            began = time.perf_counter()
            for index in range(count):
                contender(index)
            if number:
                times[name].append((time.perf_counter() - began) / count * 1e6)
    return times


def summary(times: dict[str, list[float]]) -> dict[str, float]:
    """Medians, and ratios to the core's time; "fastest" is of the others, by their medians, but our own."""
    found = {f"{name} µs": statistics.median(values) for name, values in times.items()}
    others = [name for name in times if name != "core"]
    for name in others:
        pairs = zip(times[name], times["core"], strict=True)
        found[f"× {name}"] = statistics.median(other / own for other, own in pairs)
    fastest = min((name for name in others if name != "fastpipe"), key=lambda name: found[f"{name} µs"])
    found["× fastest"] = found[f"× {fastest}"]
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, help="a folder of photos; photo-like images are made without it")
    parser.add_argument("--count", type=int, default=100, help="photos (%(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="(%(default)s)")
    parser.add_argument("--only", default="", help="only rows whose name contains this")
    parser.add_argument("--json", type=Path, help="also write everything there")
    given = parser.parse_args()
    if not core.available():
        raise SystemExit(core.why_not())
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    files = load(given.photos, given.count)
    check(files)
    results: dict[str, dict[str, float]] = {}
    for name, row in ROWS.items():
        if given.only.lower() not in name:
            continue
        contenders = row(files)
        count = {"progressive": max(10, len(files) // 4)}.get(name, len(files))
        count = min(count, len(files), 20 if name in ("resize", "normalised float32") else len(files))
        repeats = 5 if name in ("resize", "normalised float32") else 1
        if repeats > 1:
            contenders = {
                one: (lambda index, run=run, count=count: run(index % count)) for one, run in contenders.items()
            }
        results[name] = summary(measure(contenders, count * repeats, given.rounds))
    show(results)
    if given.json:
        versions = {"pillow": Image.__version__, "torch": torch.__version__, "opencv": cv2.__version__}
        report = {"isa": core.isa(), "python": platform.python_version(), **versions, "photos": len(files)}
        report |= {"rounds": given.rounds, "rows": results, "misses": misses(results)}
        given.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def misses(results: dict[str, dict[str, float]]) -> list[str]:
    """The targets that were missed, with the figure."""
    return [
        f"{row}: {results[row][f'× {name}']:.2f} × {name}, target {least}"
        for (row, name), least in TARGETS.items()
        if row in results and results[row].get(f"× {name}", least) < least
    ]


def show(results: dict[str, dict[str, float]]) -> None:
    console = Console(width=max(110, Console().width))
    table = Table(title=f"One image, one thread, microseconds (the core: {core.isa()}; in brackets: times as fast)")
    names = list(dict.fromkeys(key[:-3] for result in results.values() for key in result if key.endswith(" µs")))
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right")
    for row, result in results.items():
        cells = []
        for name in names:
            spent, ratio = result.get(f"{name} µs"), result.get(f"× {name}")
            cells.append("" if spent is None else f"{spent:.0f}" + ("" if ratio is None else f" ({ratio:.2f})"))
        table.add_row(row, *cells)
    console.print(table)
    for line in misses(results) or ["all targets met"]:
        console.print(line if line == "all targets met" else f"missed: {line}")


if __name__ == "__main__":
    main()
