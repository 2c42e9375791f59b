"""Pipelines that begin with a conversion to a tensor: torchvision's bytes, by the core from the file to the batch."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import corpus
import pytest
import torch
from PIL import Image
from torchvision_here import module, torchvision
from v2_pipelines import MEAN, STD, pipeline, same, write_photos

import fastpipe
from fastpipe import ops
from fastpipe.program import lower
from fastpipe.tensor_kernels import v2_tensors
from fastpipe.transforms import InterpolationMode, v2
from fastpipe.transforms.pipeline import compile_pipeline
from fastpipe.types import ImageShape

theirs, v1 = module("torchvision.transforms.v2"), module("torchvision.transforms")
TheirFolder = torchvision.datasets.ImageFolder


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photos(tmp_path_factory.mktemp("photos"), (1, 9, "444"))


def tensor_first(namespace: Any, *middle: Any, size: int = 48) -> Any:
    return namespace.Compose(
        [
            namespace.ToImage(),
            namespace.RandomResizedCrop(size),
            namespace.RandomHorizontalFlip(),
            *middle,
            namespace.ToDtype(torch.float32, scale=True),
            namespace.Normalize(MEAN, STD),
        ]
    )


def evaluation(namespace: Any) -> Any:
    ending = [namespace.ToDtype(torch.float32, scale=True), namespace.Normalize(MEAN, STD)]
    return namespace.Compose([namespace.PILToTensor(), namespace.Resize(60), namespace.CenterCrop(48), *ending])


RECIPES: dict[str, Any] = {
    "training": tensor_first,
    "evaluation": evaluation,
    "RandAugment": lambda namespace: tensor_first(namespace, namespace.RandAugment()),
    "TrivialAugmentWide": lambda namespace: tensor_first(namespace, namespace.TrivialAugmentWide()),
    "AutoAugment": lambda namespace: tensor_first(namespace, namespace.AutoAugment()),
    "ColorJitter": lambda namespace: tensor_first(namespace, namespace.ColorJitter(0.4, 0.4, 0.4, 0.1)),
    "SimCLR": lambda namespace: tensor_first(
        namespace, namespace.RandomGrayscale(0.5), namespace.RandomSolarize(128, 0.5), namespace.GaussianBlur(5)
    ),
    "noise": lambda namespace: namespace.Compose(
        [
            namespace.ToImage(),
            namespace.RandomResizedCrop(40),
            namespace.ToDtype(torch.float32, scale=True),
            namespace.GaussianNoise(),
        ]
    ),
    "noise on a window that is resized without antialiasing": lambda namespace: namespace.Compose(
        [
            namespace.ToImage(),
            namespace.RandomResizedCrop(40, antialias=False),
            namespace.ToDtype(torch.float32, scale=True),
            namespace.GaussianNoise(),
        ]
    ),
    "antialias=None": lambda namespace: namespace.Compose(
        [namespace.ToImage(), namespace.RandomResizedCrop(40, antialias=None), namespace.Resize(24, antialias=None)]
    ),
    "noise on a window of floats that is resized": lambda namespace: namespace.Compose(
        [
            namespace.ToImage(),
            namespace.ToDtype(torch.float32, scale=True),
            namespace.CenterCrop(30),
            namespace.Resize(20),
            namespace.GaussianNoise(),
        ]
    ),
    "noise on a window that is resized as floats": lambda namespace: namespace.Compose(
        [
            namespace.ToImage(),
            namespace.CenterCrop(30),
            namespace.ToDtype(torch.float32, scale=True),
            namespace.Resize(20),
            namespace.GaussianNoise(),
        ]
    ),
    "CIFAR": lambda namespace: namespace.Compose(
        [namespace.ToImage(), namespace.RandomCrop(56, padding=4, pad_if_needed=True), namespace.RandomHorizontalFlip()]
    ),
}


def samples(folder: Any, root: Path, transform: Any) -> list[Any]:
    torch.manual_seed(5)
    dataset = folder(str(root), transform)
    return [*(dataset[index][0] for index in [*range(6)] * 4), torch.get_rng_state()]


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("ours", [True, False], ids=["fastpipe's classes", "torchvision's"])
def test_samples_and_generators(root: Path, name: str, ours: bool) -> None:
    known = samples(TheirFolder, root, RECIPES[name](theirs))
    made = samples(fastpipe.ImageFolder, root, RECIPES[name](v2 if ours else theirs))
    assert same(tuple(made), tuple(known))
    assert [type(one) for one in made] == [type(one) for one in known]


@pytest.mark.parametrize("seed", [*range(40), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(40, 200))])
def test_random_pipelines(root: Path, seed: int) -> None:
    def sample(folder: Any, namespace: Any) -> Any:
        torch.manual_seed(seed)
        members = [one for one in pipeline(namespace, seed) if not isinstance(one, theirs.ToImage)]
        transform = namespace.Compose([namespace.ToImage(), *members])
        try:
            return folder(str(root), transform)[seed % 4][0], torch.get_rng_state()
        except (ValueError, TypeError, RuntimeError) as error:
            return type(error) if type(error).__module__ == "builtins" else ValueError

    made, known = sample(fastpipe.ImageFolder, v2), sample(TheirFolder, theirs)
    assert isinstance(known, tuple) or not isinstance(made, tuple)
    assert not isinstance(known, tuple) or same(made, known)


@pytest.mark.parametrize("name", ["training", "evaluation", "RandAugment"])
def test_batches_and_threads(root: Path, name: str) -> None:
    transform = RECIPES[name](v2)
    whole = fastpipe.ImageFolder(root, transform, seed=3)
    expected = torch.stack([torch.as_tensor(image) for image, _ in (whole[index] for index in range(6))])
    for options in ({}, {"threads": 2}):
        dataset = fastpipe.ImageFolder(root, transform, seed=3)
        images, _ = next(iter(fastpipe.DataLoader(dataset, batch_size=6, **options)))
        assert torch.equal(images, expected)


@pytest.mark.needs_core
def test_the_whole_program_is_the_cores() -> None:
    """Nothing stays behind the conversion, and the crop is decoded alone."""
    if v2_tensors.fused() is None or not v2_tensors.resizes_natively("bilinear"):
        pytest.skip("this torch rounds as the core doesn't")
    for name in ("training", "evaluation", "RandAugment", "TrivialAugmentWide", "ColorJitter"):
        drawn = compile_pipeline(RECIPES[name](v2))
        for seed in range(20):
            torch.manual_seed(seed)
            program = lower(drawn.steps(ImageShape(300, 400)), ImageShape(300, 400))
            turned = any("rotate" in str(step) for step in program.after)  # by 90 degrees, which leaves another order
            assert program.conversion is not None
            assert program.after == () or turned
            assert program.box.height * program.box.width < 300 * 400


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_a_resize_to_a_size_is_kept_for_tensors_of_any_size(dtype: torch.dtype) -> None:
    resize = ops.resize_to([48, 40], InterpolationMode.BILINEAR)
    first = ops.as_tensor_operation(resize, ops.TensorShape.of((90, 80, 3), dtype, pure=True, ahead=True))
    memo = ops.memo_of(first)
    for height in range(60, 200):
        shape = ops.TensorShape.of((height, 80, 3), dtype, pure=True, ahead=True)
        again = ops.as_tensor_operation(resize, shape)
        assert again is first
        assert again.output_shape(shape) == (48, 40, 3)
        assert ops.memo_of(again) is memo
    others = (90, 80, 1), (90, 80, 3)
    shapes = [ops.TensorShape.of(others[0], dtype, True, True), ops.TensorShape.of(others[1], dtype, True, False)]
    for shape in shapes:
        assert ops.as_tensor_operation(resize, shape).output_shape(shape) == (48, 40, shape.channels)


def test_explain_says_what_is_done(root: Path) -> None:
    text = str(fastpipe.explain(fastpipe.ImageFolder(root, tensor_first(v2))))
    assert "as a tensor" in text or not v2_tensors.resizes_natively("bilinear")


@pytest.mark.parametrize("scale", [v1.ConvertImageDtype(torch.float32), None])
def test_v1_on_tensors_decodes_the_crop_alone(root: Path, scale: Any) -> None:
    members = [v1.PILToTensor(), v1.RandomResizedCrop(40, antialias=True), v1.RandomHorizontalFlip()]
    transform = v1.Compose(members if scale is None else [*members, scale, v1.Normalize(MEAN, STD)])
    assert same(tuple(samples(fastpipe.ImageFolder, root, transform)), tuple(samples(TheirFolder, root, transform)))
    program = lower(compile_pipeline(transform).steps(ImageShape(300, 400)), ImageShape(300, 400))
    assert program.box.height * program.box.width < 300 * 400


def test_a_compose_called_on_an_image() -> None:
    """Strides, too: a draw for each element follows them."""
    picture = Image.fromarray(corpus.photo(90, 121, 3))
    for name in RECIPES:
        for seed in range(6):
            results = []
            for namespace in (v2, theirs):
                torch.manual_seed(seed)
                made = RECIPES[name](namespace)(picture)
                results.append((made, torch.get_rng_state()))
            assert same(*results)
            assert type(results[0][0]) is type(results[1][0])


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
@pytest.mark.parametrize(
    "padding", [[1, 2, 3, 4], [2, 2, 2, 2], [3, 0, 3, 0], [4, 0, 0, 0], [0, 9, 0, 0], [0, 0, 0, 10]]
)
def test_a_mirror_larger_than_the_image(mode: str, padding: list[int]) -> None:
    image = Image.open(io.BytesIO(corpus.jpeg(9, 3)))
    found = []
    for namespace in (v2, theirs):
        transform = namespace.Compose([namespace.PILToTensor(), namespace.Pad(padding, padding_mode=mode)])
        try:
            found.append(transform(image))
        except (IndexError, RuntimeError) as error:
            found.append(f"{type(error).__name__}: {error}")
    assert type(found[0]) is type(found[1])
    assert found[0] == found[1] if isinstance(found[0], str) else torch.equal(*found)
