"""Without OpenCV, or with one that can't be used, everything works and gives the same values."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import corpus
import numpy as np
import pytest
import torch

import fastpipe
from fastpipe import readers
from fastpipe.environment import opencv
from fastpipe.kernels import color, conversion, geometry
from fastpipe.transforms import Compose, RandomResizedCrop, ToTensor
from fastpipe.transforms import functional as F

KINDS = [("none", ""), ("the rest of one", "off"), ("one for another numpy", "")]
"""The thing in place of OpenCV, and ``FASTPIPE_CORE``."""


def digest(folder: Path) -> str:
    """The kernels, readers, the loader with a worker, and the tools: a hash of all that they give."""
    found = hashlib.sha256()
    photo = corpus.photo(37, 50)
    for image in (photo, photo[..., 1], photo[..., :1], photo[3:30, 5:41], np.dstack([photo, photo[..., 0]])):
        planes = conversion.array_to_tensor(image)
        arrays = [
            planes.numpy(),
            conversion.planes_to_array(planes.numpy()),
            geometry.hflip(image),
            geometry.vflip(image),
        ]
        arrays += [geometry.quarter_turns(image, turns) for turns in range(4)]
        arrays += [geometry.pad(image, 1, 2, 3, -4, 9, mode) for mode in ("constant", "edge", "reflect", "symmetric")]
        arrays += [color.apply_table(image, np.arange(255, -1, -1).astype(np.uint8)), F.rotate(image, 90, expand=True)]
        for array in arrays:
            found.update(str(array.shape).encode() + np.ascontiguousarray(array).tobytes())
    for name in ("jpeg-420", "jpeg-cmyk", "png-rgb", "webp", "gif"):
        found.update(readers.read_image(corpus.files()[name]).tobytes())
    dataset = fastpipe.ImageFolder(str(folder), Compose([RandomResizedCrop(24), ToTensor()]))
    torch.manual_seed(3)
    for images, labels in fastpipe.DataLoader(dataset, 2, shuffle=True, num_workers=1):
        found.update(images.numpy().tobytes() + labels.numpy().tobytes())
    result = fastpipe.check(str(folder), jobs=1)
    found.update(str((result.bad, result.noted, result.fine, result.counts)).encode())
    return found.hexdigest()


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for number, name in enumerate(("jpeg-420", "png-rgb", "webp", "jpeg-gray")):
        place = folder / f"class{number % 2}"
        place.mkdir(exist_ok=True)
        (place / f"{number}.{name.partition('-')[0]}").write_bytes(corpus.files()[name])
    return folder


@pytest.mark.parametrize(("kind", "core"), KINDS, ids=[kind for kind, _ in KINDS])
def test_the_same_values(kind: str, core: str, photos: Path, tmp_path: Path) -> None:
    if kind == "none":
        hidden = "sys.modules['cv2'] = None"
    elif kind == "one for another numpy":
        (tmp_path / "cv2.py").write_text("raise AttributeError('_ARRAY_API not found')")
        hidden = f"sys.path.insert(0, {str(tmp_path)!r})"
    else:  # a folder without code, which Python takes for a package
        (tmp_path / "cv2").mkdir()
        (tmp_path / "cv2" / "qt").mkdir()
        hidden = f"import types; sys.modules['cv2'] = types.ModuleType('cv2'); sys.path.insert(0, {str(tmp_path)!r})"
    code = (
        f"import sys; {hidden}; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path\n"
        "from test_without_opencv import digest\n"
        "from fastpipe.environment import opencv\n"
        "assert opencv() is None\n"
        "if __name__ == '__main__':\n"
        f"    print(digest(Path({str(photos)!r})))\n"
    )
    environment = os.environ | ({"FASTPIPE_CORE": core} if core else {})
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == digest(photos)


def test_the_worker_of_a_loader_has_one_thread_of_opencv() -> None:
    if opencv() is None:
        pytest.skip("there is no OpenCV here")
    assert opencv() is sys.modules["cv2"]


def test_status_of_the_reader_without_opencv() -> None:
    code = (
        "import sys; sys.modules['cv2'] = None\n"
        "from fastpipe import readers\n"
        "print(readers.reader_status()['cv2'].reason)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install opencv-python-headless, or a newer version of the OpenCV package that is here" in done.stdout
