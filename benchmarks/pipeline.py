"""From files to tensors: fastpipe beside torchvision, and beside albumentations as people use it.

    python benchmarks/pipeline.py PHOTOS [--rounds 7] [--only WORD] [--json FILE]

One process, one thread, every file of PHOTOS (root/class/….jpg). Training is RandomResizedCrop(224) and a flip, as
uint8 and as normalised floats, evaluation Resize(256) and CenterCrop(224). albumentations works on what cv2 decodes.
"""

from __future__ import annotations

from typing import Any

from harness import MEAN, STD, Benchmark, Pass, calls, command_line, module, samples, torchvision

import fastpipe
from fastpipe import transforms as T


def pipelines(module: Any) -> dict[str, Any]:
    """The rows' transforms, of ``fastpipe.transforms`` or ``torchvision.transforms``."""
    train = [module.RandomResizedCrop(224), module.RandomHorizontalFlip()]
    tensor = [module.ToTensor(), module.Normalize(MEAN, STD)]
    return {
        "train, uint8": module.Compose([*train, module.PILToTensor()]),
        "train, float": module.Compose([*train, *tensor]),
        "evaluation, float": module.Compose([module.Resize(256), module.CenterCrop(224), *tensor]),
    }


def by_albumentations(name: str, paths: list[str]) -> dict[str, Pass]:
    """The usual hand-written cv2 data set for a row; none where albumentations isn't there, or has no such row."""
    if not name.startswith("train"):
        return {}
    try:
        A, cv2, last = module("albumentations"), module("cv2"), module("albumentations.pytorch").ToTensorV2()
    except ImportError:
        return {}
    normalize = [A.Normalize(MEAN, STD)] if name.endswith("float") else []
    chain = A.Compose([A.RandomResizedCrop(size=(224, 224)), A.HorizontalFlip(), *normalize, last])

    def sample(path: str) -> Any:
        return chain(image=cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB))["image"]

    return {"albumentations": calls(sample, paths)}


def main() -> None:
    bench = Benchmark(command_line(__doc__, rounds=7).parse_args(), "files to tensors")
    folder, theirs = bench.options.photos, pipelines(torchvision.transforms)
    for name, transform in pipelines(T).items():
        ours = fastpipe.ImageFolder(folder, transform)
        reference = torchvision.datasets.ImageFolder(str(folder), theirs[name])
        contenders = {"torchvision": samples(reference, len(ours)), "fastpipe": samples(ours, len(ours))}
        contenders |= by_albumentations(name, [path for path, _ in ours.samples])
        bench.row(name, contenders, len(ours), equal=["fastpipe"])
    bench.finish()


if __name__ == "__main__":
    main()
