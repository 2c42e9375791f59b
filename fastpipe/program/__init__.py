"""A transform compiled into draw (sizes → recipe) and run (bytes + recipe → pixels)."""

from fastpipe.program.batch import BatchBuilder, BatchSpec, ImageBatch, batch_bytes, batch_memory
from fastpipe.program.compile import Pipeline, compile_pipeline, flatten
from fastpipe.program.core_run import CoreRun, Workspace, end_threads, workspace
from fastpipe.program.epochs import SharedEpoch
from fastpipe.program.execute import execute, to_pil
from fastpipe.program.executor import BatchExecutor, PendingBatch
from fastpipe.program.image_stages import DecodeOptions, ImageStages, upright
from fastpipe.program.lower import lower, needed
from fastpipe.program.profiling import mark, profile
from fastpipe.program.program import Fidelity, Program, Views, in_words, steps_in_words
from fastpipe.program.shared_memory import shared_memory_room, too_small
from fastpipe.program.shm_pool import Slots
from fastpipe.program.tasks import Encoded, SampleTask
from fastpipe.program.views import MultiView

__all__ = [
    "BatchBuilder",
    "BatchExecutor",
    "BatchSpec",
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
    "Views",
    "Workspace",
    "batch_bytes",
    "batch_memory",
    "compile_pipeline",
    "end_threads",
    "execute",
    "flatten",
    "in_words",
    "lower",
    "mark",
    "needed",
    "profile",
    "shared_memory_room",
    "steps_in_words",
    "to_pil",
    "too_small",
    "upright",
    "workspace",
]
