"""A transform compiled into draw (sizes → recipe) and run (bytes + recipe → pixels)."""

from fastpipe.pipeline.batch import (
    BatchBuilder,
    BatchOptions,
    ImageBatch,
    batch_bytes,
    request_batches,
    requested_batches,
)
from fastpipe.pipeline.compile import Pipeline, compile_pipeline, flatten
from fastpipe.pipeline.explanation import explain
from fastpipe.pipeline.laps import lap, listen
from fastpipe.pipeline.plan import DecodePlan, Fidelity, plan_decode
from fastpipe.pipeline.run import run, run_plan, to_pil
from fastpipe.pipeline.seeding import SharedEpoch, copied_generators, keyed_generators, keyed_globals, sample_key
from fastpipe.pipeline.shared_memory import shared_memory_room, too_small
from fastpipe.pipeline.slots import Slots
from fastpipe.pipeline.views import MultiView

__all__ = [
    "BatchBuilder",
    "BatchOptions",
    "DecodePlan",
    "Fidelity",
    "ImageBatch",
    "MultiView",
    "Pipeline",
    "SharedEpoch",
    "Slots",
    "batch_bytes",
    "compile_pipeline",
    "copied_generators",
    "explain",
    "flatten",
    "keyed_generators",
    "keyed_globals",
    "lap",
    "listen",
    "plan_decode",
    "request_batches",
    "requested_batches",
    "run",
    "run_plan",
    "sample_key",
    "shared_memory_room",
    "to_pil",
    "too_small",
]
