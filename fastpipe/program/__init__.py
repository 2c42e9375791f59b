"""Programs: all that is done to one image, lowered from drawn operations and run to its pixels."""

from fastpipe.program.core_job import Encoded
from fastpipe.program.execute import execute
from fastpipe.program.lower import lower, needed
from fastpipe.program.on_image import run_on_image, run_operation, run_steps, shape_of, to_pil
from fastpipe.program.program import Program, Views, in_words, steps_in_words

__all__ = [
    "Encoded",
    "Program",
    "Views",
    "execute",
    "in_words",
    "lower",
    "needed",
    "run_on_image",
    "run_operation",
    "run_steps",
    "shape_of",
    "steps_in_words",
    "to_pil",
]
