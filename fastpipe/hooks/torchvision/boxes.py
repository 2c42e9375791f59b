"""torchvision's ``RandomIoUCrop``: its trials compute with Python's numbers."""

from __future__ import annotations

from types import ModuleType

from fastpipe.clock import clock
from fastpipe.hooks.checking import check_call
from fastpipe.hooks.ledger import LEDGER
from fastpipe.hooks.patches import Function, Patches


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces ``RandomIoUCrop.make_params``, if this version has that name."""
    kind: object = getattr(module, "RandomIoUCrop", None)
    if "make_params" in vars(kind or object):
        patches.wrap(kind, "make_params", _drawing)


def _drawing(plain: Function) -> Function:
    quick: Function | None = None

    def make_params(self: object, flat_inputs: list[object]) -> object:
        nonlocal quick
        if quick is None:
            from fastpipe.transforms.v2._params import iou_crop as quick
        site = LEDGER.site("function", "torchvision.transforms.v2.RandomIoUCrop.make_params")

        def own() -> object:
            params = quick(self, flat_inputs)
            return plain(self, flat_inputs) if params is None else params

        if site.is_off:
            return plain(self, flat_inputs)
        if site.is_check_due():
            site.count(None)
            return check_call(site, own, lambda: plain(self, flat_inputs), "RandomIoUCrop")
        begun = clock()
        params = own()
        site.count(clock() - begun)
        return params

    return make_params
