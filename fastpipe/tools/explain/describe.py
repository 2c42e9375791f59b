"""`explain`: describes what of a transform or dataset runs where, what is exact, and what isn't planned."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from fastpipe import readers
from fastpipe.counts import pluralize
from fastpipe.datasets.image_array import ImageArray
from fastpipe.datasets.joint import JointDataset
from fastpipe.errors import PlanError
from fastpipe.interop.graph_breaks import diagnose, drawn_by_library, named_with_library, one_line
from fastpipe.ops import ToPlanarTensor, contracts_of
from fastpipe.program.lower import lower
from fastpipe.program.program import Program, Views, steps_in_words
from fastpipe.rng import keyed_generators, preserved_globals
from fastpipe.tools.explain.result import ExplainedStep, Explanation
from fastpipe.tools.explain.subject import Subject, loaded_by, path_of, shape_in_memory, subject_of
from fastpipe.transforms.compose_plan import pipelines_of
from fastpipe.transforms.pipeline import Pipeline, compile_pipeline, flatten
from fastpipe.types import Header, ImageShape, Step

_SHAPE = ImageShape(375, 500)
_FILES = 16  # the number of files whose headers are read
_MADE = "an image of"


@preserved_globals()
def explain(subject: object, *, shape: tuple[int, int] | ImageShape | None = None) -> Explanation:
    """Explains what runs where for a transform, a dataset or a loader; ``print`` the result.

    The example is drawn from separate generators; the state of the global ones doesn't change.

    Args:
        subject: anything that `fastpipe.convert` takes or returns: a transform; a dataset with a transform in any
            attribute; a loader; a ``Subset`` or ``ConcatDataset`` (its first dataset is explained, the others in
            notes).
        shape: the image size of the example; None for that of a dataset's first image, or 375×500.

    Raises:
        PlanError: the shape is none, an image of it can't be transformed (such as for a larger crop), or the subject is
            no transform.
    """
    found, shape = subject_of(subject), _checked(shape)
    explanation = _explained_subject(found, shape)
    others = [(name, _explained_subject(subject_of(other), shape)) for name, other in found.others]
    return replace(explanation, notes=(*explanation.notes, *_about_others(explanation, others)))


def _checked(shape: Sequence[int] | None) -> ImageShape | None:
    """The height and width of an example; raises PlanError if they are none."""
    if shape is None:
        return None
    try:
        height, width, *_ = map(operator.index, shape)
    except (TypeError, ValueError):
        height = width = 0
    if min(height, width) < 1:
        raise PlanError(f"shape={shape!r:.80}: give height and width in pixels, such as (375, 500).")
    return ImageShape(height, width)


def _explained_subject(found: Subject, shape: ImageShape | None) -> Explanation:
    subject = found.transform if found.dataset is None else found.dataset
    is_dataset, transform = found.dataset is not None, found.transform
    joint = found.dataset._fastpipe_joint if isinstance(found.dataset, JointDataset) else None
    loading, own_code = (loaded_by(subject) if is_dataset else None) or ("", None)
    pipeline = compile_pipeline(transform, v2_alone=joint is not None)
    if loading:  # the dataset's code loads images, and each transform is called with one
        pipeline, joint = Pipeline((), tuple(flatten(transform))), None
    headers, example = _examples(subject if is_dataset else None, shape)
    size = ImageShape(headers[0].height, headers[0].width)
    try:
        generators = keyed_generators(0)
        recipe = pipeline.draw(size, generators) if joint is None else subject.recipe(0, generators=generators)
    except ValueError as error:
        what = f"an image of {size.height}×{size.width} can't be transformed"
        raise PlanError(f"{what}: {error}. Give another shape.") from error
    program = lower(recipe.steps, recipe.shape)
    box = program.box
    by_library = drawn_by_library(pipeline.unplanned[0]) if pipeline.unplanned and not loading else ()
    if isinstance(subject, ImageArray):
        loading = f"nothing: {type(subject).__name__} has its images in memory"
    notes: tuple[str, ...] = ()
    has_files = hasattr(subject, "sample") and not isinstance(subject, ImageArray)
    if is_dataset and shape is None and has_files and example.startswith(_MADE):
        notes = (f"no file's header could be read, of up to {_FILES} that were tried: `fastpipe check` says why",)
    runs = pipelines_of(pipeline.unplanned, v2_alone=joint is not None)
    return Explanation(
        subject=_named(found, pipeline),
        example=example,
        shape=size.size,
        drawn=tuple(map(named_with_library, (*pipeline.drawn, *by_library))),
        recipe=tuple(steps_in_words(recipe.steps)),
        box=box,
        share=box.height * box.width / max(1, size.height * size.width),
        decoders=() if loading else _decoders(subject, headers, program),
        steps=tuple(_explained(program.all_steps)),
        batch=_about_batches(program, pipeline, own_code is not None, joint is not None),
        broken_by=own_code or (diagnose(pipeline.unplanned[0]) if pipeline.unplanned else None),
        rest=tuple(map(one_line, pipeline.unplanned)),
        called=tuple(one_line(run.unplanned[0]) for run in runs if run.unplanned),
        notes=notes,
        loaded_by=loading,
    )


def _named(found: Subject, pipeline: Pipeline) -> str:
    count = len(pipeline.drawn) + len(pipeline.unplanned)
    transforms = f"{count} transform{'' if count == 1 else 's'}"
    if found.dataset is None:
        return " of ".join((*found.around, transforms))
    root = getattr(found.dataset, "root", None)
    names = [*found.around, type(found.dataset).__name__, *([] if root is None else [str(root)])]
    if found.attribute not in ("", "transform", "transforms"):
        transforms += f" in {found.attribute}"
    return f"{' of '.join(names)}, {transforms}"


def _about_others(first: Explanation, others: Sequence[tuple[str, Explanation]]) -> Iterator[str]:
    """Yields a line for each other dataset: whether its plan is the same as the explained one's."""
    for name, other in others:
        if (other.drawn, other.rest, other.loaded_by) == (first.drawn, first.rest, first.loaded_by):
            yield f"{name}, {other.subject}: planned as this one"
        elif other.broken_by is None:
            yield f"{name}, {other.subject}: all of another transform is planned"
        else:
            yield f"{name}, {other.subject}: {other.broken_by.transform} isn't planned: {other.broken_by.reason}"


def _examples(dataset: Any, shape: ImageShape | None) -> tuple[list[Header], str]:
    """Returns the headers for which to show the decoding, the example's first, and the example's name."""
    if shape is None and dataset is not None:
        try:
            length = len(dataset)
        except (NotImplementedError, TypeError):  # torchvision's base class
            length = 0
        places = dict.fromkeys(number * length // _FILES for number in range(_FILES))
        examples = [one for place in places if place < length and (one := _example(dataset, place)) is not None]
        if examples:
            return [header for header, _ in examples], examples[0][1]
    in_memory = None if dataset is None else shape_in_memory(dataset)
    height, width, *_ = shape or in_memory or _SHAPE
    headers = [_made_header(format, height, width) for format in ("JPEG", "PNG", "WEBP")]
    return headers, f"{_MADE} {height}×{width}"


def _example(dataset: object, index: int) -> tuple[Header, str] | None:
    """The header of a dataset's file after the EXIF turn, and the file's name; None if it can't be read."""
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


def _decoders(subject: object, headers: Sequence[Header], program: Program) -> tuple[tuple[str, str], ...]:
    """The readers of each format, and what they decode; with counts if files of a format differ."""
    by_format: dict[str, Counter[str]] = {}
    for header in headers:
        unusual = "" if header.plain else f" ({header.color_space}, {header.bit_depth} bits)"
        by_format.setdefault(header.format + unusual, Counter())[_decoder(subject, header, program)] += 1
    return tuple((format, _counted(how)) for format, how in by_format.items())


def _counted(how: Counter[str]) -> str:
    if len(how) == 1:
        return next(iter(how))
    return "; ".join(f"{text} ({count} of {pluralize(how.total(), 'file')})" for text, count in how.most_common())


def _decoder(subject: object, header: Header, program: Program) -> str:
    """Names the reader for a file, and how much of the image it decodes."""
    reader = readers.choose(header, getattr(subject, "reader", None), getattr(subject, "config", None))
    text = str(reader.name)
    if program.region is None:
        return f"{text}, the whole image"
    if reader.name != "core":
        return f"{text} decodes the whole image, and the region is cut out of it"
    return f"{text} decodes the region alone"


def _explained(steps: Sequence[Step], place: str = "") -> Iterator[ExplainedStep]:
    """Explains each step; for several views of an image, the steps of each view, with its number."""
    for step in steps:
        if isinstance(step, Views):
            for number, inner in enumerate(step.views, 1):
                yield from _explained(inner, f"view {number}: ")
        else:
            contracts = contracts_of(step)
            promise = "; ".join(contract.text for contract in contracts)
            yield ExplainedStep(f"{place}{step}", contracts[0].name, promise)


def _about_batches(program: Program, pipeline: Pipeline, is_foreign: bool, is_joint: bool) -> str:
    if is_foreign:
        return "samples are made one by one and collated, as the dataset's own code makes them"
    if is_joint:
        return "samples are made one by one and collated, as image and targets belong together"
    if pipeline.unplanned:
        return "samples are made one by one and collated, as a transform that isn't known is called with each image"
    names = [getattr(step, "op", "") for step in program.after]
    if program.conversion is None or not all(name in ("erase", "normalize") for name in names):
        return "samples are made one by one and collated, as the transform doesn't end in one tensor"
    text = "fastpipe.DataLoader has each image converted straight into its place in the batch"
    if names or isinstance(program.conversion, ToPlanarTensor):
        return text
    return text + "; with device=, batches travel as uint8 and are made float there"
