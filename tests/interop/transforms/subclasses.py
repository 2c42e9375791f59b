"""Transforms as public repositories derive them from torchvision's v2 `Transform`."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import PIL.Image
import torch
from torchvision_here import module

V, F = module("torchvision.transforms.v2"), module("torchvision.transforms.v2.functional")
tv_tensors = module("torchvision.tv_tensors")


class PadIfSmaller(V.Transform):
    """Like the class of the same name in vision's references/segmentation."""

    def __init__(self, size: int, fill: Any = 0) -> None:
        super().__init__()
        self.size = size
        self.fill = V._utils._setup_fill_arg(fill)

    def make_params(self, sample: Any) -> dict[str, Any]:
        height, width = V._utils.query_size(sample)
        padding = [0, 0, max(self.size - width, 0), max(self.size - height, 0)]
        return {"padding": padding, "needs_padding": any(padding)}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if not params["needs_padding"]:
            return inpt
        fill = V._utils._get_fill(self.fill, type(inpt))
        return F.pad(inpt, padding=params["padding"], fill=fill)


class PadToSize(V.Pad):
    """RT-DETR's."""

    def __init__(self, size: int, fill: Any = 0, padding_mode: str = "constant") -> None:
        self.size = (size, size)
        super().__init__(0, fill, padding_mode)

    def make_params(self, flat_inputs: Any) -> dict[str, Any]:
        size = F.get_size(flat_inputs[0])
        self.padding = [0, 0, self.size[1] - size[1], self.size[0] - size[0]]
        return {"padding": self.padding}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        fill = V._utils._get_fill(self._fill, type(inpt))
        return F.pad(inpt, padding=params["padding"], fill=fill, padding_mode=self.padding_mode)

    def __call__(self, *inputs: Any) -> Any:
        outputs = super().forward(*inputs)
        if len(inputs) > 1 and isinstance(outputs[1], dict):
            outputs[1]["padding"] = torch.tensor(self.padding)
        return outputs


class RandomIoUCrop(V.RandomIoUCrop):
    """RT-DETR's."""

    def __init__(self, p: float = 1.0) -> None:
        super().__init__()
        self.p = p

    def __call__(self, *inputs: Any) -> Any:
        if torch.rand(1) >= self.p:
            return inputs if len(inputs) > 1 else inputs[0]
        return super().forward(*inputs)


class ConvertBoxes(V.Transform):
    """RT-DETR's."""

    _transformed_types = (tv_tensors.BoundingBoxes,)

    def __init__(self, fmt: str = "CXCYWH") -> None:
        super().__init__()
        self.fmt = fmt

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F.convert_bounding_box_format(inpt, new_format=self.fmt)


class RandomSubsetApply(V.Transform):
    """lerobot's."""

    def __init__(self, transforms: Sequence[Callable[..., Any]], n_subset: int, random_order: bool = False) -> None:
        super().__init__()
        self.transforms, self.n_subset, self.random_order = transforms, n_subset, random_order
        self.p = [1 / len(transforms)] * len(transforms)
        self.selected_transforms: Any = None

    def forward(self, *inputs: Any) -> Any:
        needs_unpacking = len(inputs) > 1
        selected = torch.multinomial(torch.tensor(self.p), self.n_subset)
        if not self.random_order:
            selected = selected.sort().values
        self.selected_transforms = [self.transforms[i] for i in selected]
        for transform in self.selected_transforms:
            outputs = transform(*inputs)
            inputs = outputs if needs_unpacking else (outputs,)
        return outputs


class SharpnessJitter(V.Transform):
    """lerobot's."""

    def __init__(self, sharpness: tuple[float, float]) -> None:
        super().__init__()
        self.sharpness = sharpness

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        factor = torch.empty(1).uniform_(self.sharpness[0], self.sharpness[1]).item()
        return {"sharpness_factor": factor}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(F.adjust_sharpness, inpt, sharpness_factor=params["sharpness_factor"])


class Turned(V.Transform):
    """Draws from Python's and numpy's generators, and counts what it has done."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        self.count += 1
        return {"angle": random.uniform(-20, 20) + self.count, "flip": np.random.rand() < 0.5}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        inpt = F.rotate(inpt, params["angle"])
        return F.horizontal_flip(inpt) if params["flip"] else inpt


LEROBOT = RandomSubsetApply([V.ColorJitter(0.3), SharpnessJitter((0.5, 1.5)), V.RandomAffine(5)], 2, True)


class DarkOnesBrighter(V.Transform):
    """Looks at pixels."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if np.asarray(inpt).mean() < 128:
            return F.adjust_brightness(inpt, 1.5)
        return inpt


class InPlace(V.Transform):
    """Writes to a tensor."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if isinstance(inpt, torch.Tensor):
            inpt[..., :9] = 0
        return inpt


SUBCLASSES = [
    PadIfSmaller(70),
    PadIfSmaller(70, {tv_tensors.Mask: 255, "others": 3}),
    PadIfSmaller(70, {PIL.Image.Image: 9, "others": 3}),
    PadToSize(100, 7),
    LEROBOT,
    Turned(),
    DarkOnesBrighter(),
    InPlace(),
]
