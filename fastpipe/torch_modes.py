"""Tells if a torch mode has to see each transform's call, and if torch computes as it does by default."""

from __future__ import annotations

import sys

import torch


def torch_modes_active() -> bool:
    """True if autocast on the CPU, a torch function mode or what `follows_calls` names must see each transform's call.

    fastpipe's own modes opt out by ``sees_transforms = False``. Modules that make tensors at import, such as
    `fastpipe.rng`, are imported after this check: within such a mode it would see those tensors.
    """
    if follows_calls() or _autocasts():
        return True
    try:
        modes = [*map(torch._C._get_function_stack_at, range(torch._C._len_torch_function_stack()))]
    except AttributeError:  # of another torch, which then computes everything
        return True
    return any(getattr(mode, "sees_transforms", True) for mode in modes)


def follows_calls() -> bool:
    """True if a tracer, a dispatch mode or a transform of ``torch.func`` follows the calls of torch's functions.

    Also for a torch that can't be asked, as it lacks one of the private names: it then computes everything itself.
    """
    try:
        return (
            torch._C._len_torch_dispatch_stack() > 0
            or torch._C._get_tracing_state() is not None
            or torch._C._functorch.maybe_current_level() is not None
        )
    except AttributeError:
        return True


def is_traced() -> bool:
    """True while torch compiles or traces; also for a torch that can't be asked."""
    return torch.compiler.is_compiling() or _is_tracing is None or bool(_is_tracing())


def has_function_modes() -> bool:
    """True within any function mode of torch, such as ``torch.device``; also for a torch that can't be asked."""
    return _function_modes is None or _function_modes() > 0


def computes_by_default() -> bool:
    """True if torch computes as it does by default: without autocast on the CPU, and bytes as float32."""
    return torch.get_default_dtype() is torch.float32 and not _autocasts()


def float32_precision(operation: str) -> str | None:
    """The precision of oneDNN's ``conv`` or ``matmul`` of float32: ``"none"`` by default; None before torch 2.9."""
    return None if _precision_of is None else _precision_of("mkldnn", operation)


def multiplies_exactly() -> bool:
    """True unless torch may round the factors of a matrix product of float32 to fewer bits."""
    precision = float32_precision("matmul")
    return torch.get_float32_matmul_precision() == "highest" if precision is None else precision in ("none", "ieee")


_is_tracing = getattr(torch._C, "_is_tracing", None)
_function_modes = getattr(torch._C, "_len_torch_function_stack", None)
_precision_of = getattr(torch._C, "_get_fp32_precision_getter", None)


def _autocasts() -> bool:
    return torch.is_autocast_enabled("cpu") if _ASKS_BY_DEVICE else torch.is_autocast_cpu_enabled()


_ASKS_BY_DEVICE = hasattr(torch.amp, "is_autocast_available")  # torch 2.4 or later


def stacks_as_tensor(kind: type) -> bool:
    """True if stacked tensors of a class become a plain tensor, as torchvision's images do by default."""
    if kind is torch.Tensor:
        return True
    helpers = sys.modules.get("torchvision.tv_tensors._torch_function_helpers")
    tv_tensors = sys.modules.get("torchvision.tv_tensors")
    if helpers is None or tv_tensors is None or kind is not tv_tensors.Image:
        return False
    return getattr(helpers, "_TORCHFUNCTION_SUBCLASS", True) is False
