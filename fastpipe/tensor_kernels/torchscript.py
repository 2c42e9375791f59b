"""``is_scripting``, and annotations that TorchScript and a type checker read differently.

TorchScript compiles functions for tensors and only understands ``Tensor`` and ``list[int]``, as in torchvision's own
signatures. Outside of TorchScript these functions also take PIL images and ndarrays, and single numbers or tuples
instead of lists. So the annotations are torchvision's at run time, and the wider types for a type checker.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

if TYPE_CHECKING:
    from fastpipe.types import Fill as Fill
    from fastpipe.types import Floats as Floats
    from fastpipe.types import Image as Image
    from fastpipe.types import Ints as Ints

    FloatList: TypeAlias = Sequence[float]
    FloatPair: TypeAlias = Sequence[float]
    IntList: TypeAlias = Sequence[int]
    Scalar: TypeAlias = Floats
    TensorFill: TypeAlias = Fill
else:
    Image = Tensor
    Ints = IntList = list[int]
    Floats = FloatList = Fill = list[float]
    FloatPair = tuple[float, float]
    Scalar = int | float
    TensorFill = int | float | list[float] | None

is_scripting: Callable[[], bool] = torch.jit.is_scripting  # type: ignore[attr-defined] # torch declares no type
"""``torch.jit.is_scripting``: True in code that TorchScript has compiled."""
