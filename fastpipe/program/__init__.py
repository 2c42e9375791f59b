"""A transform compiled into draw (sizes → recipe) and run (bytes + recipe → pixels)."""

from fastpipe.program.batch import BatchBuilder, BatchOptions, ImageBatch, batch_bytes, batch_memory
from fastpipe.program.compile import Pipeline, compile_pipeline, flatten
from fastpipe.program.core_run import CoreRun, end_threads, runs_in_core, workspace
from fastpipe.program.execute import Encoded, execute, to_pil
from fastpipe.program.executor import BatchExecutor, PendingBatch
from fastpipe.program.explanation import explain
from fastpipe.program.image_stages import DecodeOptions, ImageStages, upright
from fastpipe.program.lower import lower, needed
from fastpipe.program.profiling import mark, profile
from fastpipe.program.program import Fidelity, Program, Views, in_words, steps_in_words
from fastpipe.program.seeding import (
    SharedEpoch,
    copied_generators,
    drawing,
    keyed_generators,
    keyed_globals,
    sample_key,
    sample_keys,
)
from fastpipe.program.shared_memory import shared_memory_room, too_small
from fastpipe.program.slots import Slots
from fastpipe.program.streams import Streams, StreamState
from fastpipe.program.tasks import SampleTask
from fastpipe.program.views import MultiView

__all__ = [
    "BatchBuilder",
    "BatchExecutor",
    "BatchOptions",
    "CoreRun",
    "DecodeOptions",
    "Encoded",
    "Fidelity",
    "ImageBatch",
    "ImageStages",
    "MultiView",
    "PendingBatch",
    "Pipeline",
    "Program",
    "SampleTask",
    "SharedEpoch",
    "Slots",
    "StreamState",
    "Streams",
    "Views",
    "batch_bytes",
    "batch_memory",
    "compile_pipeline",
    "copied_generators",
    "drawing",
    "end_threads",
    "execute",
    "explain",
    "flatten",
    "in_words",
    "keyed_generators",
    "keyed_globals",
    "lower",
    "mark",
    "needed",
    "profile",
    "runs_in_core",
    "sample_key",
    "sample_keys",
    "shared_memory_room",
    "steps_in_words",
    "to_pil",
    "too_small",
    "upright",
    "workspace",
]
