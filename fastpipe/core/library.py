"""The shared library, loaded when it is first used.

``FASTPIPE_CORE`` overrides the choice: ``auto`` or empty (the best instruction set of this machine), ``portable``,
``avx512``, ``avx2``, ``neon``, or ``off``. The variable is read once, at the first use.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from fastpipe.core.structs import ABI, Isa, Status
from fastpipe.errors import ConfigError, ReaderUnavailableError

LIBRARY = Path(__file__).parent / {"win32": "fastpipe_core.dll", "darwin": "libfastpipe_core.dylib"}.get(
    sys.platform, "libfastpipe_core.so"
)

_VARIABLE = "FASTPIPE_CORE"
_INSTALL = (
    "install torch-fastpipe again (pip install . in its checkout) where a C compiler works, or with "
    "FASTPIPE_BUILD_CORE=zig, which brings one along; FASTPIPE_BUILD_CORE=require shows what fails"
)


@dataclass(frozen=True)
class Loaded:
    """A loaded library, or the reason why there is none.

    Attributes:
        functions: the library; None if it didn't load.
        quick: the same library, called with the GIL held, for functions that return at once.
        isa: the instruction set for new contexts.
        reason: why the library didn't load, and what to do; empty if it did.
    """

    functions: ctypes.CDLL | None
    quick: ctypes.PyDLL | None = None
    isa: Isa = Isa.BEST
    reason: str = ""


_WORD_OF = {isa: isa.name.lower() for isa in (Isa.PORTABLE, Isa.AVX2, Isa.AVX512, Isa.NEON)}
_WORDS = {"": Isa.BEST, "auto": Isa.BEST, **{word: isa for isa, word in _WORD_OF.items()}, "off": None}

# A process forks only while no other thread loads the library: otherwise the child would wait for that thread for ever.
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
_loaded: Loaded | None = None


def load(word: str, library: Path = LIBRARY) -> Loaded:
    """Loads a library.

    Args:
        word: a value of ``FASTPIPE_CORE``.
        library: the library's file.

    Raises:
        ConfigError: the word isn't a known one.
    """
    key = word.strip().lower()
    if key not in _WORDS:
        raise ConfigError(f"{_VARIABLE}={word!r} isn't known; it can be {', '.join(filter(None, _WORDS))}, or unset")
    chosen = _WORDS[key]
    if chosen is None:
        return Loaded(None, reason=f"the core is switched off by {_VARIABLE}={word}; unset it to use the core")
    if not library.exists():
        return Loaded(None, reason=f"the core wasn't compiled ({library.name} isn't there): {_INSTALL}")
    try:
        functions = ctypes.CDLL(str(library))
        functions.fpc_abi.restype = ctypes.c_int
        abi = functions.fpc_abi()
        if abi == ABI:
            _declare(functions)
            quick = ctypes.PyDLL(str(library))
            _declare(quick)
    except (OSError, AttributeError) as error:  # AttributeError for a function that a library of another build lacks
        return Loaded(None, reason=f"the core doesn't load ({error}): {_INSTALL}")
    if abi != ABI:
        return Loaded(None, reason=f"the core is of another version of fastpipe (ABI {abi}, not {ABI}): {_INSTALL}")
    context = functions.fpc_context_new(chosen)
    if not context:
        return Loaded(
            None,
            reason=f"this machine lacks what {_VARIABLE}={word} asks for ({chosen.name}); "
            f"its best is {_WORD_OF[functions.fpc_best_isa()]}: unset the variable, or name that",
        )
    functions.fpc_context_free(context)
    return Loaded(functions, quick, Isa(functions.fpc_best_isa()) if chosen is Isa.BEST else chosen)


def _declare(functions: ctypes.CDLL) -> None:
    """Declares the C functions' types. Structs are passed by address: an int costs less than a pointer object."""
    pointer, status = ctypes.c_void_p, ctypes.c_int
    for name, result, arguments in (
        ("fpc_status_text", ctypes.c_char_p, [status]),
        ("fpc_build", ctypes.c_char_p, []),
        ("fpc_best_isa", ctypes.c_int, []),
        ("fpc_context_new", pointer, [ctypes.c_int]),
        ("fpc_context_free", None, [pointer]),
        ("fpc_context_bytes", ctypes.c_size_t, [pointer]),
        ("fpc_read_header", status, [ctypes.c_char_p, ctypes.c_size_t, pointer]),
        ("fpc_jpeg_end", ctypes.c_int64, [ctypes.c_char_p, ctypes.c_size_t]),
        ("fpc_run", status, [pointer, pointer]),
        (
            "fpc_run_on_image",
            status,
            [pointer, pointer, ctypes.c_int64, ctypes.c_int64, pointer, pointer, pointer],
        ),
        ("fpc_run_series", status, [pointer, pointer, ctypes.c_size_t, ctypes.c_int64, ctypes.c_int64]),
        ("fpc_look_up", None, [pointer, pointer, ctypes.c_size_t, pointer, pointer]),
        ("fpc_arrow_pixels", pointer, [pointer, ctypes.c_int64, ctypes.c_int32]),
        ("fpc_flip_rgb", None, [pointer, pointer, ctypes.c_int32, ctypes.c_int32, pointer]),
        (
            "fpc_decode_uint16",
            status,
            [
                *(pointer, ctypes.c_char_p, ctypes.c_size_t, pointer, ctypes.c_int32),
                *(ctypes.c_int64, pointer, ctypes.c_int64),
            ],
        ),
        ("fpc_pool_new", pointer, [ctypes.c_int, ctypes.c_int]),
        ("fpc_pool_run", None, [pointer, pointer, ctypes.c_size_t]),
        ("fpc_pool_start", None, [pointer, pointer, ctypes.c_size_t, pointer]),
        ("fpc_pool_wait", None, [pointer, pointer]),
        ("fpc_files_new", pointer, []),
        ("fpc_files_free", None, [pointer]),
        ("fpc_files_clear", None, [pointer]),
        ("fpc_files_bytes", ctypes.c_size_t, [pointer]),
        ("fpc_read_files", None, [pointer, pointer, ctypes.c_size_t]),
        ("fpc_packer_new", pointer, [ctypes.c_int]),
        ("fpc_packer_free", None, [pointer]),
        (
            "fpc_pack",
            status,
            [
                *(pointer, pointer, ctypes.c_size_t, ctypes.c_int64),
                *(ctypes.c_char_p, ctypes.c_size_t, pointer, pointer),
            ],
        ),
        ("fpc_unpack", status, [pointer, pointer, ctypes.c_size_t, ctypes.c_int64, pointer, pointer]),
        ("fpc_unpack_head", status, [pointer, pointer, ctypes.c_size_t, ctypes.c_int64, pointer, pointer]),
        ("fpc_packed_check", status, [pointer, pointer, ctypes.c_size_t]),
        (
            "fpc_same_coefficients",
            status,
            [pointer, pointer, ctypes.c_size_t, pointer, ctypes.c_size_t, ctypes.c_int64, pointer],
        ),
        ("fpc_grid_sample_planes", status, [pointer] * 6 + [status, pointer]),
        ("fpc_change_planes", status, [pointer] * 5),
        ("fpc_blur_floats", status, [pointer] * 6),
        ("fpc_adjust_hue", status, [pointer, pointer, pointer, status, ctypes.c_float, pointer]),
        ("fpc_resize_floats", status, [pointer] * 4 + [status, pointer]),
        ("fpc_mix_planes", status, [pointer, pointer, pointer, status, ctypes.c_int64, pointer]),
        ("fpc_draw_runs", status, [ctypes.c_char_p, ctypes.c_size_t, pointer, ctypes.c_size_t]),
        ("fpc_turn_planes", status, [pointer, pointer, pointer, status, pointer]),
        ("fpc_pool_arrays", None, [pointer, pointer, ctypes.c_size_t]),
        ("fpc_pool_read", None, [pointer, pointer, pointer, ctypes.c_size_t]),
        ("fpc_pool_free", None, [pointer]),
    ):
        function = getattr(functions, name)
        function.restype, function.argtypes = result, arguments


def loaded() -> Loaded:
    """Returns this process's library, and loads it at the first call.

    Raises:
        ConfigError: ``FASTPIPE_CORE`` isn't a known word.
    """
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = load(os.environ.get(_VARIABLE, ""))
    return _loaded


def native() -> ctypes.CDLL:
    """Returns the library; each call of its functions releases the GIL.

    Raises:
        ReaderUnavailableError: the library isn't available; says why, and what to do.
    """
    here = loaded()
    if here.functions is None:
        raise ReaderUnavailableError(here.reason)
    return here.functions


def quick() -> ctypes.PyDLL:
    """Returns the library for calls of a few microseconds, which hold the GIL. The library has to be available."""
    functions = loaded().quick
    assert functions is not None
    return functions


def available() -> bool:
    """True if the core was compiled, loads here and isn't switched off."""
    return loaded().functions is not None


def why_not() -> str:
    """Why the core isn't available, and what to do about it; if it is, a line that says so."""
    return loaded().reason or f"nothing is wrong: the core is available ({build()}; {isa()})"


def isa() -> str:
    """The instruction set in use, as a word of ``FASTPIPE_CORE``; empty if the core isn't available."""
    here = loaded()
    return "" if here.functions is None else _WORD_OF[here.isa]


def build() -> str:
    """The compiler that built the core, and whether the core is hardened; empty if the core isn't available.

    For example ``gcc 12.2.0, hardened``.
    """
    here = loaded()
    return "" if here.functions is None else here.functions.fpc_build().decode()


def status_text(status: int) -> str:
    """Describes a status in one sentence."""
    text: bytes = native().fpc_status_text(status)
    return text.decode()


def done(status: int) -> bool:
    """True if a call's status is OK.

    Raises:
        MemoryError: out of memory.
    """
    if status == Status.NO_MEMORY:
        raise MemoryError("the core found no memory for an image")
    return status == Status.OK
