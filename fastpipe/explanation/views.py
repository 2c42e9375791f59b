"""`MultiView` with foreign members, in words: what of each view is planned, and what runs as it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastpipe.transforms.image_call import ImageCall
from fastpipe.transforms.multi_view import MultiView
from fastpipe.transforms.pipeline import Pipeline


def views_in_words(pipeline: Pipeline) -> tuple[str, ...]:
    """A line for each view of a `MultiView` that ends a pipeline's plan; none if nothing of them is planned."""
    if not pipeline.rest or not isinstance(pipeline.rest[0], MultiView):
        return ()
    views: Any = pipeline.rest[0]
    calls = [ImageCall([transform]) for transform in views.transforms]
    if not any(call.draws for call in calls):
        return ()
    return tuple(_lines(calls, views.counts))


def _lines(calls: list[ImageCall], counts: list[int]) -> Iterator[str]:
    first = 1
    for call, count in zip(calls, counts, strict=True):
        name = f"view {first}" if count == 1 else f"views {first} to {first + count - 1}"
        first += count
        yield f"{name}: " + ", then ".join(
            f"{', '.join(type(one).__name__ for one in run.transforms)} planned"
            if run.pipeline is not None
            else f"{_name(run.transforms[0])} as it is"
            for run in call.runs
        )


def _name(transform: Any) -> str:
    return str(getattr(transform, "__qualname__", type(transform).__name__))
