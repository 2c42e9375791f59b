"""Hugging Face's image processors on torchvision: a file becomes the resized crop in one job of the core.

``process_image`` makes an array of an image, turns it and copies it in planes; ``_preprocess`` resizes that as a batch
of one. Of an image without pixels the first gives a tensor without, and the second has it resized and cut as it is.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from fastpipe.hooks.class_checks import is_pillow_image
from fastpipe.hooks.faster_function import FasterFunction
from fastpipe.hooks.ledger import LEDGER
from fastpipe.hooks.patches import Function, Patches
from fastpipe.hooks.pillow.image_functions import recorded_tensor
from fastpipe.mistakes import attempt
from fastpipe.pending import is_pending

if TYPE_CHECKING:
    import torch

_NAME = "transformers.image_processing_backends.TorchvisionBackend"


class _Processor(Protocol):
    """The methods of a processor that are called here."""

    def resize(self, *, image: object, size: object, resample: object) -> object:
        """Resizes a tensor."""

    def center_crop(self, image: object, crop_size: object) -> object:
        """Cuts out the centre of a tensor."""


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces the methods that all such processors have; not where torchvision is missing."""
    backend: type | None = getattr(module, "TorchvisionBackend", None)
    if backend is not None:
        patches.hook(module, "TorchvisionBackend.process_image", partial(_ProcessImage, patches))
        patches.hook(module, "TorchvisionBackend._preprocess", partial(_preprocessing, backend))


class _ProcessImage(FasterFunction):
    """``process_image``, which gives a tensor ``(C, H, W)`` in planes.

    Args:
        patches: hold the replacements of functions on the tensor.
        plain: the library's own.
    """

    def __init__(self, patches: Patches, plain: Function) -> None:
        super().__init__(f"{_NAME}.process_image", plain)
        self._patches = patches

    def takes(self, processor: object, image: object, *args: object, **options: object) -> bool:
        if args or not is_pending(image) or not is_pillow_image(image):
            return False
        from fastpipe.torch_modes import torch_modes_active

        return image.mode == "RGB" and options.get("device") is None and not torch_modes_active()

    def make(self, processor: object, image: object, **options: object) -> torch.Tensor | None:
        plain = partial(self._plain, processor, **options)
        return recorded_tensor(self.site, self._patches, image, "pil_to_tensor", plain, in_planes=True)


def _preprocessing(backend: type, plain: Function) -> Function:
    """``_preprocess``, which resizes and cuts out the centre, normalises and stacks."""
    own = [(name, getattr(backend, name)) for name in ("resize", "center_crop")]

    def preprocess(self: _Processor, images: object, *args: object, **options: Any) -> object:
        kind = type(self)
        if (
            args
            or type(images) is not list
            or not all(map(is_pending, images))
            or options.get("disable_grouping") is False
            or any(getattr(kind, name) is not method for name, method in own)
        ):
            return plain(self, images, *args, **options)

        def ours() -> object:
            resized = [_resized(self, image, **options) for image in images]
            return plain(self, resized, **{**options, "do_resize": False, "do_center_crop": False})

        count_failed = partial(LEDGER.site("function", f"{_NAME}._preprocess").count_failed, images=len(images))
        return attempt(ours, partial(plain, self, images, **options), count_failed)

    return preprocess


def _resized(
    processor: _Processor,
    image: object,
    *,
    do_resize: bool,
    size: object,
    resample: object,
    do_center_crop: bool,
    crop_size: object,
    **_: object,
) -> object:
    """The image's tensor resized, and its centre cut out, as the processor is asked to."""
    resized = processor.resize(image=image, size=size, resample=resample) if do_resize else image
    return processor.center_crop(resized, crop_size) if do_center_crop else resized
