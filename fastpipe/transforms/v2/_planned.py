"""The base of fastpipe's v2 classes, which derive from torchvision's: draws from a shape, and arrays as images."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import PIL.Image
import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten
from torchvision import tv_tensors
from torchvision.transforms import v2 as theirs

from fastpipe import core
from fastpipe.errors import PlanError
from fastpipe.mistakes import attempt
from fastpipe.ops.interpolation import InterpolationMode
from fastpipe.program.core_job import LoadedImage
from fastpipe.program.lower import lower
from fastpipe.program.on_image import run_on_image, shape_of
from fastpipe.rng import TorchStream, rewound_on, stream_of
from fastpipe.rng.torch_patch import torch_draws_from
from fastpipe.torch_modes import torch_modes_active
from fastpipe.transforms._attributes import Attribute, by_class
from fastpipe.transforms._base import draw_all
from fastpipe.transforms.adapters import planned
from fastpipe.transforms.autoaugment import AutoAugmentPolicy
from fastpipe.transforms.compose_plan import UNPLANNED, ComposePlanSlot, draw_and_run, fills_by_class, is_opened_file
from fastpipe.transforms.pipeline import is_of_v2
from fastpipe.transforms.sized_image import Untraceable
from fastpipe.transforms.v2 import _draws, _params, functional
from fastpipe.transforms.v2._kernels import Function, by_fastpipe, with_functional
from fastpipe.transforms.v2._proxies import STAND_INS, PilStandIn, after, image_steps, stand_in, stand_in_shape
from fastpipe.types import Generators, ImageShape, ImageTransform, Step


class Planned:
    """Makes a v2 transform of torchvision's drawable from an image's shape, and able to take arrays."""

    _fill, dtype = Attribute(by_class), Attribute(by_class)
    interpolation, policy = Attribute(InterpolationMode.adopt), Attribute(AutoAugmentPolicy.adopt)
    _runs_alone = False
    """True if a program is faster than torchvision's code for a single PIL image."""

    def forward(self, *inputs: object) -> object:
        """Calls torchvision's ``forward``; runs a program instead for a single PIL image if that is faster.

        A uint8 array that is the sample's image is transformed like a PIL image.
        """
        if self._runs_alone and len(inputs) == 1 and isinstance(inputs[0], PIL.Image.Image):
            result = _run_alone(self, inputs[0])
            if result is not None:
                return result
        if not _may_have_array(inputs) or _takes_arrays(self):
            return super().forward(*inputs)  # type: ignore[misc]
        return _with_array(self, super().forward, inputs)  # type: ignore[misc]

    def _call_kernel(self, functional: Function, inpt: object, *args: object, **kwargs: object) -> object:
        """Calls torchvision's kernel; the core's instead on uint8 tensors in main memory and on PIL images."""
        result = by_fastpipe(functional, inpt, args, kwargs)
        return super()._call_kernel(functional, inpt, *args, **kwargs) if result is None else result  # type: ignore[misc]

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        """Draws the steps for an image of that shape, with the same random numbers as calling the transform."""
        return steps_of(self, shape, generators)

    def _plans_itself(self) -> bool:
        """True if the steps of `draw` are all that calling the transform does."""
        return _is_planned(self)


class PlannedApply(Planned):
    """`Planned` for ``RandomApply``."""

    if TYPE_CHECKING:  # TorchScript would take annotations for the attributes' types
        transforms: Sequence[ImageTransform]
        p: float

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        """Draws for each member in order."""
        return draw_all(self.transforms, shape, generators) if stream_of(generators).bernoulli(self.p) else ()


class PlannedV2Compose(Planned, ComposePlanSlot):
    """`Planned` for ``Compose``, which runs one image as a program. See `fastpipe.transforms.compose_plan`."""

    if TYPE_CHECKING:
        transforms: Sequence[ImageTransform]

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        """Draws for each member in order."""
        return draw_all(self.transforms, shape, generators)

    def forward(self, *inputs: object) -> object:
        """Calls torchvision's ``forward``; runs a program instead for an image that has a plan."""
        plan = self._call_for(inputs[0]) if inputs else None
        if plan is not None:
            whole = len(plan.runs) == 1  # foreign members see the whole sample, and an array as a PIL image
            if len(inputs) == 1 and (whole or not isinstance(inputs[0], np.ndarray)):
                return plan(inputs[0])
            if whole and _takes_samples(plan.runs[0].drawn[0]) and all(type(value) in _PLAIN for value in inputs[1:]):
                return (plan(inputs[0]), *inputs[1:])
        may_have_picture = len(inputs) > 1 or (bool(inputs) and isinstance(inputs[0], (dict, list, tuple)))
        result = _with_picture(self, inputs) if may_have_picture else None
        return super().forward(*inputs) if result is None else result


def _takes_samples(transform: object) -> bool:
    """True for v2's transforms, and thus for those drawn together with one; v1's take only an image."""
    return is_of_v2(planned(transform))


_OWN_WAYS: dict[type, type[Planned]] = {theirs.Compose: PlannedV2Compose, theirs.RandomApply: PlannedApply}


def steps_of(transform: theirs.Transform, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
    """Draws the steps by running torchvision's own code on an image of that shape without pixels.

    Raises:
        PlanError: the steps depend on the pixels.
    """
    try:
        with torch_draws_from(generators):
            result = transform(stand_in(shape))
    except Untraceable as error:
        raise PlanError(f"{type(transform).__name__} can't be planned: {error}.") from error
    if not isinstance(result, STAND_INS):
        raise PlanError(f"{type(transform).__name__} gives {type(result).__name__}, not an image.")
    return result.steps


_UNPLANNED = frozenset(
    {
        "AugMix",  # mixes pixels
        "CutMix",
        "FiveCrop",
        "GaussianNoise",  # draws for each pixel
        "JPEG",
        "Lambda",
        "LinearTransformation",
        "MixUp",
        "TenCrop",
        "ToPILImage",
        "UniformTemporalSubsample",
    }
)
_METHODS = ("forward", "transform", "make_params", "check_inputs", "_call_kernel", "draw")


def _is_planned(transform: theirs.Transform) -> bool:
    kind = type(transform)
    if vars(kind).get("_made_by_fastpipe") is None or kind.__name__ in _UNPLANNED:
        return False
    if transform._forward_hooks or transform._forward_pre_hooks or any(name in vars(transform) for name in _METHODS):
        return False
    members = map(planned, getattr(transform, "transforms", ()))
    return all(is_of_v2(member) and member._plans_itself() for member in members)


def planned_class(base: Any, module: str, **own: object) -> type:
    """Makes fastpipe's class from torchvision's, with further attributes."""
    body = {
        **own,
        "__module__": module,
        "__qualname__": base.__name__,
        "__doc__": base.__doc__,
        "_made_by_fastpipe": True,
        "_is_compose": base is theirs.Compose,
        "_runs_alone": base in _ALONE,
    }
    if base in _draws.QUICK:
        body["draw"] = _drawing(_draws.QUICK[base])
    if base in _params.QUICK and hasattr(base, "make_params"):  # older versions have another name for it
        body["make_params"] = _with_params(_params.QUICK[base], base.make_params)
    if _POLICY_METHOD in vars(_AutoAugmentBase) and issubclass(base, _AutoAugmentBase):
        apply = with_functional(getattr(base, _POLICY_METHOD), functional)
        body[_POLICY_METHOD] = _on_planes(apply) if base is theirs.AugMix else apply
    if base in _CONVERSIONS:
        body["transform"] = _converting(_draws.QUICK[base], base.transform)
    derived: type = type(base)(base.__name__, (_OWN_WAYS.get(base, Planned), base), body)
    return derived


_AutoAugmentBase: Any = theirs.AutoAugment.__mro__[1]
_POLICY_METHOD = "_apply_image_or_video_transform"


def _on_planes(apply: Function) -> Function:
    """Wraps AugMix's method that applies one operation: it gets each image in planes, which the core takes.

    The mixture keeps the strides of the image that was given, because the operations' results are added to that.
    """

    @functools.wraps(apply)
    def on_planes(self: Planned, image: Any, *args: object, **kwargs: object) -> object:
        if type(image) in (torch.Tensor, tv_tensors.Image) and image.dtype == torch.uint8 and image.is_cpu:
            image = image.contiguous().as_subclass(type(image))
        return apply(self, image, *args, **kwargs)

    return on_planes


def _drawing(quick: _draws.Draw) -> Function:
    def draw(self: Planned, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        """`Planned.draw`, without torchvision's code for cases that `quick` covers."""
        steps = quick(self, shape, stream_of(generators))
        return steps_of(self, shape, generators) if steps is None else steps

    return draw


def _with_params(quick: _params.MakeParams, plain: Function) -> Function:
    def make_params(self: Planned, flat_inputs: list[object]) -> _params.Params:
        """Draws as torchvision's method does; calls that method for cases that `quick` doesn't cover."""
        params = quick(self, flat_inputs)
        return plain(self, flat_inputs) if params is None else params

    return make_params


_ALONE = frozenset(
    {
        theirs.ColorJitter,
        theirs.PILToTensor,
        theirs.RandAugment,
        theirs.RandomCrop,
        theirs.RandomResizedCrop,
        theirs.ToImage,
        theirs.TrivialAugmentWide,
    }
)


def _run_alone(transform: theirs.Transform, image: PIL.Image.Image) -> object:
    """Draws a transform on one PIL image, runs it as a program, and returns the result.

    None if torchvision's code has to run.
    """
    shape = None if isinstance(image, PilStandIn) else shape_of(image)
    if shape is None or not core.available() or not _is_planned(transform):
        return None
    if isinstance(transform, theirs.RandomCrop) and not transform.padding:
        return None  # one call of Pillow
    if torch_modes_active() or (is_opened_file(image) and fills_by_class(transform)):
        return None
    own: Callable[[], object] = functools.partial(draw_and_run, transform.draw, image, shape)
    return attempt(own, lambda: super(Planned, transform).forward(image), images=[image], refusals=UNPLANNED)


_CONVERSIONS = (theirs.PILToTensor, theirs.ToImage, theirs.ToPureTensor, theirs.ToTensor)


def _converting(draw: _draws.Draw, transform: Function) -> Function:
    """Wraps ``transform`` of conversions, which torchvision doesn't dispatch by class."""

    def converted(self: Planned, inpt: object, params: _params.Params) -> object:
        if not isinstance(inpt, STAND_INS):
            return transform(self, inpt, params)
        steps = draw(self, stand_in_shape(inpt), TorchStream())
        return after(inpt, *steps) if steps else inpt

    converted.__name__, converted.__qualname__ = "transform", f"{transform.__qualname__}"
    return converted


# -- samples

_PLAIN = frozenset({bool, bytes, float, int, str, type(None)})
"""Classes of targets that no transform changes."""


def _with_picture(compose: theirs.Compose, inputs: tuple[object, ...]) -> object:
    """Runs torchvision's code on a sample with one PIL image, and makes the image's pixels by a program.

    None if that isn't possible.
    """
    flat, spec = tree_flatten(inputs)
    pictures = [value for value in flat if isinstance(value, PIL.Image.Image)]
    if len(pictures) != 1 or any(isinstance(value, (tv_tensors.Image, tv_tensors.Video)) for value in flat):
        return None
    call = compose._call_for(pictures[0])
    shape = shape_of(pictures[0])
    if call is None or len(call.runs) != 1 or shape is None:
        return None

    def own() -> object:
        with rewound_on(Exception):
            sample = tree_unflatten([stand_in(shape) if value is pictures[0] else value for value in flat], spec)
            return _with_pixels(theirs.Compose.forward(planned(compose), *sample), pictures[0], shape)

    plain = functools.partial(theirs.Compose.forward, compose, *inputs)
    return attempt(own, plain, images=pictures, refusals=UNPLANNED)


def _with_pixels(sample: object, image: LoadedImage, shape: ImageShape) -> object:
    """Puts the transformed image in the place of its stand-in in a sample.

    Args:
        sample: the result of torchvision's code, with a stand-in that has the drawn steps.
        image: the image with pixels.
        shape: the image's shape.
    """
    steps = image_steps(sample)
    pixels = run_on_image(lower(steps, shape), image, in_rows=True) if steps else image
    return tree_map(lambda leaf: pixels if isinstance(leaf, STAND_INS) else leaf, sample)


# -- arrays


def _may_have_array(inputs: tuple[object, ...]) -> bool:
    for value in inputs:
        if isinstance(value, np.ndarray):
            return True
        if isinstance(value, (list, tuple)) and any(isinstance(one, np.ndarray) for one in value):
            return True
        if isinstance(value, dict) and any(isinstance(one, np.ndarray) for one in value.values()):
            return True
    return False


def _takes_arrays(transform: theirs.Transform) -> bool:
    """True for torchvision's own transforms of arrays: conversions, and functions of the user's."""
    types = transform._transformed_types
    return np.ndarray in types or object in types


def _is_image(value: object) -> bool:
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8:
        return False
    return value.ndim == 2 or (value.ndim == 3 and value.shape[2] in (1, 3))


def _with_array(transform: theirs.Transform, forward: Function, inputs: tuple[object, ...]) -> object:
    """Runs the transform on a sample whose first array is its image, unless there is another image in it."""
    flat, _ = tree_flatten(inputs)
    array = next((value for value in flat if _is_image(value)), None)
    if array is None or any(
        isinstance(value, (PIL.Image.Image, torch.Tensor)) and _is_picture(value) for value in flat
    ):
        return forward(*inputs)

    def run_on(image: object) -> object:
        return forward(*tree_map(lambda value: image if value is array else value, inputs))

    if _is_planned(transform):
        shape = ImageShape(*(*array.shape, 1)[:3])
        with contextlib.suppress(Untraceable), rewound_on(Untraceable):
            return _with_pixels(run_on(stand_in(shape)), array, shape)

    def back(value: Any) -> object:
        pixels = np.array(value) if isinstance(value, PIL.Image.Image) else value
        return pixels[..., None] if pixels is not value and array.ndim == 3 and pixels.ndim == 2 else pixels

    result = run_on(PIL.Image.fromarray(array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array))
    return tree_map(back, result)


def _is_picture(value: PIL.Image.Image | torch.Tensor) -> bool:
    """True if torchvision takes a value for an image, or would if there is no other image."""
    return isinstance(value, (PIL.Image.Image, tv_tensors.Image, tv_tensors.Video)) or (
        theirs.functional.is_pure_tensor(value) and value.ndim >= 3
    )
