"""``is_scripting``, with the type that torch doesn't declare for it."""

from collections.abc import Callable

import torch

is_scripting: Callable[[], bool] = torch.jit.is_scripting  # type: ignore[attr-defined]
"""``torch.jit.is_scripting``: True in code that TorchScript has compiled."""
