"""All figures of the documentation, from the benchmarks' JSON: the performance page, its picture and README's table.

    python benchmarks/performance_page.py                 # docs/data → pages and picture
    python benchmarks/performance_page.py --take FOLDER   # first takes fresh figures from FOLDER into docs/data

FOLDER holds what the benchmarks wrote, under these names, all taken on this machine; those that are missing keep their
older figures, marked with their own date and machine:

    python benchmarks/pipeline.py PHOTOS --json FOLDER/pipeline.json
    python benchmarks/loader.py PHOTOS --json FOLDER/loader.json
    python benchmarks/transforms.py --photos PHOTOS --json FOLDER/transforms.json
    python benchmarks/index.py --json FOLDER/index.json
    python benchmarks/core.py PHOTOS --only png --json FOLDER/png.json
    python benchmarks/third_party/run_imread.py PHOTOS --json FOLDER/imread.json
    scripts/gpu PHOTOS --only feeds --out FOLDER

Only what the page shows is kept: no path and no round's single times.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from performance_sections import MISSING, PARTS, WIDE, loaders, table

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
WITH_WORKERS = {"stock loader": "imports exchanged", "float32": "`fastpipe.DataLoader`"}
COLORS = {"torchvision": "#e6550d", "albumentations": "#969696"}
OURS = "#3182bd"


def rounds_of(raw: Any) -> int:
    """How many rounds a benchmark's JSON, of harness.py, has of each row."""
    return len(next(iter(next(iter(raw["rows"].values()))["rounds_us"].values())))


def median_us(row: Any, who: str) -> float:
    """Microseconds of a contender in a row of a benchmark's JSON."""
    return statistics.median(row["rounds_us"][who])


def times(row: Any, who: str, than: str) -> float:
    """How many times as fast a contender is as another one: the median of the rounds' ratios."""
    rounds = row["rounds_us"]
    return statistics.median(other / one for one, other in zip(rounds[who], rounds[than], strict=True))


def _from_pipeline(raw: Any) -> Any:
    rows = []
    for name, row in raw["rows"].items():
        kept = {"pipeline": name, **{f"{who}_ms": median_us(row, who) / 1e3 for who in row["rounds_us"]}}
        others = [who for who in row["rounds_us"] if who != "fastpipe"]
        rows.append(kept | {f"{who}_ratio": times(row, "fastpipe", who) for who in others})
    return {"rows": rows, "rounds": rounds_of(raw)}


def _from_loader(raw: Any) -> Any:
    epoch, first = raw["rows"]["epoch"], raw["rows"]["first batch: of spawned workers"]
    rows = [
        {"loader": who, "images_per_s": 1e6 / median_us(epoch, who), "ratio": times(epoch, who, "torchvision")}
        for who in epoch["rounds_us"]
    ]
    first_s = {who: median_us(first, who) / 1e6 for who in first["rounds_us"]}
    return {"rows": rows, "rounds": rounds_of(raw), "first_batch_s": first_s, "workers": raw["workers"]}


def _from_transforms(raw: Any) -> Any:
    rows = {name: sizes.get(WIDE) or next(iter(sizes.values())) for name, sizes in raw["rows"].items()}
    return {"rows": rows, "geometric_means": raw["geometric_means"], "rounds": raw["rounds"]}


def _from_png(raw: Any) -> Any:
    rows = {
        name.removeprefix("png ").replace(": ", ", "): {
            "ms": {who: median_us(row, who) / 1e3 for who in row["rounds_us"]},
            "times": {who: times(row, "fastpipe", who) for who in row["rounds_us"]},
        }
        for name, row in raw["rows"].items()
    }
    return {"count": raw["count"], "workers": raw["workers"], "rounds": rounds_of(raw), "rows": rows}


REDUCED: dict[str, Callable[[Any], Any]] = {
    "png": _from_png,
    "pipeline": _from_pipeline,
    "loader": _from_loader,
    "transforms": _from_transforms,
    "index": lambda raw: raw,
    "imread": lambda raw: raw,
    "feeds": lambda raw: raw,
}


def take(folder: Path, note: str) -> list[str]:
    """Reduces the outputs in a folder to what the page shows and keeps them, with a note; returns their names."""
    from fastpipe.environment import library_versions, machine_fingerprint

    machine = machine_fingerprint()
    versions = {**library_versions(), "python": platform.python_version()}
    versions |= {name: _version(name) for name in ("torch", "albumentations")}
    about = {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "machine": f"{machine['processor']}, {machine['cpus']} CPUs, {machine['system']}",
        "note": note,
        "versions": {name: versions[name] for name in sorted(versions) if versions[name]},
    }
    taken = []
    for name, reduce in REDUCED.items():
        path = folder / f"{name}.json"
        if path.exists():
            kept = {"about": about, **reduce(json.loads(path.read_text(encoding="utf-8")))}
            text = json.dumps(_rounded(kept), indent=1, ensure_ascii=False)
            (DOCS / "data" / path.name).write_text(text + "\n", encoding="utf-8")
            taken.append(name)
    return taken


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _rounded(value: Any) -> Any:
    """Four digits: more would be noise, and a change of every line at each refresh."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value


OPENING = """# Performance

<!-- Made by benchmarks/performance_page.py from docs/data: don't edit. -->

All figures compare both sides in one run, with interleaved rounds, on the same files; a figure is the median over the
rounds, a ratio the median of each round's ratio. Repeat them on your photos with the commands given; `scripts/demo
PHOTOS` shows the main ones. Ratios change with the machine, the files' sizes and their compression.

What to expect:

- What fastpipe leaves out is the work on pixels that a crop throws away, and the copies between steps. What it can't
  leave out is undoing a JPEG's Huffman coding above the crop and beside it, two thirds of the core's time for a crop.
- So it gains most where images are large against the crop, transforms are many, or workers are the limit. Small images
  gain as much, by the work around the pixels: `benchmarks/pipeline.py` takes any folder. It gains least where the disk
  is the limit.
- Decoding a region alone needs the core (`fastpipe doctor --versions` says whether it is there), and a JPEG or a PNG.
  Other formats are decoded whole. Of a PNG everything above a crop's last row is inflated.
"""


LIBRARIES = ("torch", "torchvision", "albumentations", "pillow", "opencv", "turbojpeg")


def origin(data: Any, names: Sequence[str] = LIBRARIES) -> str:
    """The machine and the versions that the figures were taken with."""
    about = data["about"]
    versions = ", ".join(f"{name} {about['versions'][name]}" for name in names if name in about["versions"])
    return f"{about['machine']}, Python {about['versions']['python']}, {versions}"


def taken_on(data: Any, where: str) -> str:
    """When and where the figures were taken, and what there is to note of them."""
    about = data["about"]
    note = f" {about['note']}" if about["note"] else ""
    return f"Taken {about['date']}{where}.{note}"


def page(found: dict[str, Any]) -> str:
    """The page; the machine and the versions stand on top, and at a section that has others."""
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


def picture(found: dict[str, Any]) -> str:
    """Bars of images a second, an SVG that also reads in black and white and on a dark page."""
    bars: list[tuple[str, str, float, str]] = []
    for row in found["pipeline"]["rows"]:
        for who in ("torchvision", "albumentations", "fastpipe"):
            if f"{who}_ms" in row:
                ratio = f", {row['torchvision_ratio']:.2f} × torchvision" if who == "fastpipe" else ""
                bars.append((row["pipeline"], who, 1000 / row[f"{who}_ms"], ratio))
    rows = loaders(found["loader"])
    group = f"train, {found['loader']['workers']} workers"
    bars.append((group, "torchvision", rows["torchvision"]["images_per_s"], ""))
    for name, who in WITH_WORKERS.items():
        bars.append((group, who.strip("`"), rows[name]["images_per_s"], f", {rows[name]['ratio']:.2f} × torchvision"))
    scale = 360 / max(value for *_, value, _ in bars)
    lines, y, previous = [], 40, ""
    for name, who, value, ratio in bars:
        y += 16 if previous and previous != name else 0
        if previous != name:
            lines.append(f'<text x="150" y="{y + 15}" text-anchor="end" font-weight="bold">{name}</text>')
        previous = name
        lines.append(f'<rect x="262" y="{y}" width="{value * scale:.1f}" height="20" fill="{COLORS.get(who, OURS)}"/>')
        lines.append(f'<text x="256" y="{y + 15}" text-anchor="end">{who}</text>')
        lines.append(f'<text x="{268 + value * scale:.1f}" y="{y + 15}">{value:,.0f}{ratio}</text>')
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
    """What README says about speed: the picture, the main figures, and what to make of them."""
    rows = [
        [
            f"{row['pipeline']}, one process",
            f"{1000 / row['torchvision_ms']:,.0f}",
            f"{1000 / row['fastpipe_ms']:,.0f}",
            f"**{row['torchvision_ratio']:.2f}×**",
        ]
        for row in found["pipeline"]["rows"]
    ]
    workers, loader = found["loader"]["workers"], loaders(found["loader"])
    rows += [
        [
            f"train, float, {workers} workers, {who}",
            f"{loader['torchvision']['images_per_s']:,.0f}",
            f"{loader[name]['images_per_s']:,.0f}",
            f"**{loader[name]['ratio']:.2f}×**",
        ]
        for name, who in WITH_WORKERS.items()
    ]
    head = ["images a second, from files to tensors", "torchvision", "fastpipe", "ratio"]
    means = found["transforms"]["geometric_means"]["operations"]
    taken = taken_on(found["pipeline"], f", {origin(found['pipeline'], LIBRARIES[:2])}")
    pil, tensor = (f"{means[f'× torchvision {backend}']:.1f}" for backend in ("PIL", "tensor"))
    return f"""![Images a second from files to tensors][speed]

{table(head, rows)}

Imports exchanged: `transforms` and `ImageFolder` are fastpipe's, and torch's `DataLoader` puts the samples together.
`fastpipe.DataLoader`, which the lines above import as well, makes whole batches.

Single operations on arrays are {pil} times as fast as torchvision's on PIL images and {tensor} times as fast as its
tensor backend (geometric means). [All figures, and how to repeat them][performance]; `scripts/demo PHOTOS`
measures the main ones on your photos.

{taken}"""


# file → (what makes the part between its marks)
FILLED: dict[str, Callable[[dict[str, Any]], str]] = {"README.md": readme_part}
BEGIN, END = "<!-- made by benchmarks/performance_page.py -->", "<!-- end of what is made -->"


def fill(text: str, part: str) -> str:
    """A page with what stands between its marks replaced."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"a page that shows figures has to have {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{part}\n\n{END}{after}"


def read() -> dict[str, Any]:
    """What docs/data holds, by name."""
    return {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name in PARTS
        if (path := DOCS / "data" / f"{name}.json").exists()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--take", type=Path, metavar="FOLDER", help="take fresh figures from here first")
    parser.add_argument("--note", default="", metavar="TEXT", help="a sentence for the page about these figures")
    arguments = parser.parse_args()
    if arguments.take:
        taken = take(arguments.take, arguments.note)
        if not taken:
            parser.error(f"{arguments.take} holds none of {', '.join(f'{name}.json' for name in REDUCED)}")
        print(f"taken: {', '.join(taken)}")
    found = read()
    (DOCS / "performance.md").write_text(page(found), encoding="utf-8")
    (DOCS / "images").mkdir(exist_ok=True)
    (DOCS / "images" / "speed.svg").write_text(picture(found), encoding="utf-8")
    for name, part in FILLED.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        (ROOT / name).write_text(fill(text, part(found)), encoding="utf-8")
    print(f"written: docs/performance.md, docs/images/speed.svg, {', '.join(FILLED)}")


if __name__ == "__main__":
    main()
