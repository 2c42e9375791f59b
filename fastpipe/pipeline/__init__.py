"""A transform compiled into draw (sizes → recipe) and run (bytes + recipe → pixels)."""

from fastpipe.pipeline.compile import Pipeline, compile_pipeline, flatten
from fastpipe.pipeline.explanation import explain
from fastpipe.pipeline.plan import DecodePlan, Fidelity, plan_decode
from fastpipe.pipeline.run import run, to_pil

__all__ = [
    "DecodePlan",
    "Fidelity",
    "Pipeline",
    "compile_pipeline",
    "explain",
    "flatten",
    "plan_decode",
    "run",
    "to_pil",
]
