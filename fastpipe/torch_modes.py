"""`torch_modes_active`: whether a mode of torch's is to see each transform's call."""

from __future__ import annotations

import torch


def torch_modes_active() -> bool:
    """Whether a mode of torch's is to see each transform's call; one of ours says that it isn't.

    What makes tensors as it is imported, as `fastpipe.rng` does, is imported after this: in such a mode they would be
    the mode's.
    """
    if torch._C._len_torch_dispatch_stack():
        return True
    modes = map(torch._C._get_function_stack_at, range(torch._C._len_torch_function_stack()))
    return any(getattr(mode, "sees_transforms", True) for mode in modes)
