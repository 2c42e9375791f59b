"""The sections of the performance page, each from the figures that one benchmark wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

WIDE = "375×500"


def table(head: list[str], rows: list[list[str]], left: int = 1) -> str:
    lines = [head, ["---"] * left + ["---:"] * (len(head) - left), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def pipeline_part(data: Any) -> str:
    rows = []
    for row in data["rows"]:
        other = row.get("albumentations_ms")
        rows.append([
            row["pipeline"],
            f"{row['fastpipe_ms']:.2f}",
            f"{row['torchvision_ms']:.2f}",
            f"**{row['torchvision_ratio']:.2f}×**",
            f"{other:.2f}" if other else "",
            f"{row['albumentations_ratio']:.2f}×" if other else "",
        ])  # fmt: skip
    head = ["pipeline", "fastpipe", "torchvision", "ratio", "albumentations", "ratio"]
    return f"""## From files to tensors

![Images a second from files to tensors](images/speed.svg)

{table(head, rows)}

Milliseconds an image, one process, one thread. Training is `RandomResizedCrop(224)` and a flip, evaluation
`Resize(256)` and `CenterCrop(224)`; albumentations works on images that cv2 decoded, and doesn't filter when it
shrinks."""


LOADERS = {
    "torchvision": "torchvision's `ImageFolder` in torch's loader, float32",
    "stock loader": "fastpipe's `ImageFolder` in torch's loader, float32",
    "float32": "`fastpipe.DataLoader`, float32",
    "uint8, here": '`fastpipe.DataLoader(device="cpu")`: normalised in the main process',
    "uint8": "`fastpipe.DataLoader(device=…)`: normalised on the device, whose time isn't counted",
    "threads, float32": "`fastpipe.DataLoader(num_workers=0, threads=…)`, as many threads, float32",
    "threads, uint8": "the same with `device=…`",
}


def loaders(data: Any) -> dict[str, Any]:
    return {row["loader"]: row for row in data["rows"]}


def loader_part(data: Any) -> str:
    figures = loaders(data)
    rows = [
        [text, f"{figures[name]['images_per_s']:,.0f}", f"{figures[name]['ratio']:.2f}×"]
        for name, text in LOADERS.items()
        if name in figures
    ]
    first = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in data["first_batch_s"].items())
    return f"""## With workers

{table(["loader", "images/s", "to torchvision"], rows)}

The same training transform, {data["workers"]} persistent workers, random order. From making the loader to its first
batch with spawned workers: {first}."""


def scaling_part(data: Any) -> str:
    cores = list(data["float32"]["rates"])
    rates = [
        [f"{name} batches", *(f"{data[name][part]:,.0f}" for part in ("python_us", "core_us"))]
        + [f"{data[name]['rates'][count]:,.0f}" for count in cores]
        for name in ("float32", "uint8")
    ]
    counts = list(next(iter(data["memory_mb"].values())))
    memory = [[name, *(f"{taken[count]:,.0f}" for count in counts)] for name, taken in data["memory_mb"].items()]
    return f"""## One process on many cores, and memory

{table(["", "Python, µs an image", "core, µs", *(f"{count} cores: images/s" for count in cores)], rates)}

CPU time of an image on threads, and the images a second that so many cores make of it: Python's part is done by one
thread at a time, and limits the rest.

{table(["MB at most, beyond what is imported", *(f"{count} threads or workers" for count in counts)], memory)}

The main process and its workers together, batches of {data["batch_size"]} as float32; pages that processes share count
once."""


def gil_part(data: Any) -> str:
    shares, machine = data["shares"], data["machine"]
    threads = f"{data['threads']} thread{'s' * (data['threads'] > 1)}"
    return f"""## Beside Python code

A Python thread that counts in a loop, and a loader on {threads} in the same process: the counting thread keeps
{shares["count"]:.0%} of its speed, the loader {shares["load"]:.0%} of its rate. Two processes that count, without
any lock between them, keep {machine:.0%} each on that machine at that time: of this the counting thread keeps
{shares["count"] / machine:.0%}, the loader {shares["load"] / machine:.0%}."""


def transforms_part(data: Any) -> str:
    others = ("torchvision PIL", "torchvision tensor", "albumentations")
    rows = []
    for name, row in data["rows"].items():
        ratios = [row.get(f"× {other}") for other in others]
        rows.append([name, f"{row['fastpipe µs']:,.0f}", *(f"{ratio:.2f}×" if ratio else "" for ratio in ratios)])
    means = data["geometric_means"]
    summary = [
        [kind, *(f"{means[key][f'× {other}']:.2f}×" if f"× {other}" in means[key] else "" for other in others)]
        for kind, key in (("operations", "operations"), ("class pipelines", "pipelines"))
    ]
    return f"""## Single operations

How many times as fast as the others, geometric means:

{table(["", *others], summary)}

Operation by operation, on a uint8 image of {WIDE}, in one thread. A figure below 1 is where the other one is faster.

{table(["operation", "fastpipe, µs", *others], rows)}

albumentations' operations of the same name don't all give the same pixels: [the differences](albumentations.md)."""


def readers_part(data: Any) -> str:
    parts = []
    for format, about in data["formats"].items():
        cells: dict[str, dict[str, Any]] = {}
        for row in data["rows"]:
            if row["format"] == format:
                cells.setdefault(row["reader"], {})[row["request"]] = row
        rows = []
        for reader, found in sorted(cells.items(), key=lambda item: _time(item[1], "region", "workers_us")):
            figures = [
                _time(found, request, kind) for request in ("region", "full") for kind in ("single_us", "workers_us")
            ]
            rows.append([f"`{reader}`", *("" if figure == float("inf") else f"{figure:,.0f}" for figure in figures)])
        head = ["reader", "region", "in workers", "whole image", "in workers"]
        size = about["mean_bytes"] / 1000
        parts.append(f"{format.upper()}, {about['images']} files of {size:.0f} kB on average:\n\n{table(head, rows)}")
    tables = "\n\n".join(parts)
    return f"""## Readers

Microseconds an image, alone and in {data["workers"]} workers at once. A region is one that `RandomResizedCrop` draws;
readers without regions decode the whole image. Only readers whose pixels are Pillow's are listed.

{tables}"""


def _time(found: dict[str, Any], request: str, kind: str) -> float:
    return float((found.get(request) or {}).get(kind) or "inf")


def png_part(data: Any) -> str:
    rows = []
    for what, row in data["rows"].items():
        for name, ratio in row["times"].items():
            if name != "fastpipe":
                rows.append([what, name, f"{row['ms'][name]:.2f}", f"{row['ms']['fastpipe']:.2f}", f"{ratio:.2f}×"])
    head = ["files, work", "compared with", "ms", "fastpipe, ms", "ratio"]
    return f"""## PNG

PNGs of photos as Pillow writes them by default and with `optimize=True`, and palette masks of 20 classes,
{data["count"]} of each, milliseconds an image. A region is one that `RandomResizedCrop` draws; the pipeline is the
training one, from files to float32; loaders have {data["workers"]} workers, or as many threads.

{table(head, rows, left=2)}"""


def fidelity_part(data: Any) -> str:
    rows = [
        [
            f"1/{row['scale']}",
            str(row["images"]),
            f"{row['exact_ms']:.2f}",
            f"{row['fast_ms']:.2f}",
            f"{row['ratio']:.2f}×",
            f"{row['mean_error']:.2f}",
            f"{row['error_999']:.0f}",
            f"{row['largest_error']:.0f}",
        ]
        for row in data["rows"]
    ]
    head = ["decoded at", "images", "exact, ms", "fast, ms", "ratio", "mean error", "99.9%", "largest"]
    return f"""## What `fidelity="fast"` gains and costs

`Resize` to {data["size"]}×{data["size"]} of large photos, grouped by the scale that they may be decoded at. Errors are
absolute differences to the exact result in 1/255.

{table(head, rows)}"""


def index_part(data: Any) -> str:
    lines = []
    if "large" in data:
        large, vision = data["large"], data["large"]["torchvision"]
        lines.append(table(
            [f"{large['entries']:,} files", "fastpipe", "torchvision"],
            [
                ["a dataset pickled for a worker", f"{large['pickled dataset, bytes']:,} bytes",
                 f"{vision['pickled samples, MB']:,.0f} MB"],
                ["private memory that a worker grows by, MB", f"{max(large['worker growth, MB']):.2f}",
                 f"{max(vision['worker growth, MB']):,.0f}"],
                ["opening the dataset again, ms", f"{large['opening ImageFolder, ms']:,.0f}", ""],
                ["on disk, bytes a file", f"{large['index, bytes an entry']:.0f}", ""],
            ],
        ))  # fmt: skip
        if vision.get("scaled"):
            lines.append(f"torchvision's figures are scaled up from {vision['entries']:,} files.")
    if "scanning" in data:
        scan = data["scanning"]
        lines.append(
            f"Listing {scan['files']:,} files the first time takes {scan['fastpipe, first opening, s']:.2f} s "
            f"(torchvision: {scan['torchvision, s']:.2f} s, each time), from then on "
            f"{scan['fastpipe, second opening, ms']:.0f} ms."
        )
    body = "\n\n".join(lines)
    return f"## Many files\n\n{body}"


def sampler_part(data: Any) -> str:
    rows = [
        [
            f"{row['sampler']}, {row['length']:,}",
            f"{row['first_ms']:,.1f}",
            f"{row['index_ns']:.0f}",
            f"{row['memory_mb']:,.1f}",
        ]
        for row in data["rows"]
    ]
    head = ["sampler, indices", "first index, ms", "an index, ns", "memory, MB"]
    return f"## Shuffling\n\n{table(head, rows)}"


def imread_part(data: Any) -> str:
    rows = [
        [row["decoder"], f"{row['images_per_s']:,.0f}", "" if row["decoder"] == "fastpipe" else f"{row['ratio']:.2f}×"]
        for row in data["rows"]
    ]
    return f"""## In somebody else's benchmark

Whole JPEGs by [imread_benchmark](https://github.com/ternaus/imread_benchmark)'s own measurement (its protocol
`decode-memory`), {data["images"]} photos as bytes in memory, one thread, each decoder by its adapter there and fastpipe
by the one in `benchmarks/third_party`. What fastpipe gains by decoding a crop alone doesn't show in it.

{table(["decoder", "images/s", "fastpipe to it"], rows)}"""


# name → (what makes the section, the command whose output it shows)
PARTS: dict[str, tuple[Callable[[Any], str], str]] = {
    "pipeline": (pipeline_part, "python benchmarks/pipeline.py PHOTOS"),
    "loader": (loader_part, "python benchmarks/loader.py PHOTOS"),
    "scaling": (scaling_part, "python benchmarks/scaling.py PHOTOS"),
    "gil": (gil_part, "python benchmarks/gil.py PHOTOS"),
    "transforms": (transforms_part, "python benchmarks/transforms.py --photos PHOTOS"),
    "readers": (readers_part, "fastpipe bench PHOTOS"),
    "png": (png_part, "python benchmarks/png.py PHOTOS"),
    "fidelity": (fidelity_part, "python benchmarks/fidelity.py LARGE_PHOTOS"),
    "index": (index_part, "python benchmarks/index.py"),
    "sampler": (sampler_part, "python benchmarks/sampler.py"),
    "imread": (imread_part, "python benchmarks/third_party/run_imread.py PHOTOS"),
}
