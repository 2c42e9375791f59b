"""Adapters for benchmarks that others keep give Pillow's and torchvision's results, here beside stand-ins for these."""

from __future__ import annotations

import importlib.util
import io
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from corpus import photo
from PIL import Image
from torchvision_here import module

ADAPTERS = Path(__file__).resolve().parent.parent / "benchmarks" / "third_party"
V = module("torchvision.transforms.v2")
BILINEAR = V.InterpolationMode.BILINEAR
CROP = ("RandomCrop224", {"height": 224, "width": 224})

# Of each operation: its parameters, as the benchmark's catalog has them, and torchvision's transform.
OPERATIONS: dict[str, tuple[dict[str, Any], Any]] = {
    "Affine": (
        {
            "angle": 25.0, "shift": [20, 20], "scale": 2.0, "shear": [10.0, 15.0], "interpolation": "bilinear",
            "mode": "constant", "fill": 0, "reference_size": 512,
        },
        V.RandomAffine(25.0, [20 / 512, 20 / 512], (2.0, 2.0), [10.0, 15.0], BILINEAR),
    ),
    "AutoContrast": ({}, V.RandomAutocontrast(1)),
    "Brightness": ({"brightness_limit": [0.2, 0.2]}, V.ColorJitter(brightness=0.2)),
    "ChannelShuffle": ({}, V.RandomChannelPermutation()),
    "ColorJiggle": (
        {"brightness": [0.875, 1.125], "contrast": [0.5, 1.5], "saturation": [0.5, 1.5], "hue": [-0.05, 0.05]},
        V.ColorJitter([0.875, 1.125], [0.5, 1.5], [0.5, 1.5], [-0.05, 0.05]),
    ),
    "ColorJitter": (
        {"brightness": 0.5, "contrast": 1.5, "saturation": 1.5, "hue": 0.5},
        V.ColorJitter(0.5, 1.5, 1.5, 0.5),
    ),
    "Contrast": ({"contrast_limit": [0.2, 0.2]}, V.ColorJitter(contrast=0.2)),
    "Elastic": (
        {"alpha": 50.0, "sigma": 5.0, "interpolation": "bilinear", "approximate": False, "same_dxdy": True},
        V.ElasticTransform(50.0, 5.0, BILINEAR),
    ),
    "Equalize": ({"mode": "pil"}, V.RandomEqualize(1)),
    "Erasing": (
        {"scale": [0.02, 0.33], "ratio": [0.3, 3.3], "fill": 0},
        V.Compose([V.PILToTensor(), V.RandomErasing(1, [0.02, 0.33], [0.3, 3.3], 0)]),
    ),
    "GaussianBlur": ({"sigma": 2.0, "kernel_size": [5, 5]}, V.GaussianBlur([5, 5], (2.0, 2.0))),
    "Grayscale": ({"num_output_channels": 3}, V.Grayscale(3)),
    "HorizontalFlip": ({}, V.RandomHorizontalFlip(1)),
    "Invert": ({}, V.RandomInvert(1)),
    "JpegCompression": ({"quality": 50}, V.Compose([V.PILToTensor(), V.JPEG(50)])),
    "Pad": ({"padding": 10, "fill": 0, "border_mode": "constant"}, V.Pad(10, 0, "constant")),
    "Perspective": (
        {"scale": [0.05, 0.1], "interpolation": "bilinear", "fill": 0},
        V.RandomPerspective(0.1, 1, BILINEAR, 0),
    ),
    "PhotoMetricDistort": (
        {
            "brightness_range": [0.875, 1.125], "contrast_range": [0.5, 1.5], "saturation_range": [0.5, 1.5],
            "hue_range": [-0.05, 0.05],
        },
        V.RandomPhotometricDistort([0.875, 1.125], [0.5, 1.5], [0.5, 1.5], [-0.05, 0.05], 1),
    ),
    "Posterize": ({"bits": 4}, V.RandomPosterize(4, 1)),
    "RandomCrop224": (CROP[1], V.RandomCrop((224, 224), pad_if_needed=True)),
    "RandomResizedCrop": (
        {
            "size": [224, 224], "width": 224, "scale": [0.08, 1.0], "ratio": [0.75, 4 / 3],
            "interpolation": "bilinear",
        },
        V.RandomResizedCrop([224, 224], [0.08, 1.0], [0.75, 4 / 3], BILINEAR),
    ),
    "Resize": ({"target_size": 224, "interpolation": "bilinear"}, V.Resize((224, 224), BILINEAR)),
    "Rotate": (
        {"angle_range": [-45, 45], "interpolation": "nearest", "mode": "constant", "fill": 0},
        V.RandomRotation([-45, 45], V.InterpolationMode.NEAREST, fill=0),
    ),
    "Sharpen": ({"alpha": [0.2, 0.5], "lightness": [0.5, 1]}, V.RandomAdjustSharpness(2.0, 1)),
    "Solarize": ({"threshold": 0.5}, V.RandomSolarize(127, 1)),
    "VerticalFlip": ({}, V.RandomVerticalFlip(1)),
}  # fmt: skip
SHAPING = ("Resize", "RandomCrop224", "RandomResizedCrop")


@pytest.fixture
def load(monkeypatch):
    """Imports an adapter, beside modules that hold so much of the benchmark as it uses."""

    def stand_in(name: str, **members: Any) -> None:
        parts = name.split(".")
        for count in range(1, len(parts)):
            package = ".".join(parts[:count])
            if package not in sys.modules:
                monkeypatch.setitem(sys.modules, package, ModuleType(package))
        replaced = ModuleType(name)
        vars(replaced).update(members)
        monkeypatch.setitem(sys.modules, name, replaced)

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"third_party_{name}", ADAPTERS / f"{name}.py")
        adapter = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, adapter.__name__, adapter)
        spec.loader.exec_module(adapter)
        return adapter

    stand_in("imread_benchmark.decoders", BaseDecoder=object)
    stand_in(
        "augbench.adapters.runtime", PythonModuleAdapter=SimpleNamespace, PythonModuleAdapterConfig=SimpleNamespace
    )
    stand_in("augbench.implementations.gpu_normalize", GpuBatchNormalize=SimpleNamespace)
    stand_in(
        "augbench.implementations.recipe_stages",
        normalization_stats=lambda recipe: ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        transform_specs=lambda recipe: recipe.specs,
    )
    stand_in("augbench.recipes.runtime", UnsupportedRecipeError=type("UnsupportedRecipeError", (RuntimeError,), {}))
    return load


def jpeg(height: int, width: int, gray: bool = False) -> bytes:
    file = io.BytesIO()
    image = Image.fromarray(photo(height, width))
    (image.convert("L") if gray else image).save(file, "JPEG", quality=90)
    return file.getvalue()


@pytest.mark.parametrize(("height", "width", "gray"), [(1, 1, False), (37, 53, False), (240, 161, True)])
def test_the_decoder_gives_pillows_pixels(load, tmp_path, height, width, gray):
    data = jpeg(height, width, gray)
    (tmp_path / "image.jpg").write_bytes(data)
    decoder = load("fastpipe_decoder").FastpipeDecoder()
    assert (decoder.name, decoder.package_name, decoder.group) == ("fastpipe", "fastpipe", "mainstream")
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    for found in (decoder.decode(data), decoder.decode_path(str(tmp_path / "image.jpg"))):
        assert found.dtype == np.uint8
        assert found.flags.c_contiguous
        assert found.flags.writeable
        assert np.array_equal(found, expected)


def recipe_of(name: str) -> SimpleNamespace:
    """A recipe as the catalog has it: with a crop where the operation doesn't shape the image itself."""
    stages = [(name, OPERATIONS[name][0])]
    if name == "Pad":
        stages.append(CROP)
    elif name not in SHAPING:
        stages.insert(0, CROP)
    specs = tuple(SimpleNamespace(name=stage, params=params) for stage, params in stages)
    return SimpleNamespace(recipe_id=f"{name}+Normalize+ToTensor", specs=specs)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_recipe_gives_torchvisions_samples(load, tmp_path, name):
    if name == "JpegCompression" and not getattr(module("torchvision.io.image"), "_has_image_ops", lambda: True)():
        pytest.skip("torchvision's extension, which has its JPEG encoder, doesn't load here")
    path = tmp_path / "image.jpg"
    path.write_bytes(jpeg(261, 347))
    adapter_module = load("fastpipe_rgb")
    recipe = recipe_of(name)
    built = adapter_module.build_recipe(recipe, "fastpipe_cpu")
    reference = V.Compose(
        [
            OPERATIONS[spec.name][1] if spec.name == name else V.RandomCrop((224, 224), pad_if_needed=True)
            for spec in recipe.specs
        ]
    )
    for seed in range(3):
        torch.manual_seed(seed)
        found = adapter_module.__call__(built.cpu_transform, adapter_module.load_source(SimpleNamespace(path=path)))
        torch.manual_seed(seed)
        expected = reference(Image.open(path).convert("RGB"))
        if not isinstance(expected, torch.Tensor):
            expected = V.PILToTensor()(expected)
        assert found.dtype == torch.uint8
        assert found.shape == expected.shape == (3, 224, 224)
        assert torch.equal(found, expected)


def test_the_adapter_is_one_of_a_module_whose_batches_the_gpu_normalises(load):
    adapter_module = load("fastpipe_rgb")
    assert set(adapter_module.TRANSFORMS) == set(OPERATIONS)
    adapter = adapter_module.create_adapter("fastpipe_cpu")
    assert adapter.config.implementation_id == "fastpipe_cpu"
    assert adapter.config.recipe_module == adapter_module.__name__
    assert adapter.config.placement == "cpu"
    built = adapter_module.build_recipe(recipe_of("HorizontalFlip"), "fastpipe_cpu")
    assert built.defer_batch_to_gpu
    assert built.gpu_transform.input_layout == "BCHW"
    assert built.gpu_transform.mean == (0.485, 0.456, 0.406)


def test_what_fastpipe_has_not_is_refused_by_name(load):
    adapter_module = load("fastpipe_rgb")
    unsupported = sys.modules["augbench.recipes.runtime"].UnsupportedRecipeError
    snow = SimpleNamespace(recipe_id="Snow+", specs=(SimpleNamespace(name="Snow", params={}),))
    with pytest.raises(unsupported, match="'Snow'"):
        adapter_module.build_recipe(snow, "fastpipe_cpu")
    with pytest.raises(unsupported, match="'pillow_cpu' isn't fastpipe's"):
        adapter_module.build_recipe(recipe_of("Invert"), "pillow_cpu")


@pytest.mark.needs_core
def test_a_source_is_opened_without_its_pixels(load, tmp_path):
    path = tmp_path / "image.jpg"
    path.write_bytes(jpeg(261, 347))
    image = load("fastpipe_rgb").load_source(SimpleNamespace(path=path))
    assert (image.size, image.mode) == ((347, 261), "RGB")
    assert image.__dict__.get("_im") is None


def test_the_augmentation_benchmarks_pass_counts_what_came_after_the_first_batch(load, monkeypatch):
    """By stand-ins for its loader and its consumer, which asks a GPU."""
    runner = load("run_augbench")
    made: list[Any] = []
    clock = iter([10.0, 12.0])

    class Source:
        def __init__(self, **options):
            made.append(options)

        def open(self):
            made.append("open")

        def next_batch(self):
            return 4

        def close(self):
            made.append("close")

    class Consumer:
        def __init__(self, **options):
            assert options["expected_channels"] == 3

        def __call__(self, batch):
            return batch

        def synchronize(self):
            made.append("synchronize")

    pipeline = ModuleType("augbench.execution.pipeline")
    vars(pipeline).update(RecipeDataset=SimpleNamespace, TorchDataLoaderSource=Source, ReadyGpuBatchConsumer=Consumer)
    monkeypatch.setitem(sys.modules, "augbench.execution", ModuleType("augbench.execution"))
    monkeypatch.setitem(sys.modules, "augbench.execution.pipeline", pipeline)
    monkeypatch.setattr(runner.time, "perf_counter", lambda: next(clock))
    adapter = SimpleNamespace(build_recipe=lambda recipe: SimpleNamespace(host_batch_transform="t"))
    options = SimpleNamespace(batch_size=4, workers=2)
    assert runner.images_per_s(adapter, "recipe", [1] * 14, options, 3) == 8 / 2  # batches of 4, the first one untimed
    given = made[0]
    assert (given["seed"], given["num_workers"], given["host_batch_transform"]) == (3, 2, "t")
    assert made[1:] == ["open", "synchronize", "synchronize", "close"]


def test_the_augmentation_benchmarks_table_leaves_out_who_refuses(load, monkeypatch, capsys):
    runner = load("run_augbench")

    def rate(adapter, recipe, sources, options, seed):
        if adapter == "k":
            raise RuntimeError("no")
        return {"f": 300.0, "t": 100.0}[adapter] + seed

    monkeypatch.setattr(runner, "images_per_s", rate)
    recipe = SimpleNamespace(
        recipe_id="Flip", supported_implementations=("fastpipe_cpu", "torchvision_cpu", "kornia_cpu")
    )
    adapters = {"fastpipe_cpu": "f", "torchvision_cpu": "t", "kornia_cpu": "k", "pillow_cpu": "p"}
    found = runner.compare(adapters, recipe, [], SimpleNamespace(rounds=3))
    assert found["images_per_s"] == {"fastpipe_cpu": 301.0, "torchvision_cpu": 101.0}
    assert found["ratio"] == {"torchvision_cpu": 301 / 101}
    assert "kornia_cpu is left out: no" in capsys.readouterr().out
