"""Annotations that TorchScript and a type checker read differently.

TorchScript compiles these functions for tensors and can only be told ``Tensor`` and ``list[int]``, and so says
torchvision's own signature. Eagerly the functions also take PIL images and ndarrays, and single numbers or tuples
where TorchScript needs lists. So the run time sees torchvision's annotations, and a type checker the wider truth.
"""

from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    Image = Any
    Ints = Any
    Floats = Any
    Fill = Any
    Scalar = Any
else:
    Image = Tensor
    Ints = list[int]
    Floats = list[float]
    Fill = list[float]
    Scalar = int | float
