"""A script run once for each name of another library that a hook replaces, without that name; prints what changed.

Each run is a forked process, in which only the hooks don't find the name: the library itself still works. The names
aren't listed here: a first run notes all that the hooks ask of the hooked libraries.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import json
import os
import pickle
import random
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import cv2
import numpy as np
import PIL.Image
import PIL.ImageEnhance
import PIL.ImageOps
import torch
from PIL import Image
from torchvision_here import torchvision

LIBRARIES = ("PIL", "albumentations", "cv2", "pycocotools", "torch", "torchvision", "transformers")
OTHERS = [  # here, so that the forked processes don't import them each
    *("fastpipe.datasets", "fastpipe.transforms"),
    *("albumentations", "albumentations.pytorch", "pycocotools.mask", "torch.jit", "torch.utils.data"),
    *("torchvision.datasets", "torchvision.transforms.v2", "transformers"),
    "transformers.models.vit.image_processing_vit",
]
Name = tuple[str, str]
"""A module, and an attribute of it or of one of its classes: ``("torch.utils.data", "Subset.__getitem__")``."""


def digest(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return " ".join(map(digest, value))
    if isinstance(value, dict):
        return digest([*value.values()])
    if isinstance(value, Image.Image):
        value = np.asarray(value)
    if isinstance(value, torch.Tensor):
        value = value.detach().numpy()
    if isinstance(value, np.ndarray):
        return hashlib.md5(np.ascontiguousarray(value).tobytes()).hexdigest()[:8] + str(value.shape)
    return repr(value)


def script(folder: Path) -> list[str]:
    """The results of a script that uses every installed hooked library on a few photos."""
    from torchvision import transforms as T
    from torchvision.transforms import v2

    seen = []
    files = sorted(folder.glob("*/*"))
    dataset = torchvision.datasets.ImageFolder(
        str(folder),
        T.Compose(
            [
                T.RandomResizedCrop(48),
                T.ColorJitter(0.2, 0.2, 0.2, 0.1),
                T.ToTensor(),
                T.Normalize([0.5] * 3, [0.5] * 3),
            ]
        ),
    )
    tensors = v2.Compose(
        [
            *(v2.ToImage(), v2.RandomResizedCrop(48, antialias=True), v2.ColorJitter(hue=0.1), v2.GaussianBlur(3)),
            *(v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.5] * 3)),
        ]
    )
    images = v2.Compose([v2.Resize(60), v2.RandomCrop(48), v2.GaussianBlur(5), v2.PILToTensor()])
    seen.append([*torch.utils.data.DataLoader(dataset, 3, shuffle=True)])
    seen.append([*torch.utils.data.DataLoader(dataset, 3, shuffle=True, num_workers=1)])
    for file in files:
        with Image.open(file) as opened:
            image = opened.convert("RGB")
        seen.append(tensors(image))
        seen.append(tensors(image, 1))
        seen.append(images(image))
        seen.append(v2.functional.resize(v2.functional.pil_to_tensor(image), [40, 41], antialias=True))
        seen.append(v2.functional.gaussian_blur(v2.functional.pil_to_tensor(image), [5, 5]))
        pixels = T.functional.pil_to_tensor(image)
        seen.append([T.functional.resize(pixels, [30, 31], antialias=True), T.functional.gaussian_blur(pixels, [5, 5])])
        seen.append([T.functional.adjust_hue(pixels, 0.1), T.functional.adjust_hue(image, 0.1)])
        seen.append(
            [T.functional.pad(image, 3), T.functional.to_grayscale(image, 3), T.functional.gaussian_blur(image, [5, 5])]
        )
        seen.append(T.functional.normalize(T.functional.convert_image_dtype(pixels), [0.5] * 3, [0.5] * 3))
        seen.append([PIL.ImageOps.autocontrast(image), PIL.ImageOps.equalize(image), PIL.ImageOps.expand(image, 2)])
        seen.append(PIL.ImageOps.pad(image, (50, 70)))
        seen.append(PIL.ImageEnhance.Brightness(PIL.ImageEnhance.Contrast(image).enhance(0.7)).enhance(1.2))
        seen.append(
            image.resize((40, 30)).rotate(20, Image.Resampling.BILINEAR).filter(PIL.ImageFilter.GaussianBlur(2))
        )
        seen.append(Image.blend(image, image.transpose(Image.Transpose.FLIP_LEFT_RIGHT), 0.4))
        array = cv2.imread(str(file))
        seen.append([array, cv2.imdecode(np.fromfile(file, np.uint8), cv2.IMREAD_COLOR)])
        if "albumentations" in sys.modules:
            seen.append(augmented(array))
    seen.append(torch.jit.trace(lambda one: one * 2, T.functional.to_tensor(image))(torch.ones(1, 2)))
    seen.append(torch.nn.Parameter(T.functional.to_tensor(image)))
    if "pycocotools.mask" in sys.modules:
        masks = sys.modules["pycocotools.mask"]
        encoded = masks.encode(np.asfortranarray(np.asarray(image)[..., :2] > 90, dtype=np.uint8))
        seen.append(masks.decode(encoded))
    if "transformers" in sys.modules and hasattr(sys.modules["transformers"], "ViTImageProcessor"):
        processor = sys.modules["transformers"].ViTImageProcessor(do_center_crop=False)
        seen.append(processor(Image.open(files[0]).convert("RGB"), return_tensors="pt")["pixel_values"])
    return [*map(digest, seen), digest(torch.rand(1)), str(random.random()), digest(np.random.rand(1))]


def augmented(array: Any) -> list[Any]:
    import albumentations as A
    from albumentations.pytorch import ToTensorV2

    boxes = {"bboxes": [[0.1, 0.1, 0.6, 0.7]], "labels": [1]}
    turned = A.Compose(
        [A.RandomResizedCrop((140, 150)), A.Transpose(p=1), A.Normalize(), ToTensorV2()],
        bbox_params=A.BboxParams("albumentations", label_fields=["labels"]),
        seed=3,
    )
    return [turned(image=array, **boxes), A.Compose([A.RandomCrop(40, 50), A.Normalize()], seed=4)(image=array)]


def seeded(folder: Path) -> list[str]:
    torch.manual_seed(1)
    random.seed(2)
    np.random.seed(3)
    return script(folder)


# -- what fastpipe sees of the libraries


def look_through(see: Callable[[Name], None]) -> None:
    """Calls a function before a hook gets what it replaces; what it raises is what the hook gets."""
    patches: Any = importlib.import_module("fastpipe.hooks.patches")

    def getattr_(owner: Any, name: str, *default: Any) -> Any:
        home = owner.__name__ if isinstance(owner, ModuleType) else getattr(owner, "__module__", "")
        if home.partition(".")[0] in LIBRARIES and not (isinstance(owner, ModuleType) and name.startswith("__")):
            see((home, name if isinstance(owner, ModuleType) else f"{owner.__qualname__}.{name}"))
        return getattr(owner, name, *default)

    patches.getattr = getattr_


def in_child(work: Callable[[], Any]) -> Any:
    """The result of a function in a forked process, or its traceback."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            result = work()
        except BaseException:
            result = traceback.format_exc()
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(result, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        sent = pipe.read()
    os.waitpid(pid, 0)
    return pickle.loads(sent) if sent else "the process ended"


def hooked(folder: Path, see: Callable[[Name], None]) -> tuple[list[str], list[str]]:
    """The script's results, and fastpipe's notes, with hooks that see the libraries through a function."""
    import fastpipe
    from fastpipe.hooks.ledger import LEDGER

    look_through(see)
    with fastpipe.install(check=1):
        return seeded(folder), LEDGER.total()[1]


def traced(folder: Path) -> tuple[tuple[list[str], list[str]], list[Name]]:
    names: dict[Name, None] = {}
    return hooked(folder, lambda name: names.setdefault(name)), sorted(names)


def without(folder: Path, name: Name) -> tuple[list[str], list[str]]:
    def see(asked: Name) -> None:
        if asked == name:
            raise AttributeError(f"{asked[0]} has no attribute {asked[1]}")

    return hooked(folder, see)


def main(folder: Path, only: str) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for name in OTHERS:
        try:
            importlib.import_module(name)
        except ImportError:
            print(f"without {name}", file=sys.stderr)
    getattr(sys.modules.get("transformers"), "ViTImageProcessor", None)  # imported once, in place of in each child
    plain = seeded(folder)  # here, so that the processes find what the libraries import at their first use
    gc.collect()
    gc.freeze()  # else each forked process goes through all that this one has imported
    first = in_child(lambda: traced(folder))
    if isinstance(first, str):
        raise SystemExit(first)
    (results, _), names = first
    changed: dict[str, Any] = {} if results == plain else {"nothing": results}
    chosen = [name for number, name in enumerate(names) if only == "all" or number % 3 == int(only)]
    without_note = []
    print(f"{len(chosen)} of {len(names)} names", file=sys.stderr)
    for name in chosen:
        outcome = in_child(lambda name=name: without(folder, name))  # type: ignore[misc]
        if isinstance(outcome, str) or outcome[0] != plain:
            changed[".".join(name)] = outcome
            print(".".join(name), file=sys.stderr)
        elif not outcome[1]:
            without_note.append(".".join(name))
    print(json.dumps({"names": [".".join(name) for name in chosen], "changed": changed, "silent": without_note}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
