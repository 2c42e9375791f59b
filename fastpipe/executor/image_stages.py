"""The stages of images: files to tensors by a compiled transform, or to PIL images for what can't be compiled."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from torch.utils.data import get_worker_info

from fastpipe import core, readers
from fastpipe.config import MachineConfig
from fastpipe.core import ThreadResources
from fastpipe.core.packed import PACKED_FORMAT
from fastpipe.errors import PlanError
from fastpipe.executor.batch import BatchBuilder, BatchSpec
from fastpipe.executor.core_run import CoreRun, SlotAllocator
from fastpipe.executor.tasks import FailurePolicy, SampleTask
from fastpipe.kernels import memory
from fastpipe.ops import TensorConversion
from fastpipe.pillow.lazy_image import LazyImage, load_images, source_of
from fastpipe.pillow.lazy_source import LazySource
from fastpipe.program.core_job import Encoded, add_program, claimed_by_core
from fastpipe.program.execute import execute
from fastpipe.program.lower import lower
from fastpipe.program.on_image import DIRECT, finish_tensor
from fastpipe.program.program import Program
from fastpipe.readers.partial import PartialFile, fetch_images, fetch_rows
from fastpipe.rng import as_globals, drawing, keyed_generators, keyed_globals
from fastpipe.sources import fetch_files
from fastpipe.transforms.albumentations_targets import named_call_of, reseed
from fastpipe.transforms.compose_plan import pipelines_of, run_one
from fastpipe.transforms.pipeline import FixedSteps, Pipeline
from fastpipe.types import Generators, Header, ImageShape, Recipe, RemoteFile, new_namedtuple

_FORMATS = ("JPEG", "PNG", PACKED_FORMAT)


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """Options of decoding files.

    Attributes:
        reader: a reader's name; None for the config's choice.
        config: the machine's config; None for the current one.
        apply_exif: turn each image upright by its EXIF orientation.
        max_pixels: what an image may have, as `fastpipe.readers.read_image` says.
    """

    reader: str | None = None
    config: MachineConfig | None = None
    apply_exif: bool = False
    max_pixels: readers.MaxPixels = "auto"


def upright(header: Header, orientation: int) -> ImageShape:
    """The shape of an image that is turned by its EXIF orientation."""
    return ImageShape(header.width, header.height) if orientation >= 5 else ImageShape(header.height, header.width)


class ImageStages:
    """The stages of images, each with a target of its own; for other samples a class derives from it.

    Threads may call `make` while another batch is read and drawn: it draws nothing.

    Args:
        pipeline: the compiled transform.
        options: how files are decoded.
        policy: is told of tasks that fail.
        target_transform: takes the target; None for none.
        loader: the user's own, which takes a path and gives an image: nothing is planned. None for fastpipe's readers.
        generators: what is drawn from where a task has no key; None for the global generators.
        seeded: tasks have keys.
        out: the tensor that batches are made in; None for new ones.
        shared: new ones are in shared memory, for another process; None for: where a loader's worker makes them.

    Attributes:
        compiled: the transform that these were made for.
        pipeline: the same, but that nothing is planned for a loader of the user's.
        one_by_one: a sample has to be finished before the next one is drawn: its transforms may draw from the same
            generators.
    """

    finishes_in_python = False
    """`make` has something to do even where the core does all steps of a program."""

    def __init__(
        self,
        pipeline: Pipeline,
        options: DecodeOptions,
        policy: FailurePolicy,
        target_transform: Callable[[Any], object] | None = None,
        *,
        loader: Callable[[str], object] | None = None,
        generators: Generators | None = None,
        seeded: bool = False,
        out: torch.Tensor | None = None,
        shared: bool | None = None,
    ) -> None:
        self.compiled = pipeline
        self.pipeline = pipeline if loader is None else Pipeline((), (*pipeline.drawn, *pipeline.unplanned))
        self.options = options
        self.policy = policy
        self.target_transform = target_transform
        self.loader = loader
        self.generators = generators
        self.one_by_one = bool(self.pipeline.unplanned) and not seeded
        rest = self.pipeline.unplanned
        self._rest_runs = tuple(pipelines_of(rest))
        self._takes_source = bool(rest) and named_call_of(rest[0]) is not None  # which needs no PIL image
        self._seeded = seeded
        self._out, self._shared = out, shared
        self._for_core: dict[tuple[object, ...], bool] = {}  # by what a choice depends on
        self._alone = _Sinks(None)  # of images that aren't in a batch's tensor

    def places(self, count: int, options: BatchSpec) -> SlotAllocator | None:
        """Places for a batch in one tensor; None where results are collated from a list."""
        if self.pipeline.unplanned or self.loader is not None:
            return None
        shared = get_worker_info() is not None if self._shared is None else self._shared
        return BatchBuilder(count, options, shared, self._out)

    # -- read

    def read(self, tasks: Sequence[SampleTask], resources: ThreadResources | None) -> None:
        """Reads files by the core in one call, if it is there; formats that it lacks go through `read_one`."""
        if self.loader is not None or not tasks:
            return
        sources: Sequence[str | bytes] = [task.source for task in tasks]
        remote = RemoteFile in map(type, sources)
        partial: dict[int, PartialFile] = {}
        if remote:
            # What the user's code gets may be used as a whole.
            in_parts = (
                resources is not None and not self.pipeline.unplanned and not any(task.for_own_code for task in tasks)
            )
            if in_parts:
                sources, errors, partial = fetch_images(sources)
            else:
                sources, errors = fetch_files(sources)
            for number, error in errors.items():
                self.policy.failed(tasks[number], error)
        if resources is None:
            for task, source in zip(tasks, sources, strict=True):
                if task.error is None:
                    self.read_one(task, source)
            return
        options = self.options
        reader, config = options.reader, options.config
        limit = readers.pixel_limit(options.max_pixels)  # as it is now
        files = resources.read(
            sources, readers.longest_file(limit), whole=remote
        )  # a cache may drop its copies meanwhile
        for number, (task, (header, place)) in enumerate(zip(tasks, files.outcomes(), strict=True)):
            if task.error is not None:
                continue
            if type(header) is Header and header.format in _FORMATS:
                held = files, number
                task.encoded = Encoded(b"", header, task.path, reader, config, limit, held, place, partial.get(number))
                task.shape = new_namedtuple(ImageShape, (header[1], header[2], 3))
                if options.apply_exif:
                    self._orient(task)
            else:  # or nothing that can be read: errors are told there
                self.read_one(task, sources[number])

    def read_one(self, task: SampleTask, source: str | bytes | None = None) -> None:
        """Reads a file by Python; what is at hand of it is its bytes, or the path of a local copy."""
        options = self.options
        try:
            limit = readers.pixel_limit(options.max_pixels)
            data = readers.read_copy(task.path, task.source if source is None else source, limit)
            header = readers.parse_header(data, task.path)
            task.encoded = Encoded(data, header, task.path, options.reader, options.config, limit)
            task.shape = ImageShape(header.height, header.width)
            if options.apply_exif:
                self._orient(task)
        except Exception as error:  # raised again by the policy, unless the file is bad
            self.policy.failed(task, error)

    def _orient(self, task: SampleTask) -> None:
        file: Encoded = task.encoded
        header = file.header
        late = header.format == "PNG" or file.held is None  # a PNG's may stand after its pixels
        task.orientation = readers.upright_orientation(file.content, header) if late else header.orientation
        task.shape = upright(header, task.orientation)

    def release(self, tasks: Sequence[SampleTask], resources: ThreadResources | None) -> None:
        """Gives back what was read."""
        given_back: core.Files | None = None
        for task in tasks:
            held, task.encoded = getattr(task.encoded, "held", None), None
            if held is not None and held[0] is not given_back and resources is not None:
                given_back = held[0]
                resources.give_back(given_back)

    # -- draw

    def draw(self, tasks: Sequence[SampleTask]) -> None:
        """Draws for tasks, in their order."""
        # The generators are read once for all, unless a target's transform may draw from them in between.
        ahead = self.target_transform is not None and not self.pipeline.unplanned
        alone = self._seeded or ahead
        fixed = self.pipeline.fixed_steps() if len(tasks) > 1 else None
        with contextlib.nullcontext() if alone else drawing(self.generators) as held:
            given = held or self.generators
            for task in tasks:
                if task.key is not None:
                    own = keyed_generators(task.key)
                    task.generators = own if self.pipeline.unplanned else None
                    self.draw_one(task, own, fixed)
                else:
                    self.draw_one(task, given, fixed)

    def draw_one(self, task: SampleTask, generators: Generators | None, fixed: FixedSteps | None) -> None:
        """Draws for the image, then has the target transformed, if all of the image's transforms were drawn.

        Args:
            task: gets the steps.
            generators, fixed: as `Pipeline.steps` takes them.
        """
        try:
            if task.shape is not None:
                task.steps = self.pipeline.steps(task.shape, generators, fixed)
            if self.target_transform is not None and not self.pipeline.unplanned:
                self.transform_target(task)
        except Exception as error:  # with a note that names the sample
            raise self.policy.in_user_code(task, error) from error.__cause__

    def transform_target(self, task: SampleTask) -> None:
        """Transforms the target ahead of the image, where nothing that sees the image draws after it."""
        if self.target_transform is not None and not self.pipeline.unplanned:
            with keyed_globals(task.key) if task.key is not None else contextlib.nullcontext():
                task.target = self.target_transform(task.target)

    def recipe(self, task: SampleTask, generators: Generators) -> Recipe:
        """Draws a sample's recipe; reads its header alone."""
        header = readers.read_header(task.source)
        return self.pipeline.draw(upright(header, header.orientation if self.options.apply_exif else 1), generators)

    def replay(self, task: SampleTask, recipe: Recipe) -> Any:
        """Makes a sample by a recipe that was drawn before.

        Raises:
            PlanError: the recipe is for an image of another size.
        """
        task.is_substitute = True  # nobody is there to replace it later
        self.read_one(task)
        if task.error is not None:
            raise task.error
        if task.shape != recipe.shape:
            raise PlanError(f"the recipe is for an image of shape {tuple(recipe.shape)}, {task.path} is another one.")
        task.steps = recipe.steps
        if self.pipeline.unplanned and task.key is not None:
            task.generators = keyed_generators(task.key)
            self.pipeline.steps(task.shape, task.generators)  # the rest goes on after what this draws
        self.lower([task])
        self.make(task, None)
        self.transform_target(task)
        return self.finish(task)

    def lower(self, tasks: Sequence[SampleTask]) -> None:
        """Makes programs of what was drawn."""
        for task in tasks:
            if task.steps is not None and task.shape is not None:
                task.program = lower(task.steps, task.shape, orientation=task.orientation)

    # -- run

    def start(
        self, tasks: Sequence[SampleTask], places: SlotAllocator | None, resources: ThreadResources | None
    ) -> CoreRun:
        """Starts tasks in the core, in their places if there are some, and returns meanwhile."""
        if not tasks or resources is None or self.pipeline.unplanned or self.loader is not None:
            return CoreRun(list(tasks))
        jobs = resources.jobs(len(tasks))
        sinks = self._alone if places is None else _Sinks(places)
        self._fetch_rows(tasks)
        limit: int | None = tasks[0].encoded.max_pixels
        limits = limit or 0, readers.most_scratch(limit)  # what is beyond is refused, and left to `execute`
        claimed: list[SampleTask] = []
        rejected: list[SampleTask] = []
        unfinished: set[int] = set()
        free = iter(jobs)
        job = next(free)
        for task in tasks:
            program = task.program
            if (
                program is not None
                and self._is_for_core(task)
                and sinks.take(program)
                and add_program(job, program)[1] == len(program.steps)
            ):
                task.encoded.give_to(job, program.region, limits)
                task.image = sinks.write(job, task.slot, program)
                claimed.append(task)
                job = next(free, job)
                if program.after or self.finishes_in_python or (program.tv_image and places is None):
                    unfinished.add(task.slot)
            else:
                rejected.append(task)
        return CoreRun(rejected, claimed, unfinished, jobs, sinks.memory, resources)

    def _fetch_rows(self, tasks: Sequence[SampleTask]) -> None:
        """Reads the rows that programs need, of packed images in stores of which the beginning is there.

        A file of which they can't be read is read as a whole later, and says why that can't be done.
        """
        wanted = []
        for task in tasks:
            partial, program = getattr(task.encoded, "partial", None), task.program
            if partial is not None and program is not None:
                wanted.append((partial, program.box))
        if wanted:
            fetch_rows(wanted)

    def _is_for_core(self, task: SampleTask) -> bool:
        """Whether the core is the reader that is chosen for a file."""
        header: Header = task.encoded.header
        kind = header.format, header.plain, header.bit_depth, header.progressive, header.animated
        found = self._for_core.get(kind)
        if found is None:
            chosen = readers.choose(header, self.options.reader, self.options.config)
            found = self._for_core[kind] = chosen.name == "core"
        return found

    def make(self, task: SampleTask, out: torch.Tensor | None) -> None:
        """Makes what is left of a task when the core has run."""
        program = task.program
        if program is None:
            if self.loader is not None:
                self._load(task)
        elif task.image is None and out is None and self._is_lazy(task):
            task.image = self._lazy_image(task)
        elif task.image is None:
            made = execute(program, task.encoded, out, in_rows=bool(self.pipeline.unplanned), as_pil=out is None)
            if out is None:
                task.image = made
        else:
            task.image = finish_tensor(program, task.image, out)

    def _is_lazy(self, task: SampleTask) -> bool:
        """Whether code of the user's gets the image, which may need a part of it alone, and the core decodes it."""
        program = task.program
        return (
            program is not None
            and (bool(self.pipeline.unplanned) or task.for_own_code)
            and not task.is_substitute
            and program.conversion is None
            and not program.after
            and program.result.channels == 3
            and self._is_for_core(task)
        )

    def _lazy_image(self, task: SampleTask) -> Image.Image | LazySource:
        file: Encoded = task.encoded
        steps, program = task.steps, task.program
        assert steps is not None
        assert program is not None
        readers.check_limit(file.header, file.max_pixels, file.source)
        own = Encoded(file.content, file.header, file.source, file.reader, file.config, file.max_pixels)
        source = LazySource(own, task.orientation)
        if self._takes_source and not steps:
            return source
        if claimed_by_core(program) is None:
            image: Image.Image = source.run(program)
            return image
        return LazyImage(source, "RGB", steps=steps, size=(program.result.width, program.result.height))

    def _load(self, task: SampleTask) -> None:
        assert self.loader is not None
        task.image = self.loader(task.path)
        if self.policy.forgives and isinstance(task.image, Image.Image):
            task.image.load()  # here, where it is known that it's the file that is bad

    # -- finish

    def finish(self, task: SampleTask) -> object:
        """The finished sample: what isn't planned, and may draw, is done now; notes the error of a bad file."""
        if task.finished is not None:
            return task.finished
        if self.pipeline.unplanned:
            file = source_of(task.image)
            with contextlib.nullcontext() if task.generators is None else as_globals(task.generators):
                try:
                    self.run_rest(task)
                    load_images(self.sample_of(task))
                except Exception as error:  # the user's code may raise anything
                    if file is None or file.error is None:
                        raise self.policy.in_user_code(task, error) from error.__cause__
                    self.policy.failed(task, file.error)
                    return None
        return self.sample_of(task)

    def run_rest(self, task: SampleTask) -> None:
        """Calls the transforms that aren't known, and plans those after them; then the target's, in that order."""
        for run in self._rest_runs:
            if task.key is not None and run.unplanned:
                reseed(run.unplanned[0])
            task.image = run_one(run, task.image)
        if self.target_transform is not None:
            task.target = self.target_transform(task.target)

    def sample_of(self, task: SampleTask) -> object:
        """The sample as it is handed out."""
        return task.image, task.target


class _Sinks:
    """Memory that the core writes to: the places of a batch in one tensor, or a tensor for each image.

    Attributes:
        memory: the tensor of the batch; None where each image has its own.
    """

    def __init__(self, builder: SlotAllocator | None) -> None:
        self.memory = None if builder is None else builder.images
        direct = self.memory is not None and self.memory.dtype in DIRECT
        self._places = core.BatchSink(self.memory) if self.memory is not None and direct else None
        # Of images alone the last conversion and shape, and their sink; one object, as several threads may be here.
        self._known: tuple[TensorConversion | None, ImageShape | None, tuple[object, ...]] = (None, None, ())

    def take(self, program: Program) -> bool:
        """True if the core can write the result of a program's conversion."""
        conversion = program.conversion
        if conversion is None:
            return False
        if self.memory is None:
            return True
        return self._places is not None and not (program.after and self.memory.dtype != conversion.dtype)

    def write(self, job: core.Job, position: int, program: Program) -> torch.Tensor | None:
        """Sets a job's sink to a place; returns the tensor, or None if it is one of a batch and is finished then."""
        conversion = program.conversion
        assert conversion is not None  # or `take` would have said so
        if self._places is not None:
            self._places.write(job, position, conversion.arithmetic)
            return self.memory[position] if self.memory is not None and program.after else None
        shape = program.result
        out = memory.new_result((shape[2], shape[0], shape[1]), conversion.dtype)
        known_conversion, known_shape, sink = self._known
        if conversion is not known_conversion or shape != known_shape:
            sink = core.BatchSink(out[None]).sink(*conversion.arithmetic)
            self._known = conversion, shape, sink
        job.write_to(out.data_ptr(), sink)
        return out
