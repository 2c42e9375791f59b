"""A transform compiled into draw (sizes → recipe) and run (bytes + recipe → pixels)."""

from fastpipe.pipeline.compile import Pipeline, compile_pipeline, flatten
from fastpipe.pipeline.explanation import explain
from fastpipe.pipeline.plan import DecodePlan, Fidelity, plan_decode
from fastpipe.pipeline.run import run, to_pil
from fastpipe.pipeline.seeding import SharedEpoch, copied_generators, keyed_generators, keyed_globals, sample_key

__all__ = [
    "DecodePlan",
    "Fidelity",
    "Pipeline",
    "SharedEpoch",
    "compile_pipeline",
    "copied_generators",
    "explain",
    "flatten",
    "keyed_generators",
    "keyed_globals",
    "plan_decode",
    "run",
    "sample_key",
    "to_pil",
]
