"""Runs the augmentation benchmark's own loader and GPU stage over photos, with fastpipe and other implementations.

    python benchmarks/third_party/run_augbench.py PHOTOS --checkout PATH [--implementations a,b] [--json FILE]

Needs a CUDA GPU, and a checkout of https://github.com/albumentations-team/benchmark whose package `augbench` can be
imported, with `fastpipe_rgb.py` registered in it as README.md beside this file says. Adapters, recipes, loader and the
consumer that makes batches ready on the GPU (float16, normalised) are theirs; their campaigns on rented machines, with
their data set and statistics, aren't run. A figure is images a second of a pass over the photos, the median over the
rounds; a ratio is the median of the rounds' ratios. Recipes that an implementation lacks or refuses are named.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

OURS = "fastpipe_cpu"


def images_per_s(adapter: Any, recipe: Any, sources: list[Any], options: argparse.Namespace, seed: int) -> float:
    """The rate of a pass by the benchmark's loader and consumer, from the first batch on the device to the last."""
    from augbench.execution.pipeline import ReadyGpuBatchConsumer, RecipeDataset, TorchDataLoaderSource

    runtime = adapter.build_recipe(recipe)
    loader = TorchDataLoaderSource(
        dataset=RecipeDataset(items=sources, adapter=adapter, runtime=runtime),
        batch_size=options.batch_size,
        num_workers=options.workers,
        prefetch_factor=2,
        persistent_workers=True,
        pin_memory=True,
        seed=seed,
        host_batch_transform=runtime.host_batch_transform,
    )
    consumer = ReadyGpuBatchConsumer(runtime=runtime, expected_channels=3)
    loader.open()
    try:
        consumer(loader.next_batch())  # starts the workers, and makes the GPU's first call
        consumer.synchronize()
        began, count = time.perf_counter(), 0
        for _ in range(len(sources) // options.batch_size - 1):
            count += consumer(loader.next_batch())
        consumer.synchronize()
        return count / (time.perf_counter() - began)
    finally:
        loader.close()


def compare(adapters: dict[str, Any], recipe: Any, sources: list[Any], options: argparse.Namespace) -> dict[str, Any]:
    """Images a second by implementation, and fastpipe's speed-ups."""
    left = [name for name in adapters if name in recipe.supported_implementations]
    rounds: dict[str, list[float]] = {name: [] for name in left}
    for number in range(options.rounds):
        for name in random.sample(left, len(left)):
            try:
                rounds[name].append(images_per_s(adapters[name], recipe, sources, options, number))
            except Exception as error:
                print(f"{recipe.recipe_id}: {name} is left out: {error}")
                left.remove(name)
                del rounds[name]
    ours = rounds.get(OURS, [])
    return {
        "images_per_s": {name: statistics.median(found) for name, found in rounds.items()},
        "ratio": {
            name: statistics.median(one / other for one, other in zip(ours, found, strict=True))
            for name, found in rounds.items()
            if ours and name != OURS
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--checkout", type=Path, required=True, help="a checkout of the benchmark's repository")
    parser.add_argument(
        "--implementations", default=f"{OURS},albumentationsx_cpu,torchvision_cpu,pillow_cpu,kornia_gpu"
    )
    parser.add_argument("--only", default="", metavar="WORD", help="recipes whose name has this word")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--count", type=int, default=2000, help="photos in a pass; fewer photos are repeated")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sys.path.insert(0, str(options.checkout / "src"))
    from augbench.adapters.registry import default_adapter_registry
    from augbench.recipes.load import load_recipe_catalog

    registry = default_adapter_registry()
    adapters = {}
    for name in options.implementations.split(","):
        try:
            adapters[name] = registry.load(name)
        except (ImportError, ValueError) as error:
            print(f"{name} is left out: {error}")
    files = sorted(one for one in options.photos.rglob("*") if one.suffix.lower() in (".jpg", ".jpeg"))
    sources = [SimpleNamespace(path=files[number % len(files)]) for number in range(options.count)]
    rows = {}
    for recipe in load_recipe_catalog(options.checkout / "catalog" / "recipes" / "rgb.yaml").recipes:
        if options.only.lower() in recipe.recipe_id.lower() and OURS in recipe.supported_implementations:
            row = rows[recipe.recipe_id] = compare(adapters, recipe, sources, options)
            rates = ", ".join(f"{name} {rate:,.0f}" for name, rate in row["images_per_s"].items())
            ratios = ", ".join(f"{ratio:.2f} times {name}" for name, ratio in row["ratio"].items())
            print(f"{recipe.recipe_id}: {rates} images/s; fastpipe is {ratios or 'alone'}")
    if options.json:
        options.json.write_text(json.dumps({"rows": rows, "rounds": options.rounds, "images": len(sources)}))


if __name__ == "__main__":
    main()
