"""Resizes after a conversion to floats: in the core, with torchvision's values, on images, files and batches."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torchvision_here import module

from fastpipe import ops
from fastpipe import transforms as T
from fastpipe.kernels import conversion
from fastpipe.program import Encoded, execute, lower
from fastpipe.transforms import v2
from fastpipe.transforms.multi_view import MultiView
from fastpipe.transforms.pipeline import compile_pipeline
from fastpipe.types import ImageShape

theirs, theirs_v2 = module("torchvision.transforms"), module("torchvision.transforms.v2")
pytestmark = pytest.mark.needs_core
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def of_v1(library: Any) -> list[Any]:
    return [library.ToTensor()]


def of_v2(library: Any) -> list[Any]:
    return [library.ToImage(), library.ToDtype(torch.float32, scale=True)]


def planar_v2(library: Any) -> list[Any]:
    return [library.PILToTensor(), library.ToDtype(torch.float32, scale=True)]


CONVERSIONS = {"v1": (T, theirs, of_v1), "v2": (v2, theirs_v2, of_v2), "v2, plain": (v2, theirs_v2, planar_v2)}
STEPS: dict[str, Callable[[Any], Any]] = {
    "resize": lambda library: library.Resize((23, 31)),
    "shorter side": lambda library: library.Resize(29),
    "resized crop": lambda library: library.RandomResizedCrop(24),
    "not smoothed": lambda library: library.Resize((23, 31), antialias=False),
    "bicubic": lambda library: library.Resize((23, 31), library.InterpolationMode.BICUBIC),
    "crop": lambda library: library.RandomCrop(19),
    "padded crop": lambda library: library.RandomCrop(22, padding=3),
    "centre": lambda library: library.CenterCrop(21),
    "larger centre": lambda library: library.CenterCrop(50),
    "hflip": lambda library: library.RandomHorizontalFlip(0.7),
    "vflip": lambda library: library.RandomVerticalFlip(0.7),
    "normalize": lambda library: library.Normalize(MEAN, STD),
    "gray": lambda library: library.RandomGrayscale(0.5),
    "pad": lambda library: library.Pad(2),
    "erase": lambda library: library.RandomErasing(1.0),
}


def results(build: Callable[[Any], Any], way: str, image: Any, seed: int) -> tuple[Any, Any]:
    """fastpipe's result and torchvision's, or their errors, and the next random number after each."""
    ours, plain, _ = CONVERSIONS[way]
    both = []
    for library in (ours, plain):
        torch.manual_seed(seed)
        if not hasattr(library, "InterpolationMode"):
            library.InterpolationMode = theirs.InterpolationMode
        try:
            result = build(library)(image)
            both.append((result.tolist(), result.dtype, type(result), torch.rand(1).item()))
        except (ValueError, RuntimeError) as error:
            both.append((type(error), str(error), torch.rand(1).item()))
    return both[0], both[1]


@given(
    st.sampled_from([*CONVERSIONS]),
    st.lists(st.sampled_from([*STEPS]), min_size=1, max_size=5),
    st.integers(20, 60),
    st.integers(20, 60),
    st.integers(0, 10**6),
)
def test_values_are_torchvision_s(way: str, names: list[str], height: int, width: int, seed: int) -> None:
    image = Image.fromarray(corpus.photo(height, width, seed=seed % 100))
    to_floats = CONVERSIONS[way][2]

    def build(library: Any) -> Any:
        return library.Compose([*to_floats(library), *(STEPS[name](library) for name in names)])

    ours, expected = results(build, way, image, seed)
    assert ours == expected


@pytest.mark.parametrize("size", [(1, 40), (40, 1), (2, 2), (3, 200), (41, 67)])
@pytest.mark.parametrize("way", [*CONVERSIONS])
@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("to", [(1, 7), (2, 5), (41, 67), (90, 3)])
def test_sides_of_a_pixel_and_gray_images(size: tuple[int, int], way: str, mode: str, to: tuple[int, int]) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (*size, 3), np.uint8)
    image, to_floats = Image.fromarray(pixels).convert(mode), CONVERSIONS[way][2]
    ours, expected = results(lambda lib: lib.Compose([*to_floats(lib), lib.Resize(to)]), way, image, 0)
    assert ours == expected


IN_THE_CORE = [
    ("v1", ["crop", "resize", "hflip", "normalize"], 0),
    ("v1", ["resize", "crop", "normalize", "erase"], 1),
    ("v1", ["shorter side", "centre", "normalize", "vflip", "hflip"], 0),
    ("v2", ["resized crop", "hflip", "normalize"], 0),
    ("v2", ["resize", "normalize", "crop"], 0),
    ("v2, plain", ["shorter side", "vflip", "centre", "hflip", "normalize"], 0),
    ("v2, plain", ["resize", "pad", "normalize"], 2),
]


def program_of(way: str, names: list[str], shape: ImageShape) -> Any:
    library, _, to_floats = CONVERSIONS[way]
    steps = [*to_floats(library), *(STEPS[name](library) for name in names)]
    return lower(compile_pipeline(library.Compose(steps)).draw(shape).steps, shape)


@pytest.mark.parametrize(("way", "names", "after"), IN_THE_CORE)
def test_the_core_runs_all_but_what_comes_after(way: str, names: list[str], after: int) -> None:
    program = program_of(way, names, ImageShape(60, 80))
    assert isinstance(program.steps[-1], ops.ResizeAsFloats)
    assert len(program.after) == after
    assert "as floats" in str(program)


@pytest.mark.parametrize(
    ("way", "names"),
    [("v1", ["not smoothed"]), ("v1", ["bicubic"]), ("v2", ["bicubic"]), ("v1", ["normalize", "resize"])],
)
def test_other_resizes_are_torchvision_s(way: str, names: list[str]) -> None:
    program = program_of(way, names, ImageShape(60, 80))
    assert not any(isinstance(step, ops.ResizeAsFloats) for step in program.steps)


def test_only_what_a_window_needs_is_decoded() -> None:
    resize = [ops.ToTensor(), ops.Resize([100, 100], antialias=True)]
    program = lower((*resize, ops.Crop(10, 40, 20, 30)), ImageShape(1000, 1000))
    box = program.box
    assert (90, 390) <= box[:2] <= (100, 400)
    assert box.bottom <= 320
    assert box.right <= 720
    image = corpus.photo(1000, 1000)
    expected = theirs.functional.resize(theirs.functional.to_tensor(Image.fromarray(image)), [100, 100])
    made = execute(program, Encoded.of(corpus.save(image, "PNG")))
    assert torch.equal(made, expected[:, 10:30, 40:70])


@pytest.mark.parametrize("way", [*CONVERSIONS])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "CMYK"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_files_are_written_into_batches(way: str, kind: str, dtype: torch.dtype) -> None:
    """Also a file that the core leaves to Pillow, and a batch of another dtype."""
    image = Image.fromarray(corpus.photo(97, 131, seed=2)).convert("CMYK" if kind == "CMYK" else "RGB")
    data = corpus.save(image, "JPEG" if kind == "CMYK" else kind)
    program = program_of(way, ["resize", "centre", "hflip", "normalize"], ImageShape(97, 131))
    batch = torch.zeros((3, 3, 21, 21), dtype=dtype)
    execute(program, Encoded.of(data), batch[1])
    expected = program.conversion.apply(program.steps[-1].apply(part_of(data, program)))
    assert torch.equal(batch[1], expected.to(dtype))
    assert not batch[0].any()
    assert not batch[2].any()


def part_of(data: bytes, program: Any) -> Any:
    box = program.box
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))[box.top : box.bottom, box.left : box.right]


def test_views_are_resized_as_floats_each() -> None:
    pixels = corpus.photo(60, 80)
    views = MultiView(T.Compose([T.ToTensor(), T.RandomResizedCrop(24, antialias=True), T.Normalize(MEAN, STD)]), 2)
    torch.manual_seed(3)
    expected = [views.transforms[0](Image.fromarray(pixels)) for _ in range(2)]
    torch.manual_seed(3)
    recipe = compile_pipeline(views).draw(ImageShape(60, 80))
    made = execute(lower(recipe.steps, recipe.shape), Encoded.of(corpus.save(pixels, "PNG")))
    assert all(map(torch.equal, made, expected))


def test_floats_that_were_resized_before_are_only_normalized() -> None:
    floats = np.random.default_rng(1).random((5, 7, 3), np.float32)
    planes = torch.from_numpy(floats).permute(2, 0, 1).contiguous()
    assert torch.equal(conversion.floats_to_tensor(floats), planes)
    out = torch.empty((3, 5, 7), dtype=torch.float16)
    made = ops.ToNormalizedTensor(tuple(MEAN), tuple(STD)).apply(floats, out)
    assert made is out
    assert torch.equal(out, theirs.functional.normalize(planes, MEAN, STD).half())
