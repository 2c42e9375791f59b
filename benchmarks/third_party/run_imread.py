"""Runs imread_benchmark's own measurement of decoders, including fastpipe's.

    python benchmarks/third_party/run_imread.py PHOTOS [--decoders opencv,pillow,…] [--rounds 25] [--json FILE]

Needs a checkout of https://github.com/ternaus/imread_benchmark (its schema 2) that can be imported, with
`fastpipe_decoder.py` registered in it as README.md beside this file says. The measurement is theirs
(`run_decode_memory_measurement`, protocol decode-memory): photos as bytes in memory, each output checked, one pass for
warming up and one timed. A round does that once for each decoder, in random order. PHOTOS holds JPEGs, in folders of
any depth. Decoders that aren't installed, or refuse a photo, are named and left out.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from pathlib import Path
from types import SimpleNamespace

from imread_benchmark.decoders import REGISTRY
from imread_benchmark.execution.measurement import configure_decoder, run_decode_memory_measurement

CONFIGURATION = SimpleNamespace(
    protocol_id="decode-memory",
    warmup_passes=1,
    logical_repeat_factor=1,
    timed_passes_per_run=1,
    minimum_timed_seconds=0.0,
    requested_threads=None,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos")
    parser.add_argument("--decoders", default="", help="names, separated by commas; all that are registered by default")
    parser.add_argument("--count", type=int, default=50, help="photos")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    files = sorted(one for one in Path(options.photos).rglob("*") if one.suffix.lower() in (".jpg", ".jpeg"))
    random.Random(0).shuffle(files)
    items = [
        SimpleNamespace(item_id=one.name, data=one.read_bytes(), compressed_bytes=one.stat().st_size)
        for one in files[: options.count]
    ]
    left = options.decoders.split(",") if options.decoders else sorted(REGISTRY)
    rounds_us: dict[str, list[float]] = {name: [] for name in left}
    for _ in range(options.rounds):
        for name in random.sample(left, len(left)):
            decoder = REGISTRY[name]()
            try:
                threads = configure_decoder(decoder, 1 if name == "opencv" else None)
                found = run_decode_memory_measurement(decoder, items, CONFIGURATION, effective_threads=threads)
            except Exception as error:
                print(f"{name} is left out: {error}")
                left.remove(name)
                continue
            sample = found.samples[0]
            rounds_us[name].append(sample.elapsed_seconds / sample.items_processed * 1e6)
    for name in sorted(left, key=lambda name: statistics.median(rounds_us[name])):
        ratio = statistics.median(b / a for a, b in zip(rounds_us["fastpipe"], rounds_us[name], strict=True))
        print(f"{name:12} {1e6 / statistics.median(rounds_us[name]):8,.0f} images/s, fastpipe {ratio:.2f}×")
    if options.json:
        found = {name: rounds_us[name] for name in left}
        options.json.write_text(json.dumps({"rows": {"whole JPEGs": {"rounds_us": found}}, "images": len(items)}))


if __name__ == "__main__":
    main()
