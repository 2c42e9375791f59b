"""The stages for images: a compiled transform makes tensors from files; other transforms get PIL images."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
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
from fastpipe.executor.batch import BatchSlots, BatchSpec, ImageSlots, JobResults
from fastpipe.executor.tasks import CoreTasks, FailurePolicy, SampleTask
from fastpipe.ops import TensorConversion
from fastpipe.pillow.image_record import source_of
from fastpipe.pillow.lazy_image import LazyImage, load_images
from fastpipe.pillow.lazy_source import LazySource
from fastpipe.program.core_job import Encoded, add_program, claimed_by_core
from fastpipe.program.execute import execute
from fastpipe.program.lower import lower
from fastpipe.program.on_image import finish_tensor
from fastpipe.program.program import Program
from fastpipe.readers.partial import PartialFile, fetch_images, fetch_rows
from fastpipe.result_memory import new_result
from fastpipe.rng import as_globals, drawing, keyed_generators, keyed_globals
from fastpipe.sources import fetch_files
from fastpipe.sources.refused import raise_if_refused
from fastpipe.transforms.compose_plan import pipelines_of, run_one
from fastpipe.transforms.named_arrays import named_arrays_of, reseed
from fastpipe.transforms.pipeline import FixedSteps, Pipeline
from fastpipe.types import Generators, Header, ImageShape, Recipe, RemoteFile, Sample, new_namedtuple

_FORMATS = ("JPEG", "PNG", PACKED_FORMAT)


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """Options of decoding files.

    Attributes:
        reader: a reader's name; None for the config's choice.
        config: the machine's config; None for the current one.
        apply_exif: turn each image upright by its EXIF orientation.
        max_pixels: the limit of pixels, as in `fastpipe.readers.read_image`.
    """

    reader: str | None = None
    config: MachineConfig | None = None
    apply_exif: bool = False
    max_pixels: readers.MaxPixels = "auto"


@dataclass(frozen=True, slots=True)
class StageOptions:
    """Options of the stages that make a dataset's samples.

    Attributes:
        pipeline: the compiled transform.
        decode: how files are decoded.
        policy: is told about tasks that fail.
        target_transform: transforms the target; None for none.
        loader: the user's own function from a path to an image, after which nothing is planned. None for fastpipe's
            readers.
        generators: the generators for tasks without a key; None for the global ones.
        seeded: tasks have keys.
        out: the tensor that batches are made in; None for new ones.
        shared: allocate batches in shared memory, for another process; None to do so in a loader's worker.
    """

    pipeline: Pipeline
    decode: DecodeOptions
    policy: FailurePolicy
    target_transform: Callable[[object], object] | None = None
    loader: Callable[[str], object] | None = None
    generators: Generators | None = None
    seeded: bool = False
    out: torch.Tensor | None = None
    shared: bool | None = None


def upright(header: Header, orientation: int) -> ImageShape:
    """The shape of an image after it is turned by its EXIF orientation."""
    return ImageShape(header.width, header.height) if orientation >= 5 else ImageShape(header.height, header.width)


class ImageStages:
    """The stages for samples of an image and a target; subclasses define other samples.

    Threads may call `make` while another batch is read and drawn: `make` draws nothing.

    Args:
        options: the transforms, the loader, and how files are read.

    Attributes:
        options: as given.
        pipeline: the compiled transform; with a loader of the user's, one in which nothing is planned.
        policy, target_transform, loader: as in the options.
        one_by_one: each sample has to be finished before the next one is drawn, because its transforms may draw from
            the same generators.
    """

    finishes_in_python = False
    """True if `make` has work to do even if the core runs all steps of a program."""

    def __init__(self, options: StageOptions) -> None:
        self.options = options
        self.pipeline = pipeline = options.pipeline
        ahead = self._drawn_ahead()
        self._is_drawn_ahead = ahead is not None
        if options.loader is not None:
            self.pipeline = Pipeline((), (*pipeline.drawn, *pipeline.unplanned))
        elif ahead is not None:
            self.pipeline = Pipeline((ahead,), ())
        self.policy = options.policy
        self.target_transform = options.target_transform
        self.loader = options.loader
        rest = self.pipeline.unplanned
        self.one_by_one = bool(rest) and not options.seeded
        self._rest_runs = tuple(pipelines_of(rest))
        self._takes_source = bool(rest) and named_arrays_of(rest[0]) is not None  # no PIL image is needed
        self._for_core: dict[tuple[object, ...], bool] = {}  # by properties of headers
        self._new_tensors = _NewTensors()  # for images that aren't made in a batch's tensor

    def _drawn_ahead(self) -> Any:
        """A transform that draws for another library's of named arrays before an image is decoded; None without one.

        A target's transform that draws from a sample's own generators does so after the library has.
        """
        options = self.options
        rest = options.pipeline.unplanned
        if type(self) is not ImageStages or len(rest) != 1 or options.pipeline.drawn or options.loader is not None:
            return None
        if options.seeded and options.target_transform is not None:
            return None
        recipe = named_arrays_of(rest[0])
        return None if recipe is None else recipe.drawn_ahead(rest[0], options.seeded)

    @property
    def is_current(self) -> bool:
        """False if the members of another library's transform have changed, so that new stages are needed."""
        return (self._drawn_ahead() is not None) == self._is_drawn_ahead

    def slots(self, count: int, options: BatchSpec) -> BatchSlots | None:
        """The slots of a batch in one tensor; None if results are collated from a list."""
        if self.pipeline.unplanned or self.loader is not None:
            return None
        shared = get_worker_info() is not None if self.options.shared is None else self.options.shared
        return ImageSlots(count, options, shared, self.options.out)

    # -- read

    def read(self, tasks: Sequence[SampleTask], resources: ThreadResources | None) -> None:
        """Reads files by the core in one call, if it is available; `read_one` reads formats that the core lacks."""
        if self.loader is not None or not tasks:
            return
        sources: Sequence[str | bytes] = [task.source for task in tasks]
        remote = RemoteFile in map(type, sources)
        partial: dict[int, PartialFile] = {}
        if remote:
            # The user's code may need the whole image.
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
        options = self.options.decode
        reader, config = options.reader, options.config
        limit = readers.pixel_limit(options.max_pixels)  # read anew for each batch
        files = resources.read(
            sources, readers.longest_file(limit), whole=remote
        )  # a cache may drop its copies before the jobs run
        for number, (task, (header, place)) in enumerate(zip(tasks, files.outcomes(), strict=True)):
            if task.error is not None:
                continue
            if type(header) is Header and header.format in _FORMATS:
                held = files, number
                task.encoded = Encoded(b"", header, task.path, reader, config, limit, held, place, partial.get(number))
                task.shape = new_namedtuple(ImageShape, (header[1], header[2], 3))
                if options.apply_exif:
                    self._orient(task)
            else:  # another format or an unreadable file: `read_one` raises
                self.read_one(task, sources[number])

    def read_one(self, task: SampleTask, source: str | bytes | None = None) -> None:
        """Reads a file in Python; `source`: its bytes, or the path of a local copy, if known."""
        options = self.options.decode
        with self.errors_noted(task):
            limit = readers.pixel_limit(options.max_pixels)
            data = readers.read_copy(task.path, task.source if source is None else source, limit)
            header = readers.parse_header(data, task.path)
            task.encoded = Encoded(data, header, task.path, options.reader, options.config, limit)
            task.shape = ImageShape(header.height, header.width)
            if options.apply_exif:
                self._orient(task)

    @contextlib.contextmanager
    def errors_noted(self, task: SampleTask) -> Iterator[None]:
        """Hands an error of the block to the policy, which notes it in the task if the file is bad, or else raises."""
        try:
            yield
        except Exception as error:  # a file's error may be of any class; the policy raises all others again
            self.policy.failed(task, error)

    def _orient(self, task: SampleTask) -> None:
        file: Encoded = task.encoded
        header = file.header
        late = header.format == "PNG" or file.held is None  # a PNG's EXIF may come after its pixels
        task.orientation = readers.upright_orientation(file.content, header) if late else header.orientation
        task.shape = upright(header, task.orientation)

    def release(self, tasks: Sequence[SampleTask], resources: ThreadResources | None) -> None:
        """Gives back the memory of the files."""
        given_back: core.Files | None = None
        for task in tasks:
            held, task.encoded = getattr(task.encoded, "held", None), None
            if held is not None and held[0] is not given_back and resources is not None:
                given_back = held[0]
                resources.give_back(given_back)

    # -- draw

    def draw(self, tasks: Sequence[SampleTask]) -> None:
        """Draws for all tasks, in their order."""
        # The generators are read once for all tasks, unless a target's transform may draw from them in between.
        ahead = self.target_transform is not None and not self.pipeline.unplanned
        alone = self.options.seeded or ahead
        fixed = self.pipeline.fixed_steps() if len(tasks) > 1 else None
        with contextlib.nullcontext() if alone else drawing(self.options.generators) as held:
            given = held or self.options.generators
            for task in tasks:
                if task.key is not None:
                    own = keyed_generators(task.key)
                    task.generators = own if self.pipeline.unplanned else None
                    self.draw_one(task, own, fixed)
                else:
                    self.draw_one(task, given, fixed)

    def draw_one(self, task: SampleTask, generators: Generators | None, fixed: FixedSteps | None) -> None:
        """Draws the image's steps; then transforms the target, if nothing of the image's transform is left to draw.

        Args:
            task: the task, which gets the steps.
            generators, fixed: see `Pipeline.steps`.
        """
        try:
            if task.shape is not None:
                task.steps = self.pipeline.steps(task.shape, generators, fixed)
            if self.target_transform is not None and not self.pipeline.unplanned:
                self.transform_target(task)
        except Exception as error:  # raised with a note that names the sample
            raise self.policy.in_user_code(task, error) from error.__cause__

    def transform_target(self, task: SampleTask) -> None:
        """Transforms the target before the image is made, unless transforms of the image still have to draw."""
        if self.target_transform is not None and not self.pipeline.unplanned:
            with keyed_globals(task.key) if task.key is not None else contextlib.nullcontext():
                task.target = self.target_transform(task.target)

    def recipe(self, task: SampleTask, generators: Generators) -> Recipe:
        """Draws a sample's recipe; reads only the file's header."""
        header = readers.read_header(task.source)
        orientation = header.orientation if self.options.decode.apply_exif else 1
        pipeline = self.options.pipeline if self._is_drawn_ahead else self.pipeline
        return pipeline.draw(upright(header, orientation), generators)

    def replay(self, task: SampleTask, recipe: Recipe) -> Sample:
        """Makes a sample by a recipe that was drawn before.

        Raises:
            PlanError: the recipe is for an image of another size.
        """
        if self._is_drawn_ahead:  # which a recipe isn't
            return _StagesOfRecipes(self.options).replay(task, recipe)
        task.needs_pixels = True
        self.read_one(task)
        if task.error is not None:
            raise task.error
        if task.shape != recipe.shape:
            raise PlanError(f"the recipe is for an image of shape {tuple(recipe.shape)}, {task.path} is another one.")
        task.steps = recipe.steps
        if self.pipeline.unplanned and task.key is not None:
            task.generators = keyed_generators(task.key)
            self.pipeline.steps(task.shape, task.generators)  # advances the generators for the rest
        self.lower([task])
        self.make(task, None)
        self.transform_target(task)
        self.finish(task)
        return self.sample_of(task)

    def lower(self, tasks: Sequence[SampleTask]) -> None:
        """Lowers the drawn steps to programs."""
        for task in tasks:
            if task.steps is not None and task.shape is not None:
                task.program = lower(task.steps, task.shape, orientation=task.orientation)

    # -- run

    def fill_jobs(
        self, tasks: Sequence[SampleTask], slots: BatchSlots | None, resources: ThreadResources | None
    ) -> CoreTasks:
        """Fills a job for each task that the core takes: its result goes into its slot, if there are slots."""
        if not tasks or resources is None or self.pipeline.unplanned or self.loader is not None:
            return CoreTasks(list(tasks))
        jobs = resources.jobs(len(tasks))
        results: JobResults = self._new_tensors if slots is None else slots
        self._fetch_rows(tasks)
        limit: int | None = tasks[0].encoded.max_pixels
        limits = limit or 0, readers.most_scratch(limit)  # larger images are refused, and left to `execute`
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
                and results.takes(program)
                and add_program(job, program)[1] == len(program.steps)
            ):
                task.encoded.give_to(job, program.region, limits)
                task.image = results.write(job, task.slot, program)
                claimed.append(task)
                job = next(free, job)
                if program.after or self.finishes_in_python or (program.tv_image and slots is None):
                    unfinished.add(task.slot)
            else:
                rejected.append(task)
        return CoreTasks(rejected, claimed, unfinished, jobs, results.images)

    def _fetch_rows(self, tasks: Sequence[SampleTask]) -> None:
        """Reads the rows that programs need, for remote packed images of which only the beginning has been read.

        A file whose rows can't be read is read as a whole later, which raises the error.
        """
        wanted = []
        for task in tasks:
            partial, program = getattr(task.encoded, "partial", None), task.program
            if partial is not None and program is not None:
                wanted.append((partial, program.box))
        if wanted:
            fetch_rows(wanted)

    def _is_for_core(self, task: SampleTask) -> bool:
        """True if the core is the chosen reader of a file."""
        header: Header = task.encoded.header
        kind = header.format, header.plain, header.bit_depth, header.progressive, header.animated
        is_for_core = self._for_core.get(kind)
        if is_for_core is None:
            decode = self.options.decode
            chosen = readers.choose(header, decode.reader, decode.config)
            is_for_core = self._for_core[kind] = chosen.name == "core"
        return is_for_core

    def make(self, task: SampleTask, out: torch.Tensor | None) -> None:
        """Makes the rest of a task after the core has run."""
        program = task.program
        if program is None:
            if self.loader is not None:
                self._load(task)
        elif task.image is None and out is None and self._is_lazy(task):
            task.image = self._lazy_image(task)
        elif task.image is None:
            result = execute(program, task.encoded, out, in_rows=bool(self.pipeline.unplanned), as_pil=out is None)
            if out is None:
                task.image = result
        else:
            task.image = finish_tensor(program, task.image, out)

    def _is_lazy(self, task: SampleTask) -> bool:
        """True if the image may be lazy: the user's code gets it and may need only a part, and the core decodes it."""
        program = task.program
        return (
            program is not None
            and (bool(self.pipeline.unplanned) or task.for_own_code)
            and not task.needs_pixels
            and program.conversion is None
            and not program.after
            and program.result.channels == 3
            and self._is_for_core(task)
        )

    def _lazy_image(self, task: SampleTask) -> object:
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
            return source.run(program)
        return LazyImage(source, "RGB", steps=steps, size=(program.result.width, program.result.height))

    def _load(self, task: SampleTask) -> None:
        assert self.loader is not None
        raise_if_refused(task.path)
        task.image = self.loader(task.path)
        if self.policy.forgives and isinstance(task.image, Image.Image):
            task.image.load()  # decoded here, where an error is known to be the file's

    # -- finish

    def finish(self, task: SampleTask) -> None:
        """Finishes a sample: runs transforms that aren't planned, and may draw; notes the error of a bad file."""
        if task.finished is not None or not self.pipeline.unplanned:
            return
        file = source_of(task.image)
        with contextlib.nullcontext() if task.generators is None else as_globals(task.generators):
            try:
                self.run_rest(task)
                load_images(self.sample_of(task))
            except Exception as error:  # the user's code may raise anything
                if file is None or file.error is None:
                    raise self.policy.in_user_code(task, error) from error.__cause__
                self.policy.failed(task, file.error)

    def run_rest(self, task: SampleTask) -> None:
        """Runs the unplanned transforms, and as programs the known ones between them; then the target's transform."""
        for run in self._rest_runs:
            if task.key is not None and run.unplanned:
                reseed(run.unplanned[0])
            task.image = run_one(run, task.image)
        if self.target_transform is not None:
            task.target = self.target_transform(task.target)

    def sample_of(self, task: SampleTask) -> Sample:
        """The finished sample in the form that users get."""
        return task.image, task.target


class _StagesOfRecipes(ImageStages):
    """Stages that draw nothing of another library's ahead."""


class _NewTensors:
    """`JobResults` for images outside of a batch: a new tensor for each. Threads may share the object."""

    images: torch.Tensor | None = None

    def __init__(self) -> None:
        # The last conversion, shape and sink, in one object as threads may share it.
        self._last: tuple[TensorConversion | None, ImageShape | None, tuple[object, ...]] = (None, None, ())

    def takes(self, program: Program) -> bool:
        return program.conversion is not None

    def write(self, job: core.Job, slot: int, program: Program) -> torch.Tensor:
        conversion, shape = program.conversion, program.result
        assert conversion is not None  # `takes` was True
        out = new_result((shape[2], shape[0], shape[1]), conversion.dtype)
        last_conversion, last_shape, sink = self._last
        if conversion is not last_conversion or shape != last_shape:
            sink = core.BatchSink(out[None]).sink(*conversion.arithmetic)
            self._last = conversion, shape, sink
        job.write_to(out.data_ptr(), sink)
        return out
