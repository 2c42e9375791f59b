"""`doctor`: runs the measurements one after the other, and collects the findings."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch

from fastpipe import readers
from fastpipe.arguments import MOST_PROCESSES, real_number, whole_number
from fastpipe.config import MachineConfig
from fastpipe.datasets.base import ImageDataset
from fastpipe.datasets.wrappers import image_datasets
from fastpipe.environment import library_versions, machine_fingerprint, memory, usable_cpus
from fastpipe.errors import DatasetError
from fastpipe.interop.graph_breaks import diagnose, shortened
from fastpipe.loading.tuning import Trial, try_loader, worker_counts
from fastpipe.progress_bar import ProgressCallback
from fastpipe.reporting.output import pluralize
from fastpipe.tools.doctor import findings
from fastpipe.tools.doctor.diagnosis import Diagnosis
from fastpipe.tools.doctor.disk import measure_disk
from fastpipe.tools.doctor.loader_setup import LoaderSetup, setup_of
from fastpipe.tools.doctor.measurements import FailedSample, Reencoding, Scaling, StageProfile
from fastpipe.tools.doctor.reencoding import try_reencoding
from fastpipe.tools.doctor.stages import time_stages, try_samples
from fastpipe.tools.doctor.workers import Probe, object_lists, start_s, threads_here, trial_batch_size
from fastpipe.tools.explain.subject import loaded_by, path_of
from fastpipe.tools.import_object import imagenet_transform
from fastpipe.transforms.albumentations import Albumentations
from fastpipe.types import Transform

_SAMPLES = 192
_SEVERITIES = ("problem", "advice", "note")
_STEPS = 5
_A_CPU = 4  # workers on each CPU that are tried, however long they take to start
_LARGEST_RATE, _LONGEST_S = 1e9, 86400.0


def doctor(
    subject: object,
    *,
    transform: Transform | None = None,
    batch_size: int | None = None,
    workers: int | None = None,
    gpu_rate: float | None = None,
    seconds: float = 20.0,
    progress: ProgressCallback | None = None,
) -> Diagnosis:
    """Finds where the time of a training's input goes, and what would make it faster or safer; ``print`` the result.

    Everything is measured on some of the subject's own files, with the code that training runs, in worker processes
    as training starts them. Nothing is written. To measure the disk, some files are dropped from the page cache and
    read again.

    Args:
        subject: a folder of images, a list of files (as in `ImageList`), a map-style dataset, or the training's
            DataLoader.
        transform: the transform for a path; None for ImageNet's usual one: RandomResizedCrop(224),
            RandomHorizontalFlip, ToTensor and Normalize.
        batch_size: the training's batch size; None for the loader's, or 256.
        workers: the training's ``num_workers``, to be judged; None for the loader's, or for a recommendation.
        gpu_rate: images a second that the training takes if it never waits for images.
        seconds: approximate time for all measurements. More than four workers for each CPU are only
            tried if they start within it.
        progress: called with the number of finished steps, the number of steps, and the next step.

    Raises:
        DatasetError: the subject can't be examined, or none of its samples can be made.
        ConfigError: a number is out of its range.
    """
    if gpu_rate is not None:
        takes = "the images that the GPU takes a second, or leave it out"
        gpu_rate = real_number("gpu_rate", gpu_rate, takes, most=_LARGEST_RATE)
    seconds = real_number("seconds", seconds, "how long doctor may measure", most=_LONGEST_S)
    if batch_size is not None:
        takes = "the samples of a batch"
        batch_size = whole_number("batch_size", batch_size, takes, least=1)
    if workers is not None:
        takes = "the number of a loader's workers"
        workers = whole_number("workers", workers, takes, most=MOST_PROCESSES)
    if not (progress is None or callable(progress)):
        raise DatasetError(
            f"progress={progress!r:.80}: give a function of the steps done, all steps and a text, or None."
        )
    if transform is not None and not isinstance(subject, (str, os.PathLike)):
        raise DatasetError("transform= is for a path: a dataset or loader has its own.")
    chosen = imagenet_transform() if transform is None else transform
    examined = setup_of(subject, chosen, batch_size, workers)
    dataset, count = examined.dataset, len(examined.dataset)
    cpus, available = usable_cpus(), memory()
    counts = worker_counts(cpus, examined.workers)
    steps, number = _STEPS + len(counts), itertools.count()

    def step(what: str) -> None:
        if progress is not None:
            progress(next(number), steps, what)

    step("reading files")
    picked = random.Random(0).sample(range(count), min(count, _SAMPLES))
    paths = {index: path for index in picked if (path := path_of(dataset, index)) is not None}
    disk = measure_disk(list(paths.values()), count, seconds * 0.1) if paths else None

    with Probe(examined) as probe:
        step("making samples")
        tried = probe.run(partial(try_samples, indices=picked, seconds=max(1.0, seconds * 0.1)))
        if not tried.good:
            raise DatasetError(
                f"none of {pluralize(len(tried.bad), 'sample')} can be made; number {tried.bad[0].index}: "
                f"{tried.bad[0].reason}"
            )
        step("taking the time of each stage")
        free = available.shared_free
        timing = partial(
            time_stages,
            indices=tried.good,
            batch_size=examined.batch_size,
            options=examined.options,
            collate=examined.collate,
            seconds=seconds * 0.25,
            guess_us=tried.us,
            most_bytes=None if free is None else free // 4,
        )
        stages = probe.run(timing)
        used = stages.other_threads > 0.05
        threads = probe.run(partial(threads_here, decoding=_decoding_threads(examined), used=used))
        step("converting some files")
        reencodings: list[Reencoding] = []
        if examined.planned is not None:
            trial = partial(try_reencoding, indices=tried.good, output=stages.output, seconds=seconds * 0.075)
            reencodings = probe.run(trial)
    untried = None
    if probe.why_here:
        counts = [0]
    elif counts[-1] > _A_CPU * cpus and (needed_s := start_s(counts[-1], probe.start_s, cpus)) > seconds:
        untried = counts.pop(), needed_s
    size = trial_batch_size(examined, stages, max(counts), free)

    def measure(processes: int, threads: int | None = None) -> Trial:
        """Measures the training's loader; the samples are used again and again, so they stay in the page cache."""
        make = partial(examined.loader_for, itertools.cycle(tried.good), size, processes, threads)
        return try_loader(make, seconds * 0.3 / len(counts))

    trials = []
    for processes in counts:
        step(f"trying {pluralize(processes, 'worker')}")
        trials.append(measure(processes))
    # After the measurements that start workers, which should not inherit the state of OpenCV after a use here.
    step("trying threads")
    threaded = None if examined.in_python else measure(min(1, max(counts)), cpus)
    if progress is not None:
        progress(steps, steps, "done")

    measured = Diagnosis(
        subject=examined.name,
        samples=count,
        tried=len(tried.good) + len(tried.bad),
        batch_size=examined.batch_size,
        workers=examined.workers,
        prefetch=examined.prefetch,
        gpu_rate=gpu_rate,
        stages=stages,
        disk=disk,
        scaling=Scaling(tuple(trials), cpus, size, untried),
        threaded=threaded,
        in_python=examined.in_python,
        memory=available,
        threads=threads,
        reencodings=tuple(reencodings),
        findings=(),
        machine=dict(machine_fingerprint()),
        versions=dict(library_versions()),
    )
    findings = [one for one in _findings(measured, examined, probe.why_here, tried.bad, seconds) if one is not None]
    return replace(measured, findings=tuple(sorted(findings, key=lambda one: _SEVERITIES.index(one.severity))))


def _findings(
    measured: Diagnosis,
    examined: LoaderSetup,
    why_here: str,
    bad: Sequence[FailedSample],
    seconds: float,
) -> Iterator[findings.Finding | None]:
    """Yields the findings from the measurements, and from the samples that can't be made."""
    stages, scaling, gpu_rate = measured.stages, measured.scaling, measured.gpu_rate
    workers, has_gpu = measured.planned_workers, torch.cuda.is_available()
    yield findings.busy_machine(stages)
    yield findings.not_sendable(why_here)
    yield findings.bad_files(bad, measured.tried)
    gains = {
        "files packed" if one.kind == "packed" else "oversized files made smaller": gain
        for one in measured.reencodings
        if (gain := findings.reencoding_gain(one, stages)) > findings.FASTER
    }
    yield findings.slow_machine(scaling, gpu_rate, gains, has_gpu)
    judged = None if findings.is_busy(stages) else measured.workers
    other_number = findings.other_workers(scaling, judged, gpu_rate, measured.threads_instead)
    yield other_number
    yield findings.untried_workers(scaling, seconds)
    yield findings.shared_memory(stages, measured.batch_size, workers, measured.prefetch, measured.memory, has_gpu)
    # If another number of workers is advised, threads are judged for that number.
    advised = workers if other_number is None else measured.recommended_workers
    yield findings.oversubscription(measured.threads, advised, scaling.cpus)
    if measured.disk is not None:
        delivered = scaling.recommended().images_per_s
        needed = delivered if gpu_rate is None else min(gpu_rate, delivered)
        yield findings.page_cache(measured.disk, measured.memory, needed)
    for one in measured.reencodings:
        yield findings.reencoding(one, stages)
    yield _plan_finding(examined, stages)
    yield findings.missing_core("" if examined.planned is None else readers.reader_status()["core"].reason)
    yield findings.slow_albumentations(_albumentations_in(examined.dataset), stages)
    yield findings.stale_config(str(MachineConfig.path()), MachineConfig.load(check=False).mismatches())
    yield findings.object_copies(object_lists(examined.dataset), workers, measured.memory)


def _decoding_threads(examined: LoaderSetup) -> int:
    asked = None if examined.options is None else examined.options.threads
    return getattr(examined.dataset, "threads", 0) if asked is None else asked


def _albumentations_in(dataset: object) -> str:
    """The first planned transform of albumentations, in a line; empty if there is none."""
    drawn = (transform for part in image_datasets(dataset) for transform in part.pipeline.drawn)
    return next((shortened(one) for one in drawn if isinstance(one, Albumentations)), "")


def _plan_finding(examined: LoaderSetup, stages: StageProfile) -> findings.Finding | None:
    """The finding for transforms that aren't planned, in the words of `explain`."""
    dataset = examined.dataset
    if not isinstance(dataset, ImageDataset):
        is_around_ours = isinstance(getattr(dataset, "dataset", None), ImageDataset)
        if is_around_ours or type(dataset).__module__.startswith("fastpipe."):
            return None
    decoder, own_code = loaded_by(dataset) or ("", None)
    if decoder and own_code is not None:
        return findings.decoded_whole(own_code)
    rest = dataset.pipeline.unplanned
    return findings.broken_plan(diagnose(rest[0]), stages, type(rest[0]).__module__.partition(".")[0]) if rest else None
