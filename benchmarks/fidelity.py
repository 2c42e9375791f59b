"""What ``fidelity="fast"`` saves and what it costs, on your photos.

    python benchmarks/fidelity.py PATH [--size 224] [--rounds 5] [--json FILE]

PATH is a folder as ImageFolder takes it, or any folder of images. Each image goes through Resize((size, size)) with
both settings, one process, one thread, rounds interleaved. The error is the absolute difference between the two
results, in 1/255; images that shrink by less than two are decoded in full by both, and counted apart.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from fastpipe import transforms as T
from fastpipe.datasets import is_image_file
from fastpipe.program import Encoded, Fidelity, execute, lower
from fastpipe.transforms.pipeline import Pipeline, compile_pipeline
from fastpipe.types import ImageShape


def sample(pipeline: Pipeline, path: Path, fidelity: Fidelity) -> tuple[Any, int]:
    """The pixels, and the scale that the decoder was asked for."""
    data = path.read_bytes()
    encoded = Encoded.of(data, str(path))
    shape = ImageShape(*encoded.header.size)
    program = lower(pipeline.steps(shape), shape, fidelity)
    return execute(program, encoded), program.request.scale


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    paths = sorted(path for path in arguments.path.rglob("*") if is_image_file(path.name))
    if not paths:
        parser.error(f"there is no image in {arguments.path}")
    pipeline = compile_pipeline(T.Compose([T.Resize((arguments.size, arguments.size)), T.PILToTensor()]))

    times: dict[Path, dict[str, list[float]]] = {path: {"torchvision": [], "fast": []} for path in paths}
    differences: dict[Path, np.ndarray[Any, Any]] = {}
    scales: dict[Path, int] = {}
    settings: list[Fidelity] = ["torchvision", "fast"]
    for _ in range(arguments.rounds):
        settings.reverse()  # neither of them always finds the file in the CPU's cache
        for path in paths:
            results = {}
            for fidelity in settings:
                start = time.perf_counter()
                results[fidelity], scale = sample(pipeline, path, fidelity)
                times[path][fidelity].append((time.perf_counter() - start) * 1e3)
                scales[path] = max(scales.get(path, 1), scale)
            differences[path] = (results["fast"].short() - results["torchvision"].short()).abs().numpy()

    table = Table(title=f"{len(paths)} images to {arguments.size}×{arguments.size}, one thread")
    for column in ("decoded at", "images", "exact, ms", "fast, ms", "ratio", "mean error", "99.9%", "max"):
        table.add_column(column, justify="right")
    rows = []
    for scale in sorted(set(scales.values())):
        group = [path for path in paths if scales[path] == scale]
        exact, fast = (
            [statistics.median(times[path][fidelity]) for path in group] for fidelity in ("torchvision", "fast")
        )
        error = np.concatenate([differences[path].ravel() for path in group])
        row = {
            "scale": scale,
            "images": len(group),
            "exact_ms": statistics.mean(exact),
            "fast_ms": statistics.mean(fast),
            "ratio": sum(exact) / sum(fast),
            "mean_error": float(error.mean()),
            "error_999": float(np.quantile(error, 0.999)),
            "largest_error": int(error.max()),
        }
        rows.append(row)
        table.add_row(
            f"1/{scale}",
            str(len(group)),
            f"{row['exact_ms']:.2f}",
            f"{row['fast_ms']:.2f}",
            f"{row['ratio']:.2f}×",
            f"{row['mean_error']:.2f}",
            f"{row['error_999']:.0f}",
            f"{row['largest_error']}",
        )
    Console().print(table)
    if arguments.json:
        report = {"rows": rows, "size": arguments.size, "rounds": arguments.rounds}
        arguments.json.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
