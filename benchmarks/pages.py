"""Writes the benchmarks' figures into the documentation: the performance page, README's table and picture.

    python benchmarks/pages.py                       # writes pages and picture from docs/data
    python benchmarks/pages.py --take FOLDER         # first takes fresh figures from FOLDER into docs/data

FOLDER holds the benchmarks' JSON from this machine; figures that it lacks stay, with their own date and machine:

    python benchmarks/untouched.py PHOTOS --json FOLDER/untouched.json
    python benchmarks/untouched.py PHOTOS --threads 2 --json FOLDER/untouched_threads.json
    python benchmarks/untouched.py PHOTOS --workers 2 --json FOLDER/untouched_workers.json
    python benchmarks/pipeline.py PHOTOS --json FOLDER/pipeline.json
    python benchmarks/transforms.py --photos PHOTOS --json FOLDER/transforms.json
    python benchmarks/index.py --json FOLDER/index.json
    python benchmarks/core.py PHOTOS --only png --json FOLDER/png.json
    python benchmarks/third_party/run_imread.py PHOTOS --json FOLDER/imread.json
    scripts/gpu PHOTOS --only feeds --out FOLDER
"""

from __future__ import annotations

import argparse
import ast
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from figures import AS_THEY_ARE, TAKEN, read, take

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

# -- the performance page: a section for each file of docs/data


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown with right-aligned figures."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def beside(rows: dict[str, Any], unit_us: float = 1e3, digits: int = 2) -> str:
    """A table of the times of fastpipe and others in each row, with fastpipe's speed-ups."""
    others = [who for who in dict.fromkeys(who for row in rows.values() for who in row) if "fastpipe" not in who]
    lines = []
    for name, row in rows.items():
        figures = {who: f"{found['us'] / unit_us:,.{digits}f}" for who, found in row.items()}
        pairs = [(figures[who], f"{row[who]['times']:.2f}×") if who in row else ("", "") for who in others]
        lines.append([name, figures["fastpipe"], *(one for pair in pairs for one in pair)])
    return table(["", "fastpipe", *(one for who in others for one in (who, "speed-up"))], lines)


def in_turn(row: dict[str, Any], head: Sequence[str], texts: dict[str, str] | None = None) -> str:
    """A table with a line for each contender of a row: images a second, and speed-ups."""
    lines = [
        [text, f"{1e6 / row[who]['us']:,.0f}", f"{row[who]['times']:.2f}×"]
        for who, text in (texts or dict(zip(row, row, strict=True))).items()
        if who in row
    ]
    return table(head, lines)


def untouched_part(data: Any) -> str:
    return f"""## Scripts as they are

{beside({f"`{name}`: {_title(name)}": row for name, row in data["rows"].items()})}

Milliseconds an image of scripts modelled on public repositories (benchmarks/untouched/), run without fastpipe and by
`fastpipe run`: one process, one thread. Samples and final states of the generators are the same."""


def _title(script: str) -> str:
    text = (ROOT / "benchmarks" / "untouched" / f"{script}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0].rstrip(".")


def untouched_beside_part(data: Any) -> str:
    """The section of scripts whose batches are made by workers, or by torch's threads."""
    heading, note = f"With {data['workers']} workers of torch's own loader", ""
    if not data["workers"]:
        heading = f"Without workers, and torch's {data['threads']} threads"
        note = "\n\nWith fastpipe, `torch.get_num_threads()` threads make a batch's pixels; "
        note += "without it, one thread does."
    return f"### {heading}\n\n{beside({f'`{name}`': row for name, row in data['rows'].items()})}{note}"


def pipeline_part(data: Any) -> str:
    return f"""## From files to tensors

![Images a second from files to tensors](images/speed.svg)

{beside(data["rows"])}

Milliseconds an image, one process, one thread. Training is `RandomResizedCrop(224)` and a flip, evaluation
`Resize(256)` and `CenterCrop(224)`; albumentations works on images decoded by cv2, and doesn't filter when it
shrinks."""


LOADERS = {
    "torchvision": "torchvision's `ImageFolder` in torch's loader, float32",
    "stock loader": "fastpipe's `ImageFolder` in torch's loader, float32",
    "float32": "`fastpipe.DataLoader`, float32",
    "uint8, here": '`fastpipe.DataLoader(device="cpu")`: normalised in the main process',
    "uint8": "`fastpipe.DataLoader(device=…)`: normalised on the device, which isn't timed",
    "threads, float32": "`fastpipe.DataLoader(num_workers=0, threads=…)`, with the same number of threads, float32",
    "threads, uint8": "the same with `device=…`",
}


def loader_part(data: Any) -> str:
    first = ", ".join(f"{who} {found['us'] / 1e6:.1f} s" for who, found in data["rows"]["first batch"].items())
    return f"""## With workers

{in_turn(data["rows"]["epoch"], ["loader", "images/s", "speed-up over torchvision"], LOADERS)}

The same training transform, {data["workers"]} persistent workers, random order. Time from making the loader to its
first batch, with spawned workers: {first}."""


SHOWN = {
    *("hflip", "crop", "pad, reflect", "resize, bilinear", "resize, bicubic", "resized_crop", "adjust_brightness"),
    *("adjust_contrast", "adjust_saturation", "adjust_hue", "posterize", "solarize", "equalize", "autocontrast"),
    *("adjust_sharpness", "gaussian_blur 5", "gaussian_blur 23", "rotate, bilinear", "affine, bilinear"),
    *("perspective, bilinear", "elastic_transform", "to_tensor, normalize", "ColorJitter", "RandAugment"),
    *("AutoAugment", "TrivialAugmentWide", "AugMix"),
}
"""The rows of the table of operations; the geometric means are over all rows of the benchmark."""


def transforms_part(data: Any) -> str:
    others = ("torchvision PIL", "torchvision tensor", "albumentations")
    means = [[kind, *(f"{found[who]:.2f}×" for who in others)] for kind, found in _array_means(data).items()]
    return f"""## Single operations

fastpipe's speed as a multiple of the others', geometric means:

{table(["", *others], means)}

Some of them, on a uint8 image of 375×500, in one thread, in microseconds. A ratio below 1 means that the other library
is faster.

{beside({name: row for name, row in data["rows"].items() if name in SHOWN}, 1, 0)}

albumentations' operations of the same name don't all give the same pixels: [the differences](albumentations.md)."""


def _array_means(data: Any) -> dict[str, dict[str, float]]:
    return {name.removeprefix("arrays, "): one for name, one in data["means"].items() if name.startswith("arrays")}


def png_part(data: Any) -> str:
    rows = {what: row for what, row in data["rows"].items() if not what.startswith("optimize")}
    return f"""## PNG

PNGs of photos as Pillow writes them by default, and palette masks of 20 classes, {data["count"]} of each, milliseconds
an image. A region is drawn by `RandomResizedCrop`; the pipeline is that of training, from files to float32; loaders
have {data["workers"]} workers.

{beside(rows)}"""


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
    return f"""## In another project's benchmark

Whole JPEGs by [imread_benchmark](https://github.com/ternaus/imread_benchmark)'s own measurement (its protocol
`decode-memory`), {data["images"]} photos as bytes in memory, one thread, each decoder by its adapter there, and
fastpipe by the adapter in `benchmarks/third_party`. The gain from decoding only a crop isn't part of it.

{in_turn(data["rows"]["whole JPEGs"], ["decoder", "images/s", "fastpipe's speed-up over it"])}"""


def feeds_part(data: Any) -> str:
    rows, bound = data["rows"], data["resident_images_per_s"]
    cells = []
    for row in rows:
        rate = row["images_per_s"]
        cells.append([row["feed"], str(row["cpus"]), f"{rate:,.0f}", f"{rate / bound:.0%}", f"{row['waited']:.0%}"])
    most = max(row["cpus"] for row in rows)
    needed = ", ".join(f"{feed} {cpus or f'more than {most}'}" for feed, cpus in data["cpus_needed"].items())
    return f"""## Feeding a GPU

{data["network"]}'s training step (channels_last, bfloat16, batches of {data["batch_size"]}) on {data["device"]}, which
trains on {bound:,.0f} images a second from a batch that stays there. Waited is the share of the time in which it was
idle.

{table(["feed", "CPUs", "images/s", "of that", "waited"], cells)}

CPUs needed for 99%: {needed}."""


# By name: the section's text as long as there are no figures.
MISSING = {
    "feeds": """## Feeding a GPU

Not measured yet; `scripts/gpu PHOTOS` measures it on a machine with a GPU. ResNet-50's training step is fed by
torchvision's loader, by `fastpipe.DataLoader`, and by the latter from packed images, on 2, 4, 8 and 16 CPUs."""
}

# By name: the function that makes the section, and the command that measures its figures.
PARTS: dict[str, tuple[Callable[[Any], str], str]] = {
    "untouched": (untouched_part, "python benchmarks/untouched.py PHOTOS"),
    "untouched_threads": (untouched_beside_part, "python benchmarks/untouched.py PHOTOS --threads 2"),
    "untouched_workers": (untouched_beside_part, "python benchmarks/untouched.py PHOTOS --workers 2"),
    "pipeline": (pipeline_part, "python benchmarks/pipeline.py PHOTOS"),
    "loader": (loader_part, "python benchmarks/pipeline.py PHOTOS --only loaders"),
    "transforms": (transforms_part, "python benchmarks/transforms.py --photos PHOTOS"),
    "png": (png_part, "python benchmarks/core.py PHOTOS --only png"),
    "index": (index_part, "python benchmarks/index.py"),
    "imread": (imread_part, "python benchmarks/third_party/run_imread.py PHOTOS"),
    "feeds": (feeds_part, "python benchmarks/feeds.py PHOTOS"),
}

OPENING = """# Performance

<!-- Made by benchmarks/pages.py from docs/data: don't edit. -->

All figures compare both sides in one run, with interleaved rounds, on the same files. A figure is the median over the
rounds; a ratio, in brackets, is the median of the rounds' ratios. Repeat them on your photos with the given commands;
`scripts/demo PHOTOS` shows the main ones. Ratios change with the machine, the files' sizes and their compression.

What to expect:

- fastpipe saves the work on pixels outside of a crop, and the copies between steps. It can't save the Huffman decoding
  of a JPEG above and beside the crop, which is two thirds of the core's time for a crop.
- So it gains most if images are large compared with the crop, transforms are many, or workers are the limit. Small
  images gain as much, as the overhead for each image is smaller: `benchmarks/pipeline.py` takes any folder. It gains
  least if the disk is the limit.
- Decoding only a region needs the core (`fastpipe doctor --versions` says whether it is there), and a JPEG or a PNG.
  Other formats are decoded whole. A PNG is inflated down to the crop's last row.
"""
LIBRARIES = ("torch", "torchvision", "albumentations", "pillow", "opencv", "turbojpeg")


def origin(data: Any, names: Sequence[str] = LIBRARIES) -> str:
    """The machine and the versions that the figures were taken with."""
    about = data["about"]
    versions = ", ".join(f"{name} {about['versions'][name]}" for name in names if name in about["versions"])
    return f"{about['machine']}, Python {about['versions']['python']}, {versions}"


def taken_on(data: Any, where: str) -> str:
    """Says when and where the figures were taken, with their note."""
    about = data["about"]
    note = f" {about['note']}" if about["note"] else ""
    return f"Taken {about['date']}{where}.{note}"


def page(found: dict[str, Any]) -> str:
    """The page; it names the machine and the versions at the top, and in sections with other ones."""
    ((usual, _),) = Counter(map(origin, found.values())).most_common(1)
    parts = [f"{OPENING.rstrip()}\n\nFigures are from {usual}, where a section says nothing else."]
    for name, (part, command) in PARTS.items():
        if name in found:
            data = found[name]
            rounds = f", {data['rounds']} rounds" if "rounds" in data else ""
            where = "" if origin(data) == usual else f", {origin(data)}"
            parts += [part(data), f"`{command}`{rounds}. {taken_on(data, where)}"]
        elif name in MISSING:
            parts.append(MISSING[name])
    return "\n\n".join(parts) + "\n"


# -- the main figures, in README and its picture

AS_SCRIPTS = (
    ("untouched", "own_train", "the script's own dataset, one thread"),
    ("untouched_threads", "own_train", "the same, torch's two threads"),
    ("untouched_workers", "own_train", "the same, 2 workers"),
    ("untouched_workers", "image_folder", "`ImageFolder`, 2 workers"),
)
"""Scripts whose figures README shows: file in docs/data, name, and description."""
WITH_WORKERS = {"stock loader": "imports swapped", "float32": "`fastpipe.DataLoader`"}
COLORS = {"torchvision": "#e6550d", "albumentations": "#969696"}
OURS = "#3182bd"


def picture(found: dict[str, Any]) -> str:
    """Draws bars of images a second as an SVG that is also legible in black and white and on a dark page."""
    groups = {
        name: {who: row[who]["us"] for who in ("torchvision", "albumentations", "fastpipe") if who in row}
        for name, row in found["pipeline"]["rows"].items()
    }
    times = {(name, "fastpipe"): row["torchvision"]["times"] for name, row in found["pipeline"]["rows"].items()}
    epoch, workers = found["loader"]["rows"]["epoch"], f"train, {found['loader']['workers']} workers"
    names = {"torchvision": "torchvision", **{name: who.strip("`") for name, who in WITH_WORKERS.items()}}
    groups[workers] = {who: epoch[name]["us"] for name, who in names.items()}
    times |= {(workers, who): epoch[name]["times"] for name, who in names.items() if name in WITH_WORKERS}
    scale = 360 / max(1e6 / us for bars in groups.values() for us in bars.values())
    lines, y = [], 24
    for name, bars in groups.items():
        y += 16
        lines.append(f'<text x="150" y="{y + 15}" text-anchor="end" font-weight="bold">{name}</text>')
        for who, us in bars.items():
            width = 1e6 / us * scale
            ratio = f", {times[name, who]:.2f} × torchvision" if (name, who) in times else ""
            lines.append(f'<rect x="262" y="{y}" width="{width:.1f}" height="20" fill="{COLORS.get(who, OURS)}"/>')
            lines.append(f'<text x="256" y="{y + 15}" text-anchor="end">{who}</text>')
            lines.append(f'<text x="{268 + width:.1f}" y="{y + 15}">{1e6 / us:,.0f}{ratio}</text>')
            y += 24
    lines.append(
        f'<text x="16" y="{y + 16}" font-size="11">One process and one thread but for the last group. '
        "albumentations doesn't filter when it shrinks: its pixels differ from torchvision's.</text>"
    )
    height = y + 30
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="820" height="{height}" viewBox="0 0 820 {height}" '
        'font-family="sans-serif" font-size="13" role="img">',
        "<title>Images a second from files to tensors</title>",
        f'<rect width="820" height="{height}" fill="white"/>',
        '<text x="16" y="24" font-size="15">Images a second from files to tensors</text>',
        *lines,
        "</svg>",
    ]) + "\n"  # fmt: skip


def readme_part(found: dict[str, Any]) -> str:
    """README's part about speed: the picture, the main figures, and their explanation."""
    epoch, workers = found["loader"]["rows"]["epoch"], found["loader"]["workers"]
    rows = [
        (f"`fastpipe run`, {what}", row["plain"]["us"], row["fastpipe"]["us"], row["plain"]["times"])
        for name, script, what in AS_SCRIPTS
        if (row := found.get(name, {"rows": {}})["rows"].get(script))
    ]
    rows += [
        (f"{name}, one process", row["torchvision"]["us"], row["fastpipe"]["us"], row["torchvision"]["times"])
        for name, row in found["pipeline"]["rows"].items()
    ]
    rows += [
        (f"train, float, {workers} workers, {who}", epoch["torchvision"]["us"], epoch[name]["us"], epoch[name]["times"])
        for name, who in WITH_WORKERS.items()
    ]
    head = ["images a second, from files to tensors", "without", "with fastpipe", "ratio"]
    lines = [
        [name, f"{1e6 / theirs:,.0f}", f"{1e6 / ours:,.0f}", f"**{times:.2f}×**"] for name, theirs, ours, times in rows
    ]
    means = _array_means(found["transforms"])["operations"]
    return f"""![Images a second from files to tensors][speed]

{table(head, lines)}

Imports swapped: `transforms` and `ImageFolder` are fastpipe's, and torch's `DataLoader` stacks the samples.
`fastpipe.DataLoader`, which the lines above also import, makes whole batches.

Single operations on arrays are {means["torchvision PIL"]:.1f} times as fast as torchvision's on PIL images and \
{means["torchvision tensor"]:.1f} times as fast as its
tensor backend (geometric means). [All figures, and how to repeat them][performance]; `scripts/demo PHOTOS`
measures the main ones on your photos.

{taken_on(found["pipeline"], f", {origin(found['pipeline'], LIBRARIES[:2])}")}"""


BEGIN, END = "<!-- made by benchmarks/pages.py -->", "<!-- end of what is made -->"


def fill(text: str, part: str) -> str:
    """Replaces the text between a page's marks."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"a page that shows figures has to have {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{part}\n\n{END}{after}"


def write_pages(found: dict[str, Any]) -> None:
    """Writes all pages and pictures that show figures."""
    readme = ROOT / "README.md"
    (DOCS / "performance.md").write_text(page(found), encoding="utf-8")
    (DOCS / "images").mkdir(exist_ok=True)
    (DOCS / "images" / "speed.svg").write_text(picture(found), encoding="utf-8")
    readme.write_text(fill(readme.read_text(encoding="utf-8"), readme_part(found)), encoding="utf-8")
    print("written: docs/performance.md, docs/images/speed.svg, README.md")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--take", type=Path, metavar="FOLDER", help="take fresh figures from here first")
    parser.add_argument("--note", default="", metavar="TEXT", help="a sentence about these figures or this machine")
    asked = parser.parse_args()
    if asked.take:
        taken = take(asked.take, asked.note)
        if not taken:
            files = sorted({file for file, _ in TAKEN.values()} | {*AS_THEY_ARE})
            parser.error(f"{asked.take} holds none of {', '.join(f'{name}.json' for name in files)}")
        print(f"taken: {', '.join(taken)}")
    write_pages(read())


if __name__ == "__main__":
    main()
