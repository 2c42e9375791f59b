"""`convert`: another library's transform, data set or loader as fastpipe's."""

from __future__ import annotations

import copy
import importlib
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, overload

from torch.utils.data import (
    BatchSampler,
    Dataset,
    RandomSampler,
    SequentialSampler,
    default_collate,
    default_convert,
)
from torch.utils.data import DataLoader as TorchDataLoader

from fastpipe.datasets.conversion import UNCHANGED, convert_dataset, is_known
from fastpipe.datasets.conversion.known import look_up
from fastpipe.datasets.wrappers import image_datasets
from fastpipe.errors import DatasetError, FastpipeWarning, PlanError
from fastpipe.explanation.graph_breaks import diagnose, drawn_by_library
from fastpipe.loading.loader import DataLoader
from fastpipe.transforms._base import drawable
from fastpipe.transforms.adapters import recipe_of, why_not
from fastpipe.transforms.compose import Compose
from fastpipe.transforms.converted import converted
from fastpipe.transforms.image_call import ImageCall
from fastpipe.transforms.pipeline import compile_pipeline, members_of

__all__ = ["convert"]


Image = TypeVar("Image")
Sample = TypeVar("Sample")


@overload
def convert(thing: TorchDataLoader[Sample]) -> DataLoader: ...
@overload
def convert(thing: Dataset[Sample]) -> Dataset[Sample]: ...
@overload
def convert(thing: Callable[[Image], Sample]) -> Callable[[Image], Sample]: ...
@overload
def convert(thing: Any) -> Any: ...
def convert(thing: Any) -> Any:
    """Another library's transform, data set or loader as fastpipe's: the same samples, faster.

    .. code:: python

        dataset = torchvision.datasets.ImageFolder("train", transform)
        loader = fastpipe.convert(torch.utils.data.DataLoader(dataset, 64))

    Nothing is listed again, downloaded or changed; what is given stays as it was, and later changes of its attributes
    don't reach the result (those of the transforms in it do). What is fastpipe's already is returned as it is.

    - **A transform**: of torchvision (v1, v2) and timm: an object of the same class, with its attributes and methods,
      whose calls are planned as fastpipe's own; of timm's ``separate=True`` a tuple of three; albumentations' as
      `fastpipe.transforms.Albumentations`.
    - **A data set** of ``torchvision.datasets`` whose samples are files (``ImageFolder``, ``ImageNet``,
      ``DatasetFolder``, ``Flowers102``, ``Food101``, ``CelebA``, ``OxfordIIITPet``, ``CocoDetection``,
      ``VOCDetection``, ``VOCSegmentation``, also as ``wrap_dataset_for_transforms_v2`` wraps them) or in memory
      (``CIFAR10``, ``CIFAR100``, ``MNIST``, ``FashionMNIST``, ``KMNIST``, ``EMNIST``, ``QMNIST``, ``SVHN``, ``STL10``:
      batches are one call of the core from that array); timm's ``ImageDataset`` of folders; torch's ``TensorDataset``,
      and ``Subset`` and ``ConcatDataset`` of these; a Hugging Face ``Dataset`` with images and a transform.
    - **A loader**: torch's ``DataLoader`` over one of these, with the same arguments; timm's ``PrefetchLoader`` around
      it.

    A class is recognized where its samples are what it makes: a subclass may have a constructor of its own, and methods
    under new names. Where nothing of a transform can be planned, a `FastpipeWarning` says why, and what helps: samples
    are right, and made in about the time that they took.

    Args:
        thing: a transform, a data set or a loader.

    Returns:
        fastpipe's: with the same samples bit for bit, targets, length, order and attributes, such as ``classes``,
        ``class_to_idx`` and ``transform``.

    Raises:
        DatasetError: the data set or loader can't be converted; says why, and which way out there is.
        PlanError: it is no data set, loader or transform that is known.
    """
    made = _converted(thing)
    if made is not thing:
        _warn_if_unplanned(made)
    return made


def _converted(thing: Any) -> Any:
    if isinstance(thing, TorchDataLoader):
        return _loader(thing)
    if (type(thing).__module__, type(thing).__name__) == ("timm.data.loader", "PrefetchLoader"):
        made = copy.copy(thing)
        made.loader = _converted(thing.loader)
        return made
    if isinstance(thing, (list, tuple)) and thing:  # as timm's separate=True gives three
        return type(thing)(map(_transform, thing))
    has_samples = hasattr(type(thing), "__getitem__") and not callable(thing) and not isinstance(thing, (str, bytes))
    if is_known(thing) or isinstance(thing, Dataset) or has_samples:
        return convert_dataset(thing)
    return _transform(thing)


def _warn_if_unplanned(made: Any) -> None:
    """Warns where the first thing that a converted transform does can't be planned, and so nothing of it is."""
    if isinstance(made, (Dataset, TorchDataLoader)):
        pipelines = [dataset.pipeline for dataset in image_datasets(made)]
    else:  # what stands behind a foreign member is planned by itself where a transform is called
        pipelines = [compile_pipeline(made)] if callable(made) and not ImageCall([made]).draws else []
    first = next((pipeline.rest[0] for pipeline in pipelines if pipeline.rest and not pipeline.drawn), None)
    if first is not None and not drawn_by_library(first):
        found = diagnose(first)
        advice = f" What helps: {'; '.join(found.advice)}." if found.advice else ""
        warnings.warn(
            f"fastpipe.convert: nothing of this transform is planned, as {found.transform} comes first, and "
            f"{found.reason}.{advice} Or: {UNCHANGED}.",
            FastpipeWarning,
            stacklevel=3,
        )


# -- loaders


def _loader(loader: Any) -> Any:
    kind = type(loader)
    if isinstance(loader, DataLoader):
        return loader
    name = f"{kind.__module__}.{kind.__qualname__}"
    if kind is not TorchDataLoader:
        raise DatasetError(
            f"fastpipe.convert can't convert a {name}: its class may do more than torch's DataLoader. Give its data "
            "set to fastpipe.convert, and the result to fastpipe.DataLoader, or to this class."
        )
    options = {name: getattr(loader, name) for name in _KEPT if hasattr(loader, name)}
    if loader.pin_memory and getattr(loader, "pin_memory_device", ""):
        options["pin_memory_device"] = loader.pin_memory_device
    collate = loader.collate_fn
    given = None if collate in (default_collate, default_convert) else collate
    return DataLoader(convert_dataset(loader.dataset), collate_fn=given, **_sampling(loader), **options)


_KEPT = (
    *("generator", "in_order", "multiprocessing_context", "num_workers", "persistent_workers", "pin_memory"),
    *("prefetch_factor", "timeout", "worker_init_fn"),
)


def _sampling(loader: Any) -> dict[str, Any]:
    """The arguments that choose samples."""
    batches, sampler = loader.batch_sampler, loader.sampler
    if batches is None:
        chosen: dict[str, Any] = {"batch_size": None}
    else:
        made_by_torch = type(batches) is BatchSampler and batches.sampler is sampler
        if not made_by_torch or (batches.batch_size, batches.drop_last) != (loader.batch_size, loader.drop_last):
            return {"batch_sampler": batches}
        chosen = {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
    if type(sampler) is SequentialSampler and sampler.data_source is loader.dataset:
        return chosen
    if (
        type(sampler) is RandomSampler
        and sampler.data_source is loader.dataset
        and (sampler.replacement, sampler._num_samples, sampler.generator) == (False, None, loader.generator)
    ):
        return {**chosen, "shuffle": True}
    return {**chosen, "sampler": sampler}


# -- transforms


def _transform(transform: Any) -> Any:
    kind = type(transform)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if kind.__module__.startswith("fastpipe.") and callable(transform):
        return transform
    if not callable(transform):
        raise PlanError(f"fastpipe.convert takes a transform, a data set or a DataLoader, not a {name}.")
    if look_up({"albumentations": True}, kind.__module__):
        return importlib.import_module("fastpipe.transforms.albumentations").Albumentations(transform)
    if recipe_of(kind) is None:
        raise PlanError(
            f"fastpipe.convert doesn't know {name}: give it to a data set of fastpipe's as it is, which calls it with "
            f"the PIL image, or write it with fastpipe.transforms. Or: {UNCHANGED}."
        )
    is_v2 = look_up({"torchvision.transforms.v2": True}, kind.__module__)
    compose: Any = importlib.import_module("fastpipe.transforms.v2").Compose if is_v2 else Compose
    members = members_of(transform)
    if members is not None:
        program = object.__new__(compose)
        object.__setattr__(program, "__dict__", vars(transform))  # whatever members it gets later
        return converted(kind, program, True)
    if not drawable(transform):
        hooked = getattr(transform, "_forward_hooks", None) or getattr(transform, "_forward_pre_hooks", None)
        why = "it has hooks" if hooked else why_not(transform) or "something in it isn't known"
        raise PlanError(
            f"fastpipe.convert can't convert this {name}: {why}. It works as it is in a data set of "
            f"fastpipe's, which plans what stands before it. Or: {UNCHANGED}."
        )
    return converted(kind, compose([transform]), False)
