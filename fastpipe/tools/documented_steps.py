"""Steps whose pixels are documented as other than torchvision's, each held to its contract on its own input."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from PIL import Image

from fastpipe.ops import WARP, Contract, Operation, contracts_of
from fastpipe.program import Views, to_pil
from fastpipe.reporting.pictures import arrays_of, same_size
from fastpipe.tools.verify_result import FLOAT_NOISE, Difference
from fastpipe.types import Step


def is_exact(step: Step) -> bool:
    return all(contract.limit == 0 for contract in contracts_of(step))


def run_steps(functional: Any, steps: Iterable[Step], theirs: Any, ours: Any, broken: list[str]) -> tuple[Any, Any]:
    """Runs drawn steps by torchvision's functions, and again with the inexact ones by fastpipe's.

    Args:
        functional: ``torchvision.transforms.functional``.
        steps: as drawn.
        theirs, ours: the image before them in the first and the second run.
        broken: gets a sentence for each step that doesn't keep its contract on the image of the first run.

    Returns:
        The image behind them, of both runs; lists where a step makes several views.
    """
    for step in steps:
        if isinstance(step, Views):
            views = [run_steps(functional, view, theirs, ours, broken) for view in step.views]
            theirs, ours = ([pair[number] for pair in views] for number in (0, 1))
            continue
        before, alike = theirs, ours is theirs
        theirs = _by_torchvision(functional, step, before)
        # Contracts are about PIL images: tensors go through torch's own functions on both sides.
        if is_exact(step) or not isinstance(before, Image.Image):
            ours = theirs if alike else _by_torchvision(functional, step, ours)
            continue
        own = _by_fastpipe(step, before)
        ours = own if alike else _by_fastpipe(step, ours)
        said = (_broken(functional, step, contract, before, own, theirs) for contract in contracts_of(step))
        broken += filter(None, said)
    return theirs, ours


def _broken(functional: Any, step: Step, contract: Contract, before: Any, ours: Any, theirs: Any) -> str:
    """A sentence where a step's result doesn't keep the contract; empty where it does, or where that is no number."""
    apart = _difference(ours, theirs)
    if apart is None:
        return f"{_name(step)} gives another size"
    limit = 1 if contract is WARP else contract.limit
    if limit is None or apart.max <= limit + FLOAT_NOISE:
        return ""
    said = f"{_name(step)} is {apart.max:.3g}/255 from torchvision's, where {limit:g} is documented"
    if contract is WARP:
        backend = _difference(_by_tensor_backend(functional, step, before), theirs)
        if backend is not None and apart.mean <= backend.mean:
            return ""
        said += ", or torchvision's own tensor backend's mean"
    return said


def _difference(one: Any, other: Any) -> Difference | None:
    """The difference of two results; None where they aren't of one size."""
    ours, theirs = arrays_of(one), arrays_of(other)
    if not same_size(ours, theirs):
        return None
    found = Difference()
    for pair in zip(ours, theirs, strict=True):
        found.add(*pair)
    return found


def _by_fastpipe(step: Step, image: Image.Image) -> Any:
    return to_pil(step.apply(np.asarray(image)))


def _by_torchvision(functional: Any, step: Step, image: Any) -> Any:
    """The step by torchvision's function of that name; by itself where torchvision has none."""
    function = getattr(functional, step.op, None) if isinstance(step, Operation) else None
    if function is None or not isinstance(step, Operation):
        return _by_fastpipe(step, image) if isinstance(image, Image.Image) else step.apply(image.clone())
    return function(image if isinstance(image, Image.Image) else image.clone(), **_arguments(functional, step))


def _by_tensor_backend(functional: Any, step: Step, image: Image.Image) -> Any:
    """The step by torchvision on a tensor; an empty list where it doesn't take such arguments."""
    assert isinstance(step, Operation)
    tensor, arguments = functional.pil_to_tensor(image), _arguments(functional, step)
    if isinstance(arguments.get("fill"), (int, float)):
        arguments["fill"] = [float(arguments["fill"])] * tensor.shape[0]
    try:
        return getattr(functional, step.op)(tensor, **arguments)
    except (TypeError, ValueError, RuntimeError):
        return []


def _arguments(functional: Any, step: Operation) -> dict[str, Any]:
    """The step's arguments with torchvision's enum."""
    arguments = step.arguments()
    mode: Any = arguments.get("interpolation")
    if hasattr(mode, "value"):
        arguments["interpolation"] = functional.InterpolationMode(mode.value)
    return arguments


def _name(step: Step) -> str:
    return step.op if isinstance(step, Operation) else str(step).partition("(")[0]
