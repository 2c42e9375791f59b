"""Whatever looks at an image without pixels sees what it sees of one with pixels."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest
import torch
from hooks.tensor_images import (
    KINDS,
    MARKS,
    PHOTO,
    F,
    opened,
    outcome,
    plainly_opened,
    shown,
    tio,
    tv_tensors,
    v1,
)
from torch.utils.checkpoint import checkpoint
from torch.utils.data import default_collate

import fastpipe
from fastpipe.plain_way import plainly

pytestmark = MARKS


class _Labelled(torch.Tensor):
    """A class of the user's."""


class _OwnParameter(torch.nn.Parameter):
    """A parameter of the user's."""


class _Weights(torch.nn.Module):
    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return image.float().mean(0)


class _Holding(torch.nn.Module):
    def __init__(self, images: list[torch.Tensor]) -> None:
        super().__init__()
        self.images = images

    def forward(self, factor: torch.Tensor) -> torch.Tensor:
        return self.images[0].float() * factor + torch.stack(self.images).sum()


class _WithBuffer(torch.nn.Module):
    def __init__(self, image: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("image", image)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return image + self.image


def _saved_in_script(image: torch.Tensor) -> Any:
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(_WithBuffer(image)), file)
    return torch.jit.load(io.BytesIO(file.getvalue())).image


def _swapped(one: torch.Tensor, other: torch.Tensor) -> Any:
    torch.utils.swap_tensors(one, other)
    return type(one), one, type(other), other


def _checkpointed(image: torch.Tensor) -> Any:
    weight = torch.ones(3, 1, 1, requires_grad=True)
    total = checkpoint(lambda image: (image.float() * weight).sum(), image, use_reentrant=False)
    total.backward()  # type: ignore[no-untyped-call]
    return weight.grad


@torch.jit.script
def _scripted(image: torch.Tensor) -> torch.Tensor:
    return image.float().div(255)[..., : image.size(1) // 2, :]


def _changed(image: Any, change: Callable[[Any], Any]) -> Any:
    """A change in place, and what it gave."""
    made = change(image)
    return image, made


def _thrown(image: Any, action: Callable[[Any], Any]) -> Any:
    return outcome(lambda: action(image))


LOOKS: dict[str, Callable[[Any], Any]] = {
    "type": lambda x: (x.double(), type(x))[1],
    "class": lambda x: (x.__class__.__name__, x.__class__ in (torch.Tensor, tv_tensors.Image)),
    "set": lambda x: (x.set_(torch.arange(5, dtype=x.dtype)) is x, x.shape, x.tolist()),
    "set to itself": lambda x: torch.empty(0, dtype=x.dtype).set_(x),
    "data of another": lambda x: _data_of_another(x),
    "data of another, changed": lambda x: (_data_of_another(x).fill_(7), x),
    "parameter": lambda x: (torch.nn.Parameter(x, requires_grad=False), type(torch.nn.Parameter(x, False))),
    "parameter with a gradient": lambda x: _thrown(x, lambda x: (torch.nn.Parameter(x), type(torch.nn.Parameter(x)))),
    "parameter of floats": lambda x: (torch.nn.Parameter(data=x.float()), type(torch.nn.Parameter(x.float()))),
    "parameter of the user's": lambda x: (_OwnParameter(x, False), type(_OwnParameter(x, False))),
    "labelled": lambda x: (_Labelled(x), type(_Labelled(x)), type(_Labelled(x) + 1)),
    "labelled, changed": lambda x: (_Labelled(x).fill_(7), x),
    "made labelled": lambda x: torch.Tensor._make_subclass(_Labelled, x),
    "made a parameter": lambda x: torch.Tensor._make_subclass(torch.nn.Parameter, x.float(), True),
    "made anew": lambda x: torch.Tensor.__new__(_Labelled, x),
    "swapped": lambda x: _swapped(torch.zeros(2), x),
    "swapped with a labelled one": lambda x: _swapped(_Labelled(torch.zeros(2)), x),
    "swapped with another": lambda x: _swapped(x, x.clone()),
    "capsule": lambda x: torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x)),
    "buffer, saved": lambda x: _saved_in_script(x),
    "buffer, traced": lambda x: torch.jit.trace(_WithBuffer(x), x.float())(x.float()),
    "saved for a backward pass": lambda x: _checkpointed(x),
    "another class": lambda x: (setattr(x, "__class__", _Labelled), type(x) is _Labelled, x.sum().item()),
    "repr": repr,
    "str": lambda x: f"{x}",
    "numpy": lambda x: x.numpy(),
    "asarray": np.asarray,
    "float": lambda x: x.float() / 255,
    "floats": lambda x: x.float(),
    "floats, divided": lambda x: x.to(torch.float32).div(255.0),
    "floats by another": lambda x: x.to(dtype=torch.float32) / 256,
    "floats, rounded": lambda x: x.float().div(255, rounding_mode="floor"),
    "floats of what was changed": lambda x: (x.float(), x.add_(1), x.float() / 255),
    "floats that are changed": lambda x: (x.float().div_(255), x),
    "floats of a window": lambda x: (x[..., 3:60, 7:50].float() / 255, x),
    "floats of floats": lambda x: (x.float() / 255).float() / 255,
    "floats of an image": lambda x: F.to_image(x).float() / 255,
    "reflected": lambda x: 1.5 * x,
    "index": lambda x: x[1:, 3:9],
    "one": lambda x: x[0, 3, 4].item(),
    "mask": lambda x: x[x > 100],
    "none": lambda x: x[None],
    "window": lambda x: x[..., 3:60, 7:50],
    "window, all": lambda x: x[:, -60:, :50],
    "window of a window": lambda x: x[..., 3:60, 7:50][:, 5:, 6:20],
    "steps": lambda x: x[..., 3:60:2, 7:50],
    "empty window": lambda x: x[..., 60:3, 7:50],
    "collate": lambda x: default_collate([x, x]),
    "collate samples": lambda x: default_collate([(x, 1), (x, 2)]),
    "stack": lambda x: torch.stack([x, x.clone()]),
    "stack at 1": lambda x: torch.stack([x, x], 1),
    "stack of another shape": lambda x: _thrown(x, lambda x: torch.stack([x, x[:, :50]])),
    "stack of another dtype": lambda x: torch.stack([x, x.float()]),
    "stack into": lambda x: torch.stack([x, x], out=torch.empty((2, *x.shape), dtype=torch.uint8)),
    "stack into another": lambda x: torch.stack([x, x], out=torch.empty(0, dtype=torch.uint8)),
    "cat": lambda x: torch.cat([x, x]),
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "pickle's bytes": lambda x: len(pickle.dumps(x)),
    "forking pickle": lambda x: pickle.loads(ForkingPickler.dumps(x)),
    "save": lambda x: _saved(x),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "clone": lambda x: x.clone(),
    "tv": lambda x: tv_tensors.Image(x),
    "tv of floats": lambda x: tv_tensors.Image(x, dtype=torch.float32),
    "wrap": lambda x: tv_tensors.wrap(x.float(), like=tv_tensors.Image(x)),
    "mask tensor": lambda x: tv_tensors.Mask(x),
    "permute": lambda x: x.permute(1, 2, 0),
    "list": lambda x: x.flatten()[:9].tolist(),
    "pointer": lambda x: x.data_ptr() > 0,
    "storage": lambda x: (x.untyped_storage().nbytes(), x.storage_offset(), x.untyped_storage().resizable()),
    "in place": lambda x: _changed(x, lambda x: x.add_(1)),
    "assigned": lambda x: _changed(x, lambda x: x.__setitem__((0, 3), 7)),
    "iadd": lambda x: _changed(x, lambda x: x.__iadd__(1)),
    "out": lambda x: torch.add(x, 1, out=torch.empty(x.shape, dtype=torch.uint8)),
    "as out": lambda x: _changed(x, lambda x: torch.add(torch.ones_like(x), 1, out=x)),
    "set data": lambda x: _changed(x, lambda x: setattr(x, "data", torch.zeros(2))),
    "resized in place": lambda x: _changed(x, lambda x: x.resize_(3, 4, 5)),
    "dlpack": torch.from_dlpack,
    "numpy's dlpack": np.from_dlpack,
    "as_tensor": lambda x: torch.as_tensor(x) is x,
    "tensor": lambda x: x.new_tensor(x.tolist()),
    "resize": lambda x: F.resize(x, [50, 40]),
    "interpolate": lambda x: torch.nn.functional.interpolate(x[None].float(), (20, 30)),
    "equal": lambda x: torch.equal(x, x.clone()),
    "eq": lambda x: x == x,
    "truth": lambda x: _thrown(x, bool),
    "pil": lambda x: F.to_pil_image(x),
    "v1's pil": lambda x: v1.functional.to_pil_image(x),
    "shared": lambda x: _changed(x, lambda x: x.share_memory_()),
    "pinned": lambda x: x.is_pinned(),
    "stride": lambda x: x.stride(),
    "size": lambda x: (x.size(), x.size(-1), x.dim(), x.numel(), x.nelement(), x.element_size(), x.nbytes),
    "contiguous": lambda x: (x.is_contiguous(), x.is_contiguous(memory_format=torch.contiguous_format)),
    "made contiguous": lambda x: x.contiguous(),
    "iterate": lambda x: [row.sum() for row in x],
    "unpack": lambda x: [*x][1],
    "unbind": lambda x: x.unbind(),
    "to": lambda x: (x.to("cpu") is x, x.to(torch.uint8) is x),
    "to a dtype": lambda x: x.to(torch.float64),
    "to meta": lambda x: x.to("meta").shape,
    "requires grad": lambda x: _thrown(x, lambda x: x.requires_grad_()),
    "doesn't": lambda x: x.requires_grad_(False) is x,
    "flags": lambda x: (x.requires_grad, x.is_leaf, x.grad, x.grad_fn, x.retains_grad, x.is_inference()),
    "grad": lambda x: _gradient(x),
    "detach": lambda x: x.detach(),
    "vmap": lambda x: torch.func.vmap(lambda row: row + 1)(x),
    "vjp": lambda x: torch.func.grad(lambda y: (x * y).sum())(torch.ones(())),
    "scripted": _scripted,
    "traced": lambda x: torch.jit.trace(_Weights(), x)(torch.ones(3, 4, 5)),
    "module": _Weights(),
    "traced, from a closure": lambda x: torch.jit.trace(lambda one: one + x[..., 1:4, 2:6].float(), torch.ones(1))(
        torch.zeros(1)
    ),
    "traced, from a module": lambda x: torch.jit.trace(_Holding([x]), torch.ones(1))(torch.zeros(1)),
    "stacked within a derivative": lambda x: torch.func.jacfwd(lambda one: (torch.stack([x, x]) * one).sum())(
        torch.ones(())
    ),
    "fx": lambda x: torch.fx.symbolic_trace(_Weights())(x),
    "encode": lambda x: tio.encode_jpeg(x),
    "op": lambda x: torch.ops.aten.add(x, 1),
    "sum of many": lambda x: sum([x, x, x]),
    "where": lambda x: torch.where(x > 9, x, 0),
    "einsum": lambda x: torch.einsum("chw->hw", x.float()),
    "hash": lambda x: {x: 3}[x],
    "attribute": lambda x: (setattr(x, "label", 3), x.double(), x.label, vars(x))[2:],
    "isinstance": lambda x: (isinstance(x, torch.Tensor), isinstance(x, tv_tensors.Image), torch.is_tensor(x)),
    "storage type": lambda x: (x.type(), x.layout, x.device, x.is_floating_point(), x.is_complex(), x.is_sparse),
    "named tensor": lambda x: x.names,
    "no such thing": lambda x: _thrown(x, lambda x: x.nothing),
    "functional": lambda x: torch.func.functional_call(_Weights(), {}, (x,)),
    "crop": lambda x: F.crop(x, 3, 4, 50, 60),
    "crop outside": lambda x: F.crop(x, -3, 40, 50, 160),
    "center crop": lambda x: F.center_crop(x, [40, 50]),
    "center crop of all": lambda x: F.center_crop(x, [97, 131]),
    "center crop outside": lambda x: F.center_crop(x, [140, 50]),
    "flip": lambda x: F.horizontal_flip(x),
    "vertical flip": lambda x: F.vertical_flip(x),
    "pad": lambda x: F.pad(x, [1, 2, 3, 4], fill=7),
    "reflect": lambda x: F.pad(x, 5, padding_mode="reflect"),
    "resized crop": lambda x: F.resized_crop(x, 3, 4, 50, 60, [32, 32]),
    "resize to the same": lambda x: F.resize(x, [97, 131]) is x,
    "resize, cubic": lambda x: F.resize(x, 50, interpolation=F.InterpolationMode.BICUBIC, max_size=60),
    "resize, nearest": lambda x: F.resize(x, 50, interpolation=F.InterpolationMode.NEAREST),
    "resize, cropped": lambda x: F.center_crop(F.resize(x, 60), 50),
    "resize, cut": lambda x: F.resize(x, 60)[..., 2:40, 3:50],
    "cut, resized": lambda x: F.resize(x[..., 2:40, 3:50], [20, 20]),
    "to dtype": lambda x: F.to_dtype(x, torch.float32, scale=True),
    "to dtype unscaled": lambda x: F.to_dtype(x, torch.float32),
    "to half": lambda x: F.to_dtype(x, torch.float16, scale=True),
    "the same dtype": lambda x: F.to_dtype(x, torch.uint8) is x,
    "normalize": lambda x: F.normalize(F.to_dtype(x, torch.float32, scale=True), [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]),
    "normalize in place": lambda x: _normalized(F.to_dtype(x, torch.float32, scale=True)),
    "normalize uint8": lambda x: _thrown(x, lambda x: F.normalize(x, [0.5], [0.2])),
    "normalize by zero": lambda x: _thrown(x, lambda x: F.normalize(F.to_dtype(x, torch.float32), [0.5], [0.0])),
    "normalize four": lambda x: _thrown(x, lambda x: F.normalize(F.to_dtype(x, torch.float32), [0.5] * 4, [1.0] * 4)),
    "brightness": lambda x: F.adjust_brightness(x, 1.3),
    "contrast": lambda x: F.adjust_contrast(x, 1.3),
    "brightness of none": lambda x: _thrown(x, lambda x: F.adjust_brightness(x, -1)),
    "contrast of none": lambda x: _thrown(x, lambda x: F.adjust_contrast(x, -1)),
    "saturation of none": lambda x: _thrown(x, lambda x: F.adjust_saturation(x, -1)),
    "gamma of none": lambda x: _thrown(x, lambda x: F.adjust_gamma(x, -1)),
    "sharpness of none": lambda x: _thrown(x, lambda x: F.adjust_sharpness(x, -1)),
    "posterize to none": lambda x: _thrown(x, lambda x: F.posterize(x, 9)),
    "solarize at none": lambda x: _thrown(x, lambda x: F.solarize(x, 900)),
    "crop of nothing": lambda x: _thrown(x, lambda x: F.crop(x, 3, 4, 0, 5)),
    "crop far away": lambda x: _thrown(x, lambda x: F.crop(x, 300, 400, 7, 5)),
    "resize to nothing": lambda x: _thrown(x, lambda x: F.resize(x, [0, 5])),
    "pad by too much": lambda x: _thrown(x, lambda x: F.pad(x, 500, padding_mode="reflect")),
    "pad by less than nothing": lambda x: _thrown(x, lambda x: F.pad(x, -5)),
    "wrong types": lambda x: _thrown(x, lambda x: F.resize(x, "large")),
    "too many arguments": lambda x: _thrown(x, lambda x: F.horizontal_flip(x, 3)),
    "three kernels": lambda x: _thrown(x, lambda x: F.gaussian_blur(x, [4, 4])),
    "saturation": lambda x: F.adjust_saturation(x, 1.3),
    "hue": lambda x: F.adjust_hue(x, 0.3),
    "hue outside": lambda x: _thrown(x, lambda x: F.adjust_hue(x, 3)),
    "rotate": lambda x: F.rotate(x, 30),
    "rotate, expand": lambda x: F.rotate(x, 30, expand=True),
    "affine": lambda x: F.affine(x, 10, [1, 2], 1.1, [3.0, 4.0]),
    "perspective": lambda x: F.perspective(x, [[0, 0], [9, 0], [9, 9], [0, 9]], [[1, 1], [9, 0], [9, 9], [0, 9]]),
    "blur": lambda x: F.gaussian_blur(x, [5, 5], [1.0, 1.0]),
    "gray": lambda x: F.rgb_to_grayscale(x),
    "gray in three": lambda x: F.rgb_to_grayscale(x, 3),
    "equalize": lambda x: F.equalize(x),
    "posterize": lambda x: F.posterize(x, 3),
    "erase": lambda x: F.erase(x, 3, 4, 5, 6, torch.zeros(3, 5, 6, dtype=torch.uint8)),
    "erase in place": lambda x: _changed(
        x, lambda x: F.erase(x, 3, 4, 5, 6, torch.zeros(3, 5, 6, dtype=torch.uint8), inplace=True)
    ),
    "five crops": lambda x: F.five_crop(x, [20, 30]),
    "jpeg": lambda x: F.jpeg(x, 50),
    "kernel": lambda x: F.resize_image(x, [20, 30]),
    "get size": lambda x: (F.get_size(x), F.get_dimensions(x), F.get_num_channels(x)),
    "to image": lambda x: F.to_image(x),
    "to image, resized": lambda x: F.resize(F.to_image(x), [20, 30]),
    "to image, as tensor": lambda x: F.to_image(x).as_subclass(torch.Tensor),
    "to image, cut": lambda x: F.to_image(x)[..., 3:20, 4:30],
    "to image, shape": lambda x: F.get_size(F.to_image(x)),
    "to image, sum": lambda x: F.to_image(x).sum(),
    "to image, in place": lambda x: _changed(F.to_image(x), lambda x: x.add_(1)),
    "to image, dtype": lambda x: F.to_dtype(F.to_image(x), torch.float32, scale=True),
    "v1 resize": lambda x: v1.functional.resize(x, [20, 30]),
    "v1 crop": lambda x: v1.functional.crop(x, 3, 4, 50, 60),
    "v1 flip": lambda x: v1.functional.hflip(x),
    "v1 resized crop": lambda x: v1.functional.resized_crop(x, 3, 4, 50, 60, [20, 20]),
    "v1 dtype": lambda x: v1.functional.convert_image_dtype(x),
    "v1 to tensor": lambda x: _thrown(x, v1.functional.to_tensor),
    "v1 pil to tensor": lambda x: _thrown(x, v1.functional.pil_to_tensor),
}


def _saved(image: torch.Tensor) -> Any:
    file = io.BytesIO()
    torch.save(image, file)
    return len(file.getvalue()), torch.load(io.BytesIO(file.getvalue()), weights_only=True)


def _data_of_another(image: torch.Tensor) -> torch.Tensor:
    other = torch.empty(0, dtype=image.dtype)
    other.data = image
    return other


def _gradient(image: torch.Tensor) -> Any:
    weight = torch.ones((), requires_grad=True)
    (image * weight).sum().backward()  # type: ignore[no-untyped-call]
    return weight.grad


def _normalized(image: torch.Tensor) -> Any:
    return F.normalize(image, [0.5], [0.2], inplace=True) is image, image


@pytest.mark.parametrize("name", LOOKS)
def test_ways_to_look(name: str) -> None:
    look = LOOKS[name]
    for data in (PHOTO, KINDS["PNG"]):
        with plainly():
            expected = outcome(lambda data=data: look(opened(data)))
        assert outcome(lambda data=data: look(opened(data))) == expected
    expected = outcome(lambda: look(F.to_dtype(plainly_opened(), torch.float32, scale=True)))
    assert outcome(lambda: look(F.to_dtype(opened(), torch.float32, scale=True))) == expected


@pytest.mark.needs_core
def test_what_is_recorded_is_pending() -> None:
    image = opened()
    for name in (
        "crop",
        "window",
        "flip",
        "resized crop",
        "resize, cropped",
        "normalize",
        "brightness",
        "to image",
        "float",
    ):
        assert fastpipe.is_pending(LOOKS[name](image)), name
    assert fastpipe.is_pending(image)


@pytest.mark.parametrize("compiled", ["eager", "aot_eager"])
@pytest.mark.slow
def test_compiled_functions(compiled: str) -> None:
    function = torch.compile(lambda image: F.resize(image, [20, 30]).float() / 255, backend=compiled)
    assert shown(function(opened())) == shown(function(plainly_opened()))
    assert shown(function(F.horizontal_flip(opened()))) == shown(function(F.horizontal_flip(plainly_opened())))


@pytest.mark.slow
def test_exported_and_compiled_in_full() -> None:
    image = opened()
    program = torch.export.export(_Weights(), (image,))
    assert shown(program.module()(opened())) == shown(_Weights()(plainly_opened()))
    function = torch.compile(_Weights(), backend="eager", fullgraph=True)
    assert shown(function(opened())) == shown(_Weights()(plainly_opened()))


@pytest.mark.slow
def test_compiled_functions_find_images_by_themselves() -> None:
    image, plain = opened(), plainly_opened()
    closure = torch.compile(lambda factor: image.float() * factor, backend="eager", fullgraph=True)
    assert shown(closure(torch.ones(1))) == shown(plain.float())
    module = torch.compile(_Holding([opened()]), backend="eager", fullgraph=True)
    assert shown(module(torch.ones(1))) == shown(_Holding([plain])(torch.ones(1)))


def test_modes_of_torch() -> None:
    with torch.inference_mode():
        image, expected = opened(), plainly_opened()
        flipped = F.horizontal_flip(opened())
    assert shown(image) == shown(expected)
    assert shown(flipped) == shown(F.horizontal_flip(expected).clone()) or flipped.is_inference()
    with torch.no_grad():
        image = opened()
    assert shown(image) == shown(plainly_opened())
    image = opened()
    with torch.inference_mode():
        assert image.sum() == plainly_opened().sum()
    assert not image.is_inference()
    with torch.device("meta"):
        image = opened()
        assert image.device.type == "cpu"
        assert shown(image) == shown(plainly_opened())
