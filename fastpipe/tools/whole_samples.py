"""`verify` for torchvision's v2: an image alone or with boxes, masks and labels, held to torchvision whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch.utils._pytree import keystr, tree_flatten_with_path

from fastpipe.program import keyed_globals
from fastpipe.program.breaks import shortened
from fastpipe.reporting.pictures import same_size
from fastpipe.tools.certificate import Check, StepResult
from fastpipe.tools.comparison import Comparison, compare, digest

__all__ = ["SampleComparison"]


@dataclass(slots=True, kw_only=True)
class SampleComparison(Comparison):
    """Says of a sample which part differs, and whether a transform that is called alone does so, or the plan."""

    direct: Check = field(default_factory=lambda: Check("each transform, called alone, equals torchvision's"))
    plans: Check = field(default_factory=lambda: Check("the plan equals its transforms"))

    @property
    def checks(self) -> tuple[Check, ...]:
        return (self.equal, self.alike, self.direct, self.plans)

    def explain(self, actual: Any, expected: Any, same_end: bool, drawing: int, key: int, where: str) -> None:
        if self.dataset.fidelity == "torchvision":
            why = differences(actual, expected)
            self.equal.add(False, f"{where}: {'; '.join(why) or 'the generator ends elsewhere'}")
            self._walk(key, where)
        if same_size(self.images_of(actual), self.images_of(expected)):
            with keyed_globals(key):
                recipe = self.dataset.recipe(self.index) if self.dataset.plans else None
            self.measure(actual, expected, recipe, drawing)

    def _walk(self, key: int, where: str) -> None:
        """Whether a transform gives something else when it is called, or the plan does."""
        same = True
        made = self.whole
        with keyed_globals(key):
            for member, twin in zip(self.members, self.twins, strict=True):
                ours, made, same_end = self.both(member, twin, made)
                if digest(ours) != digest(made) or not same_end:
                    same = False
                    self.direct.add(False, f"{where}: {shortened(member)}")
                    name = type(member).__name__
                    step = self.steps.setdefault(name, StepResult(name, "exact", 0))
                    step.images += 1
                    if compare(step.own, self.images_of(ours), self.images_of(made)):
                        step.worst = where
        if same:
            self.direct.add(True, where)
        self.plans.add(not same, where)


def differences(actual: Any, expected: Any) -> list[str]:
    """Which parts of a sample aren't equal, by their places in it, such as ``[1]['boxes']``."""
    ours, our_structure = tree_flatten_with_path(actual)
    theirs, their_structure = tree_flatten_with_path(expected)
    if our_structure != their_structure:
        found, wanted = (", ".join(keystr(place) for place, _ in leaves) for leaves in (ours, theirs))
        return [f"{found or 'nothing'} in place of {wanted or 'nothing'}"]
    pairs = zip(ours, theirs, strict=True)
    places = [place for (place, one), (_, other) in pairs if digest(one) != digest(other)]
    return [f"{keystr(place) or 'the image'} differs" for place in places]
