"""Plans torchvision's v1 policies of augmentation, as `torchvision_v1` plans its other transforms."""

from __future__ import annotations

from fastpipe.interop.transforms.torchvision_v1 import classes_of
from fastpipe.interop.transforms.torchvision_v1 import why_not as why_not
from fastpipe.transforms import autoaugment

TABLE = classes_of(autoaugment)
"""Our class that draws for each class of torchvision's."""
