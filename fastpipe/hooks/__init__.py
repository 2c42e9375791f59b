"""Scripts as they are, made faster: what they ask of other libraries is recorded, planned and checked.

`install` replaces a few functions of Pillow, torchvision, torch, OpenCV and albumentations, each in a module of
this package, once the script has imported the library. Nothing here imports a library that the script doesn't.
"""

from fastpipe.hooks.installation import Installation, install, is_installed, uninstall
from fastpipe.hooks.summary import report

__all__ = ["Installation", "install", "is_installed", "report", "uninstall"]
