"""Interrupts calls wherever Python runs the handlers of signals."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

_HANDLING = ("CALL", "JUMP_BACKWARD", "JUMP_ABSOLUTE")
"""Beginnings of the instructions after which handlers run, unless they run a function of Python's."""


def is_interrupted(call: Callable[[], object], at: int, *modules: ModuleType) -> bool:
    """Raises KeyboardInterrupt at the `at`-th moment in a call at which a handler may raise in one of these modules.

    These are the beginnings of functions, the ends of calls of C's functions and classes, and the ends of rounds; but
    not the beginning of an ``__exit__``, which nothing can guard (Python's issue 29988).

    Returns:
        False if the call has fewer such moments; then it isn't interrupted.
    """
    files = {module.__file__ for module in modules}
    entered = moments = 0
    before: dict[FrameType, tuple[bool, int]] = {}

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal entered, moments
        entered += event == "call"
        if frame.f_code.co_filename not in files:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            handles, entered_then = before.get(frame, (frame.f_code.co_name != "__exit__", entered))
            name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            before[frame] = name.startswith(_HANDLING), entered
            if handles and entered == entered_then:
                moments += 1
                if moments == at:
                    raise KeyboardInterrupt
        return trace

    tracer = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12's first releases look for one before they trace instructions
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(tracer)
        before.clear()  # frames, and so what was interrupted, end here
    return False
