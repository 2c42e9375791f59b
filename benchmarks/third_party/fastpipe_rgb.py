"""fastpipe as an implementation of the augmentation benchmark (https://github.com/albumentations-team/benchmark).

It goes to ``src/augbench/adapters/fastpipe/rgb.py`` of a checkout; README.md beside this file says how. Images are
opened by `fastpipe.open_image`, so that a recipe decodes what its crop keeps, and transformed with the parameters that
torchvision's row has. As in the other CPU rows, samples are uint8, and batches are normalised on the GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from augbench.adapters.runtime import PythonModuleAdapter, PythonModuleAdapterConfig
from augbench.implementations.gpu_normalize import GpuBatchNormalize
from augbench.implementations.recipe_stages import normalization_stats, transform_specs
from augbench.recipes.runtime import UnsupportedRecipeError

import fastpipe
from fastpipe.transforms import InterpolationMode, v2

if TYPE_CHECKING:
    from augbench.adapters.sources import SourceRef
    from augbench.recipes.models import RecipeSpec
    from PIL import Image

IMPLEMENTATION = "fastpipe_cpu"


def create_adapter(implementation_id: str) -> PythonModuleAdapter:
    """The adapter, by which the benchmark loads images and builds recipes."""
    config = PythonModuleAdapterConfig(
        implementation_id=implementation_id, recipe_module=__name__, placement="cpu", source_id="fastpipe"
    )
    return PythonModuleAdapter(config=config, load_source=load_source)


def load_source(source: SourceRef) -> Image.Image:
    """A file, of which the transform will decode what it needs."""
    return fastpipe.open_image(source.path).convert("RGB")


def __call__(transform: Any, image: Any) -> Any:
    """Calls a transform on an image; the benchmark takes this from the module, by name."""
    return transform(image)


def build_recipe(recipe: RecipeSpec, implementation_id: str) -> DeferredRecipe:
    """A recipe of the catalog, from the opened file to a uint8 tensor, and what the GPU does to the batch."""
    if implementation_id != IMPLEMENTATION:
        raise UnsupportedRecipeError(f"{implementation_id!r} isn't fastpipe's: it has {IMPLEMENTATION!r}")
    steps: list[Any] = []
    to_tensor = v2.PILToTensor()
    for spec in transform_specs(recipe):
        if spec.name not in TRANSFORMS:
            raise UnsupportedRecipeError(f"recipe {recipe.recipe_id!r}: fastpipe has no {spec.name!r}")
        if spec.name in ON_TENSORS and to_tensor not in steps:
            steps.append(to_tensor)
        steps.append(TRANSFORMS[spec.name](spec.params))
    if to_tensor not in steps:
        steps.append(to_tensor)
    mean, std = normalization_stats(recipe)
    return DeferredRecipe(v2.Compose(steps), GpuBatchNormalize(mean=mean, std=std, input_layout="BCHW"))


class DeferredRecipe:
    """A transform in the workers, and one of batches on the GPU, as the benchmark looks them up by name."""

    defer_batch_to_gpu = True

    def __init__(self, cpu_transform: Any, gpu_transform: Any) -> None:
        self.cpu_transform = cpu_transform
        self.gpu_transform = gpu_transform


def _filter(params: dict[str, Any]) -> InterpolationMode:
    return InterpolationMode(params["interpolation"])


def _jitter(params: dict[str, Any]) -> Any:
    return v2.ColorJitter(*(params[name] for name in ("brightness", "contrast", "saturation", "hue")))


def _limit(limit: Any) -> float:
    """The catalog's limits are pairs of equal numbers, or one."""
    return limit[0] if isinstance(limit, (list, tuple)) else limit


def _affine(params: dict[str, Any]) -> Any:
    # torchvision translates by a part of the size, the catalog by pixels of an image of the reference size.
    translate = [pixels / params.get("reference_size", 512) for pixels in params["shift"]]
    scale = (params["scale"], params["scale"])
    return v2.RandomAffine(params["angle"], translate, scale, params["shear"], _filter(params), params.get("fill", 0))


# torchvision has these for tensors alone, and so has fastpipe.
ON_TENSORS = frozenset({"Erasing", "JpegCompression"})

# The catalog's operations that torchvision's row has, by name.
TRANSFORMS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "Affine": _affine,
    "AutoContrast": lambda params: v2.RandomAutocontrast(p=1),
    "Brightness": lambda params: v2.ColorJitter(brightness=_limit(params["brightness_limit"])),
    "ChannelShuffle": lambda params: v2.RandomChannelPermutation(),
    "ColorJiggle": _jitter,
    "ColorJitter": _jitter,
    "Contrast": lambda params: v2.ColorJitter(contrast=_limit(params["contrast_limit"])),
    "Elastic": lambda params: v2.ElasticTransform(params["alpha"], params["sigma"], _filter(params)),
    "Equalize": lambda params: v2.RandomEqualize(p=1),
    "Erasing": lambda params: v2.RandomErasing(1, params["scale"], params["ratio"], params["fill"]),
    "GaussianBlur": lambda params: v2.GaussianBlur(params["kernel_size"], (params["sigma"], params["sigma"])),
    "Grayscale": lambda params: v2.Grayscale(params["num_output_channels"]),
    "HorizontalFlip": lambda params: v2.RandomHorizontalFlip(p=1),
    "Invert": lambda params: v2.RandomInvert(p=1),
    "JpegCompression": lambda params: v2.JPEG(params["quality"]),
    "Pad": lambda params: v2.Pad(params["padding"], params["fill"], params["border_mode"]),
    "Perspective": lambda params: v2.RandomPerspective(params["scale"][1], 1, _filter(params), params["fill"]),
    "PhotoMetricDistort": lambda params: v2.RandomPhotometricDistort(
        params["brightness_range"], params["contrast_range"], params["saturation_range"], params["hue_range"], p=1
    ),
    "Posterize": lambda params: v2.RandomPosterize(params["bits"], p=1),
    "RandomCrop224": lambda params: v2.RandomCrop((params["height"], params["width"]), pad_if_needed=True),
    "RandomResizedCrop": lambda params: v2.RandomResizedCrop(
        params["size"], params["scale"], params["ratio"], _filter(params)
    ),
    "Resize": lambda params: v2.Resize((params["target_size"], params["target_size"]), _filter(params)),
    "Rotate": lambda params: v2.RandomRotation(params["angle_range"], _filter(params), fill=params["fill"]),
    "Sharpen": lambda params: v2.RandomAdjustSharpness(2.0, p=1),
    # The catalog's threshold is a part of the range; an image's is a level, as in Pillow's row.
    "Solarize": lambda params: v2.RandomSolarize(int(255 * params["threshold"]), p=1),
    "VerticalFlip": lambda params: v2.RandomVerticalFlip(p=1),
}
