"""`explain`: what of a transform or dataset is decided where, what is exact, and what breaks the plan."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, get_args

from fastpipe import core, readers
from fastpipe.datasets.image_array import ImageArray
from fastpipe.errors import PlanError
from fastpipe.explanation.foreign_loading import foreign_loading, path_of, shape_in_memory
from fastpipe.explanation.graph_breaks import GraphBreak, diagnose, drawn_by_library, named_with_library, one_line
from fastpipe.explanation.result import ExplainedStep, Explanation
from fastpipe.explanation.subject import Subject, subject_of
from fastpipe.ops import Operation, ToPlanarTensor, contracts_of
from fastpipe.program.lower import lower
from fastpipe.program.program import Fidelity, Program, Views, steps_in_words
from fastpipe.rng import keyed_generators, preserved_globals
from fastpipe.transforms._base import drawable
from fastpipe.transforms.image_call import ImageCall
from fastpipe.transforms.multi_view import MultiView
from fastpipe.transforms.pipeline import Pipeline, compile_pipeline, flatten
from fastpipe.types import Header, ImageShape, Recipe, Step

_SHAPE = ImageShape(375, 500)
_FILES = 16  # whose headers are read
_MADE = "an image of"
_TO_TENSOR = frozenset({"PILToTensor", "ToTensor"})


@preserved_globals()
def explain(subject: Any, *, shape: ImageShape | None = None, fidelity: Fidelity | None = None) -> Explanation:
    """Explains what runs where for a transform, a data set or a loader; ``print`` it.

    The example is drawn from generators of its own: the global ones don't move.

    Args:
        subject: what `fastpipe.convert` takes, and what it gives: a transform, a data set with one, whatever its
            attribute is called, a loader, a ``Subset`` or ``ConcatDataset`` (whose first data set is explained, and in
            a note each other one).
        shape: the image size to show the plan for; None takes a dataset's first image, or 375×500.
        fidelity: ``"torchvision"`` or ``"fast"``; None takes the dataset's, or ``"torchvision"``.

    Raises:
        ValueError: another fidelity.
        PlanError: an image of that shape can't be transformed (a crop is larger, …), or the subject is no transform.
    """
    if fidelity not in (None, *get_args(Fidelity)):
        raise ValueError(f"fidelity={fidelity!r}: choose one of {', '.join(map(repr, get_args(Fidelity)))}.")
    found = subject_of(subject)
    explanation = _explained_subject(found, shape, fidelity)
    others = [(name, _explained_subject(subject_of(other), shape, fidelity)) for name, other in found.others]
    return replace(explanation, notes=(*explanation.notes, *_about_others(explanation, others)))


def _explained_subject(found: Subject, shape: ImageShape | None, fidelity: Fidelity | None) -> Explanation:
    subject = found.transform if found.dataset is None else found.dataset
    is_dataset, transform = found.dataset is not None, found.transform
    joint = getattr(found.dataset, "_fastpipe_joint", None)
    chosen: Fidelity = getattr(subject, "fidelity", "torchvision") if fidelity is None else fidelity
    foreign = foreign_loading(subject) if is_dataset else None
    pipeline = compile_pipeline(transform, v2_alone=joint is not None)
    if foreign is not None and foreign.decode:  # each transform is called with an image that is there
        pipeline, joint = Pipeline((), tuple(flatten(transform))), None
    headers, example = _examples(subject if is_dataset else None, shape)
    size = ImageShape(headers[0].height, headers[0].width)
    try:
        generators = keyed_generators(0)
        recipe = pipeline.example(size, generators) if joint is None else subject.recipe(0, generators=generators)
    except PlanError:
        if joint is not None or not pipeline.may_want_pixels:
            raise
        pipeline = Pipeline((), tuple(flatten(transform)))  # as such an image is made
        recipe = pipeline.draw(size, generators)
    except ValueError as error:
        what = f"an image of {size.height}×{size.width} can't be transformed"
        raise PlanError(f"{what}: {error}. Give another shape.") from error
    program = lower(recipe.steps, recipe.shape, chosen)
    box = program.box
    loaded_by = foreign.decode if foreign else ""
    by_library = drawn_by_library(pipeline.rest[0]) if pipeline.rest and not loaded_by else ()
    if isinstance(subject, ImageArray):
        loaded_by = f"nothing: {type(subject).__name__} has its images in memory"
    # The dataset's Python code, as `ImageDataset.in_python` has it; empty where there is none.
    in_python = str(getattr(subject, "in_python", "") or (foreign.ends.transform if foreign else ""))
    views = notes = _about_views(pipeline)
    has_files = hasattr(subject, "sample") and not isinstance(subject, ImageArray)
    if is_dataset and shape is None and has_files and example.startswith(_MADE):
        notes += (f"no file's header could be read, of up to {_FILES} that were tried: `fastpipe check` says why",)
    return Explanation(
        subject=_named(found, pipeline),
        fidelity=chosen,
        example=example,
        shape=(size.height, size.width),
        drawn=tuple(map(named_with_library, (*pipeline.drawn, *by_library))),
        recipe=tuple(steps_in_words(recipe.steps)),
        box=(box.top, box.left, box.height, box.width),
        share=box.height * box.width / max(1, size.height * size.width),
        scale=program.request.scale,
        why_whole=_why_whole(recipe, program, pipeline, by_library, bool(views), bool(loaded_by)),
        decoders=() if loaded_by else _decoders(subject, headers, program),
        steps=tuple(_explained(program.all_steps)),
        batch=_about_batches(program, pipeline, foreign is not None, joint is not None),
        serve=_about_serving(program, pipeline, in_python, joint is not None),
        broken_by=foreign.ends if foreign else _diagnosed(pipeline),
        rest=tuple(map(one_line, pipeline.rest)),
        notes=notes,
        loaded_by=loaded_by,
    )


def _named(found: Subject, pipeline: Pipeline) -> str:
    count = len(pipeline.drawn) + len(pipeline.rest)
    transforms = f"{count} transform{'' if count == 1 else 's'}"
    if found.dataset is None:
        return " of ".join((*found.around, transforms))
    root = getattr(found.dataset, "root", None)
    names = [*found.around, type(found.dataset).__name__, *([] if root is None else [str(root)])]
    if found.attribute not in ("", "transform", "transforms"):
        transforms += f" in {found.attribute}"
    return f"{' of '.join(names)}, {transforms}"


def _about_others(first: Explanation, others: Sequence[tuple[str, Explanation]]) -> Iterator[str]:
    """A line for each data set beside the one that is explained: whether its plan is the same."""
    for name, other in others:
        if (other.drawn, other.rest, other.loaded_by) == (first.drawn, first.rest, first.loaded_by):
            yield f"{name}, {other.subject}: planned as this one"
        elif other.broken_by is None:
            yield f"{name}, {other.subject}: all of another transform is planned"
        else:
            yield f"{name}, {other.subject}: {other.broken_by.transform} ends the plan, {other.broken_by.reason}"


def _examples(dataset: Any, shape: ImageShape | None) -> tuple[list[Header], str]:
    """The headers to show the decoding for, the first one being the example's, and the example's name."""
    if shape is None and dataset is not None:
        try:
            length = len(dataset)
        except (NotImplementedError, TypeError):  # torchvision's base class
            length = 0
        places = dict.fromkeys(number * length // _FILES for number in range(_FILES))
        found = [one for place in places if place < length and (one := _example(dataset, place)) is not None]
        if found:
            return [header for header, _ in found], found[0][1]
    in_memory = None if dataset is None else shape_in_memory(dataset)
    height, width, *_ = shape or in_memory or _SHAPE
    made = [_made_header(format, height, width) for format in ("JPEG", "PNG", "WEBP")]
    return made, f"{_MADE} {height}×{width}"


def _example(dataset: Any, index: int) -> tuple[Header, str] | None:
    """The header of a dataset's file, as the dataset turns it, and the file's name; None where it can't be read."""
    try:
        path = path_of(dataset, index)
        if path is None:
            return None
        header = readers.read_header(path)
    except (OSError, ValueError, IndexError):
        return None
    if getattr(dataset, "apply_exif", False) and header.orientation >= 5:
        return _made_header("JPEG", header.width, header.height), f"{path} (turned upright)"
    return header, path


def _made_header(format: str, height: int, width: int) -> Header:
    ycc = format != "PNG"
    return Header(
        format, height, width, 3, 8, "YCbCr" if ycc else "RGB", subsampling="4:2:0" if ycc else None, plain=True
    )


def _decoders(subject: Any, headers: Sequence[Header], program: Program) -> tuple[tuple[str, str], ...]:
    """The readers of each format, and what they decode; with counts where files of one format differ."""
    found: dict[str, Counter[str]] = {}
    for header in headers:
        unusual = "" if header.plain else f" ({header.color_space}, {header.bit_depth} bits)"
        found.setdefault(header.format + unusual, Counter())[_decoder(subject, header, program)] += 1
    return tuple((format, _counted(how)) for format, how in found.items())


def _counted(how: Counter[str]) -> str:
    if len(how) == 1:
        return next(iter(how))
    return "; ".join(f"{text} ({count} of {how.total()} files)" for text, count in how.most_common())


def _decoder(subject: Any, header: Header, program: Program) -> str:
    """The reader that decodes such a file, and how much of it."""
    reader = readers.choose(header, program.request, getattr(subject, "reader", None), getattr(subject, "config", None))
    got = reader.resolve(header, program.request)
    text = str(reader.name)
    if got.scale > 1:
        text += f" at 1/{got.scale}"
    if program.request.box is None:
        return f"{text}, the whole image"
    if not reader.capabilities.regions:
        return f"{text} decodes the whole image, and the region is cut out of it"
    return f"{text} decodes the region alone"


def _why_whole(
    recipe: Recipe, program: Program, pipeline: Pipeline, by_library: Sequence[Any], of_views: bool, is_loaded: bool
) -> str:
    if by_library:
        library = ", ".join(type(member).__name__ for member in by_library)
        return f"of it what {library} needs, which differs from sample to sample, is decoded alone"
    if program.request.box is not None or is_loaded:
        return ""
    if of_views:
        return "of it each view's part alone, or the whole once, whichever is less work"
    late = next((type(member).__name__ for member in pipeline.rest if "Crop" in type(member).__name__), "")
    names = [getattr(step, "op", "") for step in recipe.steps]
    crop = next((number for number, name in enumerate(names) if name in ("crop", "center_crop")), None)
    if crop is not None:
        holder = next((name for name in names[:crop] if name not in ("hflip", "vflip", "pad", "resize")), None)
        if holder is not None:
            return f"the whole image, as {holder} comes before the crop: crop first where that will do"
        return "the whole image, as this crop takes all of it or reaches beyond it"
    if late:
        return f"the whole image, as {late} isn't part of the plan"
    return f"the whole image, as nothing {'in the plan ' if pipeline.rest else ''}crops it"


def _explained(steps: Sequence[Step], place: str = "") -> Iterator[ExplainedStep]:
    """Explains each step; for several views of an image those of each view, with its number."""
    for step in steps:
        if isinstance(step, Views):
            for number, inner in enumerate(step.views, 1):
                yield from _explained(inner, f"view {number}: ")
        else:
            found = contracts_of(step)
            promise = "; ".join(contract.text for contract in found)
            yield ExplainedStep(f"{place}{step}", found[0].name, promise)


def _about_batches(program: Program, pipeline: Pipeline, is_foreign: bool, is_joint: bool) -> str:
    if is_foreign:
        return "samples are made one by one and collated, as the dataset's own code makes them"
    if is_joint:
        return "samples are made one by one and collated, as image and targets belong together"
    if pipeline.rest:
        return "samples are made one by one and stacked, as the end of the transform isn't planned"
    behind = [getattr(step, "op", "") for step in program.after]
    if program.conversion is None or not all(name in ("erase", "normalize") for name in behind):
        return "samples are made one by one and collated, as the transform doesn't end in one tensor"
    text = "fastpipe.DataLoader has each image converted straight into its place in the batch"
    if behind or isinstance(program.conversion, ToPlanarTensor):
        return text
    return text + "; with device=, batches travel as uint8 and are made float there"


def _diagnosed(pipeline: Pipeline) -> GraphBreak | None:
    """The reason that ends the plan; the advice also names what could be planned if it stood in front."""
    if not pipeline.rest:
        return None
    first, *behind = pipeline.rest
    found = diagnose(first)
    of_images = itertools.takewhile(lambda member: type(member).__name__ not in _TO_TENSOR, behind)
    late = [type(member).__name__ for member in of_images if drawable(member)]
    if not late:
        return found
    return replace(found, advice=(*found.advice, f"where the order doesn't matter, put it behind {', '.join(late)}"))


def _about_serving(program: Program, pipeline: Pipeline, in_python: str, is_joint: bool) -> str:
    """Whether threads or worker processes serve a program better; `in_python` names a dataset's Python code."""
    if pipeline.rest and not in_python:
        in_python = one_line(pipeline.rest[0]).partition("(")[0]
    if in_python:
        return (
            f"worker processes, num_workers=N: {in_python} is Python code, which holds the interpreter's lock, so that "
            "threads wait"
        )
    step = "targets are transformed with the image" if is_joint else _beyond_core(program)
    if step:
        return (
            f"threads on few CPUs, worker processes on many, as fastpipe.tune measures: {step}, so that Python has a "
            "part in each image, one at a time"
        )
    return (
        'threads, fastpipe.DataLoader(num_workers=1, threads="auto"): the core makes the whole image, without the '
        "interpreter's lock"
    )


def _beyond_core(program: Program) -> str:
    """The part of a program that the core doesn't do; empty where it does all."""
    if not core.available():
        return "there is no core here"
    if program.conversion is None:
        return "the transform doesn't end in one tensor"
    if program.request.scale != 1:
        return "reduced sizes aren't the core's"
    job, shape = core.Batch(1)[0], ImageShape(*program.box.size, program.shape.channels)
    missing = program.after[:1]
    for step in program.steps:
        job.clear()
        if not isinstance(step, Operation) or not step.to_core(job, shape):
            missing = (step,)
            break
        shape = step.output_shape(shape)
    return f"the core has no {str(missing[0]).partition('(')[0]}" if missing else ""


def _about_views(pipeline: Pipeline) -> tuple[str, ...]:
    """A line for each view of a `MultiView` that ends a pipeline's plan; none if nothing of them is planned."""
    views: Any = pipeline.rest[0] if pipeline.rest else None
    if not isinstance(views, MultiView):
        return ()
    calls = [ImageCall([transform]) for transform in views.transforms]
    if not any(call.draws for call in calls):
        return ()
    lines = []
    last = 0
    for call, count in zip(calls, views.counts, strict=True):
        first, last = last + 1, last + count
        name = f"view {first}" if count == 1 else f"views {first} to {last}"
        parts = (
            f"{', '.join(type(one).__name__ for one in run.drawn)} planned"
            if run.drawn
            else f"{getattr(run.rest[0], '__qualname__', type(run.rest[0]).__name__)} as it is"
            for run in call.runs
        )
        lines.append(f"{name}: {', then '.join(parts)}")
    return tuple(lines)
