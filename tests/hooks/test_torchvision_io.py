"""``torchvision.io``'s images without pixels are as with them: values, types, strides, errors, end states."""

from __future__ import annotations

import copy
import io
import itertools
import os
import pickle
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
import torchvision_io_here
from PIL import Image
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, default_collate
from torchvision_here import module, torchvision

import fastpipe
from fastpipe.hooks import ledger, tensor_files
from fastpipe.hooks.torch_tensors import with_ordinary_tensors
from fastpipe.plain_way import plainly
from fastpipe.program import pending_tensor, pending_work

pytestmark = pytest.mark.skipif(bool(torchvision_io_here.why_not()), reason=torchvision_io_here.why_not())
v1, v2, F = map(module, ("torchvision.transforms", "torchvision.transforms.v2", "torchvision.transforms.v2.functional"))
tv_tensors, tio = torchvision.tv_tensors, torchvision.io

PHOTO = corpus.jpeg(97, 131, "420", seed=5)
FILES = {name: data for name, data in corpus.files().items() if "huge" not in name}


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hooks without checks, but for tests that are about these; an account of its own."""
    monkeypatch.setattr(ledger.LEDGER, "_sites", {})
    monkeypatch.setattr(ledger.LEDGER, "_folder", None)
    monkeypatch.setattr(tensor_files, "LEAST_BYTES", 0)
    monkeypatch.setattr(tensor_files, "LEAST_PIXELS", 0)
    with fastpipe.install(check=0):
        yield


def as_tensor(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def opened(data: bytes = PHOTO, **options: Any) -> Any:
    return tio.decode_image(as_tensor(data), **options)


def plainly_opened(data: bytes = PHOTO, **options: Any) -> Any:
    with plainly():
        return opened(data, **options)


def shown(value: Any) -> Any:
    """Everything that can be seen of a value."""
    if isinstance(value, torch.Tensor):
        facts = value.dtype, value.shape, value.stride(), value.requires_grad, value.is_inference(), value.tolist()
        return *facts, type(value)  # behind a look
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.strides, value.tobytes()
    if isinstance(value, Image.Image):
        return value.mode, value.size, value.tobytes()
    if isinstance(value, (list, tuple)):
        return type(value), [shown(one) for one in value]
    if isinstance(value, dict):
        return {name: shown(one) for name, one in value.items()}
    return value


def outcome(action: Callable[[], Any]) -> Any:
    """The result or the error of a call."""
    try:
        return shown(action())
    except Exception as error:
        return type(error), str(error)


@pytest.mark.needs_core
def test_an_image_without_pixels() -> None:
    image = opened()
    assert fastpipe.is_pending(image)
    assert (image.shape, image.dtype, image.device.type, image.stride(), len(image)) == (
        (3, 97, 131),
        torch.uint8,
        "cpu",
        (1, 393, 3),
        3,
    )
    assert isinstance(image, torch.Tensor)
    assert (image.itemsize, image.nbytes) == (1, 3 * 97 * 131)
    assert not image.requires_grad
    assert fastpipe.is_pending(image), "asking for its shape makes no pixels"
    assert fastpipe.is_pending(image)
    assert image.sum() == plainly_opened().sum()
    assert not fastpipe.is_pending(image)
    assert not fastpipe.is_pending(image)
    assert type(image) is torch.Tensor


MODES = ("UNCHANGED", "RGB", "GRAY", "GRAY_ALPHA", "RGBA")


@pytest.mark.parametrize("name", sorted(FILES))
def test_files_are_torchvisions(name: str, tmp_path: Path) -> None:
    """Same pixels, types and strides, or the same error, at the same call."""
    data = FILES[name]
    # Of palettes in other modes torchvision's memory is as it was.
    for mode, turned in itertools.product(("RGB",) if "palette" in name else MODES, (False, True)):
        arguments = {"mode": mode, "apply_exif_orientation": turned}
        with plainly():
            expected = outcome(lambda arguments=arguments: opened(data, **arguments))
        image, error = None, None
        try:
            image = opened(data, **arguments)
        except Exception as raised:
            error = type(raised), str(raised)
        assert (shown(image) if error is None else error) == expected, (mode, turned)
    path = tmp_path / "file"
    path.write_bytes(data)
    for function in (tio.decode_image, tio.read_image):
        with plainly():
            expected = outcome(lambda function=function: function(str(path), "RGB"))
        assert outcome(lambda function=function: function(str(path), "RGB")) == expected
        assert outcome(lambda function=function: function(path, "RGB")) == expected
    with plainly():
        expected = outcome(lambda: tio.decode_jpeg(as_tensor(data)))
    assert outcome(lambda: tio.decode_jpeg(as_tensor(data))) == expected


KINDS = {
    "4:4:4": corpus.jpeg(40, 50, "444"),
    "4:2:2": corpus.jpeg(41, 51, "422"),
    "4:1:1": corpus.jpeg(41, 51, "411"),
    "gray": corpus.save(Image.fromarray(corpus.photo(40, 50)).convert("L"), "JPEG"),
    "progressive": corpus.save(corpus.photo(40, 50), "JPEG", progressive=True),
    "RGB": corpus.save(corpus.photo(40, 50), "JPEG", keep_rgb=True),
    "PNG": corpus.save(corpus.photo(40, 50), "PNG"),
    "gray PNG": corpus.save(Image.fromarray(corpus.photo(40, 50)).convert("L"), "PNG"),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.needs_core
def test_kinds_that_have_no_pixels_yet(name: str) -> None:
    image = opened(KINDS[name])
    assert fastpipe.is_pending(image)
    assert shown(image) == shown(plainly_opened(KINDS[name]))


@pytest.mark.needs_core
def test_chroma_that_older_versions_of_torchvision_dont_smooth_is_left_to_them() -> None:
    assert not fastpipe.is_pending(opened(corpus.jpeg(201, 251, "440")))
    assert fastpipe.is_pending(opened(corpus.jpeg(201, 251, "422")))
    told = {reason for site in fastpipe.report().sites for reason in site.left}
    assert [reason for reason in told if "4:4:0" in reason]


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.needs_core
def test_orientations(orientation: int) -> None:
    data = corpus.save(Image.fromarray(corpus.photo(40, 56)), "JPEG", exif=corpus.exif(orientation))
    image = opened(data, apply_exif_orientation=True)
    assert fastpipe.is_pending(image)
    assert shown(image) == shown(plainly_opened(data, apply_exif_orientation=True))
    for change in (lambda image: F.resize(image, [20, 30]), lambda image: image[..., 3:20, 4:30]):
        expected = shown(change(plainly_opened(data, apply_exif_orientation=True)))
        assert shown(change(opened(data, apply_exif_orientation=True))) == expected


@pytest.mark.needs_core
def test_small_images_are_left_to_torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_files, "LEAST_PIXELS", 1 << 15)
    assert not fastpipe.is_pending(opened(corpus.jpeg(100, 300)))
    assert fastpipe.is_pending(opened(corpus.jpeg(200, 300)))
    monkeypatch.setattr(tensor_files, "LEAST_BYTES", 1 << 20)
    assert not fastpipe.is_pending(opened(corpus.jpeg(200, 300)))


def test_missing_files_and_odd_arguments() -> None:
    calls: list[Callable[[], Any]] = [
        lambda: tio.decode_image("/nowhere/photo.jpeg"),
        lambda: tio.read_image("/nowhere/photo.jpeg"),
        lambda: tio.decode_image(os.fspath(Path(__file__).parent)),
        lambda: tio.decode_image("a\0b"),
        lambda: tio.decode_image(7),
        lambda: tio.decode_image(),
        lambda: tio.decode_image(as_tensor(PHOTO), "RGB", False, 7),
        lambda: tio.decode_image(as_tensor(PHOTO), nothing=1),
        lambda: tio.decode_image(as_tensor(PHOTO), mode="CMYK"),
        lambda: tio.decode_image(as_tensor(PHOTO), mode=3),
        lambda: tio.decode_image(as_tensor(PHOTO).float()),
        lambda: tio.decode_image(as_tensor(PHOTO)[None]),
        lambda: tio.decode_image(as_tensor(PHOTO)[:0]),
        lambda: tio.decode_image(as_tensor(PHOTO)[: len(PHOTO) // 2]),
        lambda: tio.decode_jpeg([as_tensor(PHOTO), as_tensor(PHOTO)]),
        lambda: tio.decode_jpeg(as_tensor(PHOTO), device="meta"),
        lambda: tio.decode_jpeg(as_tensor(KINDS["PNG"])),
    ]
    for call in calls:
        with plainly():
            expected = outcome(call)
        assert outcome(call) == expected


def test_the_given_bytes_may_be_used_again() -> None:
    given = as_tensor(PHOTO)
    image = tio.decode_image(given)
    given.zero_()
    assert shown(image) == shown(plainly_opened())


def test_a_file_may_be_gone_by_then(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpeg"
    path.write_bytes(PHOTO)
    image = tio.decode_image(str(path))
    path.unlink()
    assert shown(image) == shown(plainly_opened())


# -- ways to look


class _Labelled(torch.Tensor):
    """A class of the user's."""


class _OwnParameter(torch.nn.Parameter):
    """A parameter of the user's."""


class _Weights(torch.nn.Module):
    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return image.float().mean(0)


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


# -- memory that several see


def test_windows_share_memory() -> None:
    def first_window_changes(image: Any) -> Any:
        one, other = image[..., 3:60, 7:50], F.crop(image, 10, 10, 50, 60)
        one.add_(1)
        return image, one, other

    def the_image_changes(image: Any) -> Any:
        one = F.center_crop(image, 30)
        image.zero_()
        return one, F.horizontal_flip(one)

    def without_the_image(image: Any) -> Any:
        one, other = image[..., 3:60, 7:50], image[..., 10:60, 7:50]
        del image
        one.add_(1)
        return one, other

    def window_of_a_window(image: Any) -> Any:
        one = image[..., 3:60, 7:50]
        other = one[..., 3:20, 4:9]
        del image
        other.add_(1)
        return one, other

    def what_was_made_before_stays(image: Any) -> Any:
        one = F.resize(image, [20, 30])
        flipped = F.horizontal_flip(image[..., 3:60, 7:50])
        image.zero_()
        return one, flipped

    def as_an_image(image: Any) -> Any:
        made = tv_tensors.Image(image)
        made.add_(1)
        return image, made

    for way in (
        first_window_changes,
        the_image_changes,
        without_the_image,
        window_of_a_window,
        what_was_made_before_stays,
        as_an_image,
    ):
        assert shown(way(opened())) == shown(way(plainly_opened())), way.__name__


def test_many_parts_decode_the_whole_once() -> None:
    image, plain = opened(), plainly_opened()
    boxes = [(3 * number, 4, 60, 100) for number in range(8)]
    parts = [F.resize(F.horizontal_flip(image[..., t : t + h, left : left + w]), [30, 30]) for t, left, h, w in boxes]
    expected = [
        F.resize(F.horizontal_flip(plain[..., t : t + h, left : left + w]), [30, 30]) for t, left, h, w in boxes
    ]
    assert shown(torch.stack(parts)) == shown(torch.stack(expected))


def test_threads() -> None:
    for _ in range(10):
        image, seen = opened(), []
        begin = threading.Barrier(4)

        def look(image: Any = image, seen: list[Any] = seen, begin: threading.Barrier = begin) -> None:
            begin.wait()
            seen.append((image.data_ptr(), int(image.sum())))

        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(seen)) == 1
        assert seen[0][1] == plainly_opened().sum()


class _Photos(Dataset[Any]):
    def __init__(self, transform: Any = None) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        image = tio.decode_image(as_tensor(corpus.jpeg(60, 80, "420", seed=index)))
        return image if self.transform is None else self.transform(image)


def _as_list(samples: list[Any]) -> list[Any]:
    return samples


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("collate", [None, _as_list])
def test_loaders(workers: int, collate: Any) -> None:
    normalized = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5], [0.2])])
    for transform in (None, normalized):
        loader = DataLoader(_Photos(transform), batch_size=3, num_workers=workers, collate_fn=collate)
        with plainly():
            expected = [
                shown(list(batch)) for batch in DataLoader(_Photos(transform), batch_size=3, collate_fn=collate)
            ]
        assert [shown(list(batch)) for batch in loader] == expected


@pytest.mark.needs_core
@pytest.mark.parametrize("collate", [None, lambda samples: torch.stack(samples)])
def test_batches_with_small_images_use_memory_again(monkeypatch: pytest.MonkeyPatch, collate: Any) -> None:
    monkeypatch.setattr(tensor_files, "LEAST_PIXELS", 60 * 90)

    class Mixed(_Photos):
        def __getitem__(self, index: int) -> Any:
            image = opened(corpus.jpeg(60, 80 + 20 * (index % 2), "420", seed=index))
            return v2.functional.resize(image, [300, 300])

    assert [fastpipe.is_pending(Mixed()[index]) for index in range(4)] == [False, True, False, True]
    with plainly():
        (expected,) = DataLoader(Mixed(), batch_size=6)
    places, others = set(), []
    monkeypatch.setattr(pending_work.Record, "_new", lambda _: pytest.fail("an image is made outside the batch"))
    for _ in range(8):
        for batch in DataLoader(Mixed(), batch_size=6, collate_fn=collate):
            assert torch.equal(batch, expected)
            places.add(batch.data_ptr())
            size = batch.shape
            del batch
        others.append(torch.empty(size, dtype=torch.uint8))  # which takes what the allocator has
    assert len(places) <= 4


def test_pickles_need_no_fastpipe(tmp_path: Path) -> None:
    for number, image in enumerate((opened(), F.to_image(opened()), F.horizontal_flip(opened()))):
        path = tmp_path / f"{number}.pickle"
        path.write_bytes(pickle.dumps(image))
        assert b"fastpipe" not in path.read_bytes()


# -- transforms


PIXELS = [v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]


class _Twice:
    """A transform that nobody knows."""

    calls = 0

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        _Twice.calls += 1
        return image


class _Negative:
    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return 255 - image


RECIPES: dict[str, Callable[[], Any]] = {
    "training": lambda: v2.Compose([v2.RandomResizedCrop(64), v2.RandomHorizontalFlip(), *PIXELS]),
    "evaluation": lambda: v2.Compose([v2.Resize(70), v2.CenterCrop(64), *PIXELS]),
    "jitter": lambda: v2.Compose([v2.RandomResizedCrop(64), v2.ColorJitter(0.4, 0.4, 0.4, 0.1), *PIXELS]),
    "to image": lambda: v2.Compose([v2.ToImage(), v2.RandomResizedCrop(64), *PIXELS, v2.ToPureTensor()]),
    "an image": lambda: v2.Compose([v2.ToImage(), v2.RandomCrop(64, padding=4)]),
    "an image of floats": lambda: v2.Compose([v2.ToImage(), v2.Resize(40), *PIXELS]),
    "uint8": lambda: v2.Compose([v2.RandomCrop(64), v2.RandomVerticalFlip()]),
    "a crop": lambda: v2.Compose([v2.RandomCrop(64)]),
    "cropped last": lambda: v2.Compose([v2.Resize(70), v2.CenterCrop(64)]),
    "erased": lambda: v2.Compose([v2.RandomResizedCrop(64), *PIXELS, v2.RandomErasing(1.0)]),
    "erased by noise": lambda: v2.Compose([v2.RandomResizedCrop(64), *PIXELS, v2.RandomErasing(1.0, value="random")]),
    "trivial": lambda: v2.Compose([v2.RandomResizedCrop(64), v2.TrivialAugmentWide(), *PIXELS]),
    "rand": lambda: v2.Compose([v2.RandomResizedCrop(64), v2.RandAugment(), *PIXELS]),
    "auto": lambda: v2.Compose([v2.RandomResizedCrop(64), v2.AutoAugment(), *PIXELS]),
    "apply": lambda: v2.Compose([v2.RandomApply([v2.RandomCrop(64)], 0.5), v2.Resize([50, 50]), *PIXELS]),
    "choice": lambda: v2.Compose([v2.RandomChoice([v2.RandomCrop(64), v2.Resize([64, 64])]), *PIXELS]),
    "warps": lambda: v2.Compose([v2.RandomAffine(20), v2.RandomPerspective(), v2.RandomRotation(20), *PIXELS]),
    "foreign first": lambda: v2.Compose([_Twice(), v2.RandomResizedCrop(64), *PIXELS]),
    "foreign between": lambda: v2.Compose([v2.RandomResizedCrop(64), _Twice(), v2.RandomHorizontalFlip(), *PIXELS]),
    "foreign looks": lambda: v2.Compose([v2.RandomCrop(64), _Negative(), v2.RandomHorizontalFlip(), *PIXELS]),
    "lambda": lambda: v2.Compose([v2.RandomCrop(64), v2.Lambda(lambda x: x / 2), v2.RandomHorizontalFlip()]),
    "nested": lambda: v2.Compose([v2.Compose([v2.RandomResizedCrop(64)]), v2.Compose(PIXELS)]),
    "noise": lambda: v2.Compose([v2.RandomResizedCrop(64), *PIXELS, v2.GaussianNoise()]),
    "blur": lambda: v2.Compose([v2.RandomResizedCrop(64), v2.GaussianBlur(5), v2.JPEG((50, 90)), *PIXELS]),
    "photometric": lambda: v2.Compose([v2.RandomPhotometricDistort(), v2.RandomResizedCrop(64), *PIXELS]),
    "gray": lambda: v2.Compose([v2.RandomGrayscale(0.5), v2.RandomResizedCrop(64), v2.ToDtype(torch.float32)]),
    "half": lambda: v2.Compose([v2.RandomResizedCrop(64), v2.ToDtype(torch.float16, scale=True)]),
    "pil": lambda: v2.Compose([v2.RandomResizedCrop(64), v2.ToPILImage()]),
    "old to tensor": lambda: v2.Compose([v2.RandomResizedCrop(64), v2.ConvertImageDtype(torch.float32)]),
    "solarized at none": lambda: v2.Compose([v2.RandomCrop(64), v2.RandomSolarize(900, p=1.0)]),
    "wrong": lambda: v2.Compose([v2.RandomResizedCrop(64), v2.Normalize([0.5], [0.2])]),
    "one by one": lambda: torch.nn.Sequential(v2.RandomResizedCrop(64), v2.RandomHorizontalFlip(), *PIXELS),
    "v1": lambda: v1.Compose(
        [
            v1.RandomResizedCrop(64),
            v1.RandomHorizontalFlip(),
            v1.ConvertImageDtype(torch.float32),
            v1.Normalize(0.5, 0.2),
        ]
    ),
    "v1 crops": lambda: v1.Compose([v1.RandomCrop(64), v1.RandomHorizontalFlip()]),
    "v1 of v2": lambda: v1.Compose([v2.RandomResizedCrop(64), v2.RandomHorizontalFlip(), *PIXELS]),
    "multi": lambda: _Views(v2.Compose([v2.RandomResizedCrop(32), v2.RandomHorizontalFlip(), *PIXELS])),
}


class _Views:
    def __init__(self, transform: Any) -> None:
        self.transform = transform

    def __call__(self, image: torch.Tensor) -> list[torch.Tensor]:
        return [self.transform(image) for _ in range(4)]


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("check", [0, 2])
def test_recipes(name: str, check: int) -> None:
    recipe = RECIPES[name]()
    kinds = (PHOTO, KINDS["gray"], KINDS["PNG"], KINDS["progressive"])

    def made() -> Any:
        torch.manual_seed(3)
        found = [outcome(lambda data=data: recipe(opened(data))) for data in kinds for _ in range(4)]
        return found, torch.get_rng_state()

    with plainly():
        expected, state = made()
    fastpipe.uninstall()
    _Twice.calls = 0
    with fastpipe.install(check=check):
        found, behind = made()
        assert _Twice.calls == (16 if "foreign" in name and "looks" not in name else 0), "user's code never runs twice"
    for one, other in zip(found, expected, strict=True):
        assert one == other
    assert torch.equal(state, behind)
    assert not any(site.differed for site in fastpipe.report().sites)


@pytest.mark.needs_core
def test_samples_with_boxes() -> None:
    recipe = v2.Compose([v2.RandomHorizontalFlip(1.0), v2.Resize([50, 60]), v2.ToDtype(torch.float32, scale=True)])

    def made(image: Any) -> Any:
        boxes = tv_tensors.BoundingBoxes([[3, 4, 20, 30]], format="XYXY", canvas_size=(97, 131))
        torch.manual_seed(0)
        image, target = recipe(tv_tensors.Image(image), {"boxes": boxes, "label": torch.tensor(3)})
        return image, target

    image, target = made(opened())
    assert fastpipe.is_pending(image)
    expected, expected_target = made(plainly_opened())
    assert shown(image) == shown(expected)
    assert shown(target["boxes"]) == shown(expected_target["boxes"])


FILLS = {tv_tensors.Image: (200, 10, 30), torch.Tensor: 90, "others": 5}
BY_CLASS: dict[str, Callable[[], Any]] = {
    "rotation": lambda: v2.RandomRotation((20, 21), fill=FILLS),
    "affine": lambda: v2.RandomAffine(20, fill=FILLS),
    "pad": lambda: v2.Pad(5, fill=FILLS),
    "zoom out": lambda: v2.RandomZoomOut(FILLS, p=1.0),
    "crop": lambda: v2.RandomCrop((300, 300), pad_if_needed=True, fill=FILLS),
    "perspective": lambda: v2.RandomPerspective(p=1.0, fill=FILLS),
    "elastic": lambda: v2.ElasticTransform(fill=FILLS),
    "dtype": lambda: v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True),
    "no dtype": lambda: v2.ToDtype({tv_tensors.Image: None, "others": torch.float64}),
}


@pytest.mark.filterwarnings("ignore:scale was set to True but no dtype")
@pytest.mark.parametrize("name", BY_CLASS)
@pytest.mark.parametrize("kind", [torch.Tensor, tv_tensors.Image])
@pytest.mark.parametrize("boxes", [False, True])
def test_what_is_given_by_class(name: str, kind: Any, boxes: bool) -> None:
    recipe = BY_CLASS[name]()

    def made(image: Any) -> Any:
        if kind is tv_tensors.Image:
            image = kind(image)
        torch.manual_seed(0)
        around = tv_tensors.BoundingBoxes([[3, 4, 20, 30]], format="XYXY", canvas_size=(97, 131))
        return shown(recipe(image, around)[0] if boxes else recipe(image))

    assert made(opened()) == made(plainly_opened())


@pytest.mark.needs_core
def test_planned_batches_have_no_pixels_before() -> None:
    recipe = RECIPES["training"]()
    samples = [recipe(opened()) for _ in range(3)]
    assert all(map(fastpipe.is_pending, samples))
    batch = torch.stack(samples)
    assert all(map(fastpipe.is_pending, samples))
    assert shown(batch) == shown(torch.stack([sample.clone() for sample in samples]))


# -- checks and the account


@pytest.mark.needs_core
def test_a_difference_is_told_and_the_plain_result_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    fastpipe.uninstall()
    run = pending_work.FileSource.run

    def wrong(*args: Any, **kwargs: Any) -> Any:
        made = run(*args, **kwargs)
        return made.add(1)

    expected = plainly_opened()
    with fastpipe.install(check=2):
        image = opened()
        monkeypatch.setattr(pending_work.FileSource, "run", wrong)
        with pytest.warns(fastpipe.errors.FastpipeWarning, match=r"torchvision.io.decode_image: an image had other"):
            image.sum()
        assert shown(image) == shown(expected)
        assert not fastpipe.is_pending(opened()), "left alone from now on"
    site = next(site for site in fastpipe.report().sites if site.name == "torchvision.io.decode_image")
    assert (site.images, site.checked, site.differed, site.is_off) == (1, 1, 1, True)


@pytest.mark.needs_core
def test_a_transform_that_differs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    fastpipe.uninstall()
    recipe = RECIPES["evaluation"]()
    with plainly():
        expected = shown(recipe(opened()))
    run = pending_work.FileSource.run
    with fastpipe.install(check=1):
        monkeypatch.setattr(pending_work.FileSource, "run", lambda *args, **options: run(*args, **options).add(1))
        with pytest.warns(fastpipe.errors.FastpipeWarning, match="Compose.*gave other values"):
            assert shown(recipe(opened())) == expected


@pytest.mark.parametrize("ways", ["functions", "Compose"])
@pytest.mark.needs_core
def test_a_mistake_of_fastpipe_s_is_told_and_the_plain_result_taken(monkeypatch: pytest.MonkeyPatch, ways: str) -> None:
    def planted(*_: object) -> None:
        raise TypeError("planted")

    def resized() -> torch.Tensor:
        resize = v2.Resize((41, 53)) if ways == "functions" else v2.Compose([v2.Resize((41, 53))])
        return torch.as_tensor(resize(opened()))

    with plainly():
        expected = resized()
    monkeypatch.setattr(pending_tensor, "with_steps", planted)
    assert torch.equal(resized(), expected)
    told = {reason for site in fastpipe.report().sites for reason in site.left}
    assert told == {"fastpipe failed (TypeError: planted), and the plain way was taken"}


@pytest.mark.needs_core
def test_a_mistake_of_the_user_s_is_the_librarys_to_tell() -> None:
    with pytest.raises(RuntimeError, match="sizes should be greater than 0"):
        F.resize(opened(), [41, 0])
    assert not any(site.left for site in fastpipe.report().sites)


@pytest.mark.needs_core
def test_the_account() -> None:
    fastpipe.uninstall()
    recipe = RECIPES["training"]()
    with fastpipe.install(check=2):
        for _ in range(5):
            recipe(opened())
        opened().sum()
        opened(FILES[sorted(name for name in FILES if "gif" in name)[0]])
    sites = {site.name.partition("(")[0]: site for site in fastpipe.report().sites}
    assert sites["Compose"].images == 5
    assert sites["Compose"].checked == 2
    assert sites["torchvision.io.decode_image"].images == 6
    assert sites["torchvision.io.decode_image"].left == {"neither a JPEG nor a PNG": 1}


def test_uninstall_leaves_nothing() -> None:
    fastpipe.uninstall()
    utils = module("torchvision.transforms.v2.functional._utils")
    owners = (tio, tio.image, v2.Compose, torch, torch.Tensor, torch.nn.Parameter, torch.jit, torch.jit._trace)
    before = [dict(vars(owner)) for owner in owners], {name: dict(one) for name, one in utils._KERNEL_REGISTRY.items()}
    with fastpipe.install():
        image, flipped = opened(), F.horizontal_flip(opened())
        decode = tio.decode_image
        assert tio.decode_image is tio.image.decode_image
    after = [dict(vars(owner)) for owner in owners], {name: dict(one) for name, one in utils._KERNEL_REGISTRY.items()}
    assert before == after
    assert not fastpipe.is_pending(decode(as_tensor(PHOTO)))
    assert shown(image) == shown(plainly_opened())
    assert shown(F.resize(flipped, [20, 30])) == shown(F.resize(F.horizontal_flip(plainly_opened()), [20, 30]))


@pytest.mark.parametrize("function", ["decode_image", "decode_jpeg"])
def test_torchscript_compiles_torchvisions(function: str) -> None:
    scripted = torch.jit.script(getattr(tio, function))
    assert shown(scripted(as_tensor(PHOTO))) == shown(plainly_opened())


def test_nothing_is_imported_for_it() -> None:
    code = (
        "import sys, fastpipe; fastpipe.install(); import torch\n"
        "assert 'torchvision' not in sys.modules and 'fastpipe.program' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_samples_keep_their_class_and_get_ordinary_tensors() -> None:
    sample = OrderedDict(image=opened(), numbers=[1, (2, opened())])
    parts = [*sample.values()]
    assert with_ordinary_tensors(sample) is sample
    assert all(new is old for new, old in zip(sample.values(), parts, strict=True))
    assert not fastpipe.is_pending(sample["image"])
    assert not fastpipe.is_pending(sample["numbers"][1][1])
