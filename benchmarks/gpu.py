"""Runs all tests and measurements that need a GPU; `scripts/gpu` runs this.

    python benchmarks/gpu.py [PHOTOS] [--only WORD] [--augbench CHECKOUT] [--out FOLDER]

    device             tests of `device=` on the GPU: values, pinned memory, streams, reused memory
    nvtx               a loader's ranges, as Nsight Systems (`nsys`) records them
    feeds              benchmarks/feeds.py: ResNet-50 fed by torchvision and by fastpipe; FOLDER/feeds.json
    albumentations     benchmarks/third_party/run_augbench.py, with a checkout of the augmentation benchmark

PHOTOS is a folder as ImageFolder takes it; without it, synthetic photos are made. A part that can't run says why, and
is skipped; without a GPU, all are, and the exit status is 0. The exit status is 1 if a part failed.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

BENCHMARKS = Path(__file__).resolve().parent
ROOT = BENCHMARKS.parent

RANGES = """
import sys, torch, fastpipe
from fastpipe import transforms as T
dataset = fastpipe.ImageFolder(sys.argv[1], T.Compose([T.RandomResizedCrop(64), T.ToTensor()]))
with torch.autograd.profiler.emit_nvtx():
    for _ in fastpipe.DataLoader(dataset, batch_size=4, device="cuda"):
        pass
"""


def device(options: argparse.Namespace) -> str:
    """Runs the tests that use a device; returns why they can't run, or ""."""
    if importlib.util.find_spec("pytest") is None:
        return "pytest isn't installed"
    tests = [str(ROOT / "tests" / "loading" / name) for name in ("test_device.py", "test_loader.py")]
    _run(sys.executable, "-m", "pytest", "-q", "-k", "device or gpu or pin", *tests, cwd=ROOT)
    return ""


def nvtx(options: argparse.Namespace) -> str:
    """Checks that Nsight Systems records the loader's ranges."""
    if shutil.which("nsys") is None:
        return "nsys, of Nsight Systems, isn't installed"
    command = ["nsys", "profile", "--trace=nvtx,cuda", "--stats=true", f"--output={options.out / 'nvtx'}"]
    told = _run(*command, "--force-overwrite=true", sys.executable, "-c", RANGES, str(options.photos), capture=True)
    if "fastpipe: batch 0" not in told:
        raise RuntimeError("nsys shows no range 'fastpipe: batch 0'")
    return ""


def feeds(options: argparse.Namespace) -> str:
    """Measures how many CPUs feed a training."""
    script = str(BENCHMARKS / "feeds.py")
    _run(sys.executable, script, str(options.photos), f"--json={options.out / 'feeds.json'}")
    return ""


def albumentations(options: argparse.Namespace) -> str:
    """Runs the augmentation benchmark's own measurement."""
    if options.augbench is None:
        return "--augbench names no checkout (benchmarks/third_party/README.md says how to prepare one)"
    script = str(BENCHMARKS / "third_party" / "run_augbench.py")
    output = f"--json={options.out / 'augbench.json'}"
    _run(sys.executable, script, str(options.photos), f"--checkout={options.augbench}", output)
    return ""


PARTS: dict[str, Callable[[argparse.Namespace], str]] = {
    "device": device,
    "nvtx": nvtx,
    "feeds": feeds,
    "albumentations": albumentations,
}


def _run(*command: str, cwd: Path | None = None, capture: bool = False) -> str:
    done = subprocess.run(command, cwd=cwd, check=True, text=True, stdout=subprocess.PIPE if capture else None)
    return done.stdout or ""


def no_gpu() -> str:
    """Why there is no GPU to run on; empty if there is one."""
    if torch.cuda.is_available():
        return ""
    lacks = "is built without CUDA" if torch.version.cuda is None and torch.version.hip is None else "finds no GPU"
    return f"this torch ({torch.__version__}) {lacks}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path, nargs="?", help="a folder of photos: root/class/….jpg")
    parser.add_argument("--only", default="", metavar="WORD", help="parts whose name has this word")
    parser.add_argument("--augbench", type=Path, metavar="CHECKOUT", help="a checkout of the augmentation benchmark")
    parser.add_argument("--out", type=Path, default=Path("out/gpu"), help="where figures go (%(default)s)")
    options = parser.parse_args(arguments)
    why, failed = no_gpu(), []
    with tempfile.TemporaryDirectory(prefix="fastpipe-gpu-") as folder:
        if not why:
            options.out = options.out.resolve()
            options.out.mkdir(parents=True, exist_ok=True)
            if options.photos is None:
                options.photos = make_photos(Path(folder) / "photos")
        for name, part in PARTS.items():
            if options.only.lower() in name:
                print(f"{name}: {'…' if not why else f'skipped, since {why}'}", flush=True)
                try:
                    skipped = "" if why else part(options)
                except (RuntimeError, subprocess.CalledProcessError) as error:
                    failed.append(name)
                    print(f"{name}: failed: {error}", flush=True)
                else:
                    if not why:
                        print(f"{name}: {f'skipped, since {skipped}' if skipped else 'done'}", flush=True)
    return 1 if failed else 0


def make_photos(root: Path) -> Path:
    """Makes a folder of synthetic photos of ImageNet's size."""
    from fastpipe.tools.bench.samples import make_folder

    make_folder(root, 4, 128)
    return root


if __name__ == "__main__":
    sys.exit(main())
