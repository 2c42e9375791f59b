"""Names of torch and Pillow that fastpipe uses at calls, most of them private: they are asked for before any call."""

from __future__ import annotations

from operator import attrgetter
from types import ModuleType

NEEDED = {
    "PIL.Image": ("Image._new", "OPEN", "_decompression_bomb_check", "core.new"),
    "PIL.JpegImagePlugin": ("JpegImageFile._open", "JpegImageFile.getexif"),
    "torch": (
        *("Tensor._make_subclass", "Tensor._make_wrapper_subclass", "UntypedStorage._new_shared"),
        *("_C.DisableTorchFunction", "_C.DisableTorchFunctionSubclass", "_C.DispatchKey.Python", "_C._dispatch_keys"),
        *("_C._functorch.maybe_current_level", "_C._get_function_stack_at", "_C._get_mkldnn_enabled"),
        *("_C._get_tracing_state", "_C._is_tracing", "_C._jit_get_schemas_for_operator"),
        *("_C._len_torch_dispatch_stack", "_C._len_torch_function_stack", "_C._swap_tensor_impl"),
        *("_functorch.pyfunctorch.temporarily_pop_interpreter_stack", "_sample_dirichlet"),
        *("nn.modules.module._global_forward_hooks", "nn.modules.module._global_forward_pre_hooks"),
        *("utils._python_dispatch._disable_current_modes", "utils._pytree.tree_flatten", "utils._pytree.tree_leaves"),
        *("utils._pytree.tree_map", "utils._pytree.tree_unflatten", "utils.data._utils.collate.collate_tensor_fn"),
        *("utils.data._utils.collate.default_collate", "utils.data._utils.collate.default_collate_fn_map"),
    ),
}
"""The names in each module; torch imports those of its parts itself."""


def missing_names(module: ModuleType) -> list[str]:
    """The names that fastpipe needs of a module, and that it doesn't have in this version of its library."""
    return [name for name in NEEDED.get(module.__name__, ()) if not _has(module, name)]


def _has(module: ModuleType, name: str) -> bool:
    try:
        attrgetter(name)(module)
    except AttributeError:
        return False
    return True
