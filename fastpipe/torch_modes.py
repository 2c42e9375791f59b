"""`torch_modes_active`: tells if a torch mode has to see each transform's call."""

from __future__ import annotations

import torch


def torch_modes_active() -> bool:
    """True if a torch function or dispatch mode is active that has to see each transform's call.

    fastpipe's own modes opt out by ``sees_transforms = False``. Modules that make tensors at import, such as
    `fastpipe.rng`, are imported after this check: within such a mode it would see those tensors.
    """
    if torch._C._len_torch_dispatch_stack():
        return True
    modes = map(torch._C._get_function_stack_at, range(torch._C._len_torch_function_stack()))
    return any(getattr(mode, "sees_transforms", True) for mode in modes)
