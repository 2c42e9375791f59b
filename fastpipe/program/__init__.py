"""A transform compiled into draw (sizes → recipe) and run (bytes + recipe → pixels)."""

from fastpipe.program.batch import (
    BatchBuilder,
    BatchOptions,
    ImageBatch,
    batch_bytes,
    batch_memory,
)
from fastpipe.program.compile import Pipeline, compile_pipeline, flatten
from fastpipe.program.epochs import SharedEpoch
from fastpipe.program.execute import Encoded, execute, to_pil
from fastpipe.program.explanation import explain
from fastpipe.program.laps import lap, listen
from fastpipe.program.lots import Lot
from fastpipe.program.lower import lower, needed
from fastpipe.program.program import Fidelity, Program, Views, in_words, steps_in_words
from fastpipe.program.shared_memory import shared_memory_room, too_small
from fastpipe.program.slots import Slots
from fastpipe.program.straight import cropped_whole
from fastpipe.program.together import (
    Started,
    Work,
    done_with,
    end_threads,
    pool_of,
    read_together,
    run_together,
    start_together,
    works_together,
)
from fastpipe.program.views import MultiView

__all__ = [
    "BatchBuilder",
    "BatchOptions",
    "Encoded",
    "Fidelity",
    "ImageBatch",
    "Lot",
    "MultiView",
    "Pipeline",
    "Program",
    "SharedEpoch",
    "Slots",
    "Started",
    "Views",
    "Work",
    "batch_bytes",
    "batch_memory",
    "compile_pipeline",
    "cropped_whole",
    "done_with",
    "end_threads",
    "execute",
    "explain",
    "flatten",
    "in_words",
    "lap",
    "listen",
    "lower",
    "needed",
    "pool_of",
    "read_together",
    "run_together",
    "shared_memory_room",
    "start_together",
    "steps_in_words",
    "to_pil",
    "too_small",
    "works_together",
]
