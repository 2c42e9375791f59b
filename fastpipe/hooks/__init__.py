"""Makes unchanged scripts faster: their calls of other libraries are recorded, planned and checked.

`install` replaces a few functions of Pillow, torchvision, torch, OpenCV and albumentations. Each library has its own
modules in this package, which hook it once the script has imported it. Nothing here imports a library that the script
doesn't import.
"""

from fastpipe.hooks.installation import Installation, install, is_installed, uninstall
from fastpipe.hooks.summary import report

__all__ = ["Installation", "install", "is_installed", "report", "uninstall"]
