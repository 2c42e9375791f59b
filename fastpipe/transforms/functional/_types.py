"""Annotations that TorchScript and a type checker read differently.

TorchScript compiles these functions for tensors and only understands ``Tensor`` and ``list[int]``, as in torchvision's
own signatures. Outside of TorchScript the functions also take PIL images and ndarrays, and single numbers or tuples
instead of lists. So the annotations are torchvision's at run time, and the wider types for a type checker.
"""

from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from fastpipe.types import Fill, Floats, Image, Ints

    Scalar = Floats
else:
    Image = Tensor
    Ints = list[int]
    Floats = list[float]
    Fill = list[float]
    Scalar = int | float
