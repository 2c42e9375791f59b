"""torchvision's ``RandomIoUCrop``: its trials compute with Python's numbers."""

from __future__ import annotations

from functools import partial
from types import ModuleType

from fastpipe.clock import clock
from fastpipe.hooks.checking import check_call
from fastpipe.hooks.ledger import LEDGER
from fastpipe.hooks.patches import Function, Patches
from fastpipe.mistakes import attempt


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces ``RandomIoUCrop.make_params``, if this version has that name."""
    kind: object = getattr(module, "RandomIoUCrop", None)
    if "make_params" in vars(kind or object):
        patches.wrap(kind, "make_params", _drawing)


def _drawing(plain: Function) -> Function:
    def make_params(self: object, flat_inputs: list[object]) -> object:
        site = LEDGER.site("function", "torchvision.transforms.v2.RandomIoUCrop.make_params")
        theirs = partial(plain, self, flat_inputs)

        def own() -> object:
            from fastpipe.transforms.v2._params import iou_crop

            begun = clock()
            params = iou_crop(self, flat_inputs)
            if params is None:
                params = theirs()
            site.count(clock() - begun)
            return params

        if site.is_off:
            return theirs()
        if site.is_check_due():
            return check_call(site, own, theirs, "RandomIoUCrop")
        from fastpipe.rng.state import GeneratorStates

        return attempt(own, theirs, site.count_failed, restore=GeneratorStates.of().restore)

    return make_params
