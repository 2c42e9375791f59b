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


SHOWN = {
    *("hflip", "crop", "pad, reflect", "resize, bilinear", "resize, bicubic", "resized_crop", "adjust_brightness"),
    *("adjust_contrast", "adjust_saturation", "adjust_hue", "posterize", "solarize", "equalize", "autocontrast"),
    *("adjust_sharpness", "gaussian_blur 5", "gaussian_blur 23", "rotate, bilinear", "affine, bilinear"),
    *("perspective, bilinear", "elastic_transform", "to_tensor, normalize", "ColorJitter", "RandAugment"),
    *("AutoAugment", "TrivialAugmentWide", "AugMix"),
}
"""The rows of the table of operations; the geometric means are of all that the benchmark has."""


def transforms_part(data: Any) -> str:
    others = ("torchvision PIL", "torchvision tensor", "albumentations")
    rows = []
    for name, row in data["rows"].items():
        if name not in SHOWN:
            continue
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

Some of them, on a uint8 image of {WIDE}, in one thread. A figure below 1 is where the other one is faster.

{table(["operation", "fastpipe, µs", *others], rows)}

albumentations' operations of the same name don't all give the same pixels: [the differences](albumentations.md)."""


def png_part(data: Any) -> str:
    rows = []
    for what, row in data["rows"].items():
        for name, ratio in row["times"].items():
            if not name.startswith("fastpipe") and not what.startswith("optimize"):
                rows.append([what, name, f"{row['ms'][name]:.2f}", f"{row['ms']['fastpipe']:.2f}", f"{ratio:.2f}×"])
    head = ["files, work", "compared with", "ms", "fastpipe, ms", "ratio"]
    return f"""## PNG

PNGs of photos as Pillow writes them by default, and palette masks of 20 classes, {data["count"]} of each, milliseconds
an image. A region is one that `RandomResizedCrop` draws; the pipeline is the
training one, from files to float32; loaders have {data["workers"]} workers.

{table(head, rows, left=2)}"""


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


def feeds_part(data: Any) -> str:
    rows, bound = data["rows"], data["resident_images_per_s"]
    cells = [
        [
            row["feed"],
            str(row["cpus"]),
            f"{row['images_per_s']:,.0f}",
            f"{row['images_per_s'] / bound:.0%}",
            f"{row['waited']:.0%}",
        ]
        for row in rows
    ]
    most = max(row["cpus"] for row in rows)
    needed = ", ".join(
        f"{feed} {f'more than {most}' if cpus is None else cpus}" for feed, cpus in data["cpus_needed"].items()
    )
    return f"""## Feeding a GPU

{data["network"]}'s training step (channels_last, bfloat16, batches of {data["batch_size"]}) on {data["device"]}, which
trains on {bound:,.0f} images a second from a batch that stays there. Waited is the share of the time in which it had
nothing to do.

{table(["feed", "CPUs", "images/s", "of that", "waited"], cells)}

CPUs needed for 99%: {needed}."""


# name → what the page says as long as nobody has taken the figures
MISSING = {
    "feeds": """## Feeding a GPU

Not measured so far: `scripts/gpu PHOTOS` does, on a machine with a GPU. ResNet-50's training step is fed by
torchvision's loader, by `fastpipe.DataLoader`, and by that from packed images, on 2, 4, 8 and 16 CPUs."""
}

# name → (what makes the section, the command whose output it shows)
PARTS: dict[str, tuple[Callable[[Any], str], str]] = {
    "pipeline": (pipeline_part, "python benchmarks/pipeline.py PHOTOS"),
    "loader": (loader_part, "python benchmarks/loader.py PHOTOS"),
    "transforms": (transforms_part, "python benchmarks/transforms.py --photos PHOTOS"),
    "png": (png_part, "python benchmarks/core.py PHOTOS --only png"),
    "index": (index_part, "python benchmarks/index.py"),
    "imread": (imread_part, "python benchmarks/third_party/run_imread.py PHOTOS"),
    "feeds": (feeds_part, "python benchmarks/feeds.py PHOTOS"),
}
