"""`convert`: makes another library's transform, dataset or loader fastpipe's."""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, overload

from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    default_collate,
    default_convert,
)
from torch.utils.data import DataLoader as TorchDataLoader

from fastpipe.datasets.wrappers import image_datasets
from fastpipe.errors import FastpipeWarning, PlanError
from fastpipe.hooks.hooked_objects import hooked, is_hooked
from fastpipe.interop.datasets import convert_dataset, is_known
from fastpipe.interop.graph_breaks import diagnose, drawn_by_library, one_line
from fastpipe.loading.loader import DataLoader
from fastpipe.plain_lookup import module_of
from fastpipe.transforms._base import drawable
from fastpipe.transforms.adapters import recipe_of
from fastpipe.transforms.compose import Compose
from fastpipe.transforms.compose_plan import ComposePlan
from fastpipe.transforms.converted import converted
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
def convert(thing: object) -> Any: ...
def convert(thing: object) -> Any:
    """Converts another library's transform, dataset or loader to fastpipe's: the same samples, faster.

    .. code:: python

        dataset = torchvision.datasets.ImageFolder("train", transform)
        loader = fastpipe.convert(torch.utils.data.DataLoader(dataset, 64))

    Nothing is listed again, downloaded or changed; the given object stays as it was. An object of fastpipe's is
    returned as it is.

    - **A dataset or a transform of your own**, a wrapper, a class derived from a library's, or one with its own
      loader: becomes an object of a class derived from its own, with its attributes, whose methods make samples as
      before. While these run, and nowhere else, opened images have no pixels until they are used, and transforms are
      planned, as `fastpipe.install` does for a whole process. `fastpipe.report` says what was gained. This includes
      streams (``IterableDataset``) and Hugging Face's datasets.
    - **A transform** of torchvision (v1, v2) or timm: becomes an object of the same class, with its attributes and
      methods, whose calls are planned as fastpipe's own; for timm's ``separate=True`` a tuple of three. One of
      albumentations becomes a `fastpipe.transforms.Albumentations`.
    - **A dataset** of ``torchvision.datasets`` whose samples are files (``ImageFolder``, ``ImageNet``,
      ``DatasetFolder``, ``Flowers102``, ``Food101``, ``CocoDetection``,
      ``VOCDetection``, ``VOCSegmentation``, also as ``wrap_dataset_for_transforms_v2`` wraps them) or in memory
      (``CIFAR10``, ``CIFAR100``, ``MNIST``, ``FashionMNIST``, ``KMNIST``, ``EMNIST``, ``QMNIST``, ``SVHN``, ``STL10``:
      a batch is one call of the core on that array); timm's ``ImageDataset`` of folders; torch's ``TensorDataset``:
      becomes fastpipe's dataset of that name, which makes whole batches. Later changes of the original's attributes
      have no effect on it, except for those of its transforms. ``Subset`` and ``ConcatDataset`` have their datasets
      converted.
    - **A loader**: torch's ``DataLoader`` becomes fastpipe's, with the same arguments. One of another class, and timm's
      ``PrefetchLoader``, becomes a copy over the converted dataset.

    If no part of a transform can be planned, a `FastpipeWarning` says why, and what helps; samples are right, and take
    about as long as before.

    Args:
        thing: a transform, a dataset or a loader.

    Returns:
        An object with the same samples bit for bit, targets, length, order and attributes, such as ``classes``,
        ``class_to_idx`` and ``transform``.

    Raises:
        DatasetError: Python can't derive from the dataset's class.
        PlanError: ``thing`` is no dataset, loader or transform, but a function, a class or a value.
    """
    converted = _converted(thing)
    if converted is not thing and callable(converted):
        _warn_if_unplanned(converted)
    return converted


def _converted(thing: Any) -> Any:
    if isinstance(thing, TorchDataLoader):
        return _loader(thing)
    if (module_of(type(thing)), type(thing).__name__) == ("timm.data.loader", "PrefetchLoader"):
        loader = copy.copy(thing)
        loader.loader = _converted(thing.loader)
        return loader
    if isinstance(thing, (list, tuple)) and thing:  # timm's separate=True gives three
        return type(thing)(map(_transform, thing))
    is_value = type(thing) is dict or isinstance(thing, (str, bytes, Tensor))
    has_samples = hasattr(type(thing), "__getitem__") and not callable(thing) and not is_value
    return _dataset(thing) if is_known(thing) or isinstance(thing, Dataset) or has_samples else _transform(thing)


def _warn_if_unplanned(converted: object) -> None:
    """Warns if no part of a converted transform can be planned; parts after a foreign member are planned separately."""
    if is_hooked(converted) or ComposePlan([converted]).draws:
        return
    pipeline = compile_pipeline(converted)
    first = pipeline.unplanned[0] if pipeline.unplanned else None
    if first is not None and not drawn_by_library(first):
        broken = diagnose(first)
        warnings.warn(
            f"fastpipe.convert: nothing of this transform is planned, as {broken.transform} comes first, and "
            f"{broken.reason}.",
            FastpipeWarning,
            stacklevel=3,
        )


# -- datasets


def _dataset(dataset: object) -> Any:
    """Converts a dataset to fastpipe's, or hooks it if its own code or its transform's has to run."""
    if is_hooked(dataset):
        return dataset
    converted = convert_dataset(dataset, hooked)
    if converted is dataset or is_hooked(converted):
        return converted
    pipelines = [inner.pipeline for inner in image_datasets(converted)]
    return hooked(dataset) if any(pipeline.unplanned and not pipeline.drawn for pipeline in pipelines) else converted


# -- loaders


def _loader(loader: Any) -> Any:
    kind = type(loader)
    if isinstance(loader, DataLoader):
        return loader
    dataset = _dataset(loader.dataset)
    if kind is not TorchDataLoader:  # a derived loader may do more
        converted = copy.copy(loader)
        vars(converted).update(dataset=dataset, _iterator=None)
        return converted
    options = {name: getattr(loader, name) for name in _KEPT if hasattr(loader, name)}
    if loader.pin_memory and getattr(loader, "pin_memory_device", ""):
        options["pin_memory_device"] = loader.pin_memory_device
    collate = loader.collate_fn
    given = None if collate is default_collate or collate is default_convert else collate
    return DataLoader(dataset, collate_fn=given, **_sampling(loader), **options)


_KEPT = (
    *("generator", "in_order", "multiprocessing_context", "num_workers", "persistent_workers", "pin_memory"),
    *("prefetch_factor", "timeout", "worker_init_fn"),
)


def _sampling(loader: Any) -> dict[str, Any]:
    """The arguments of ``DataLoader`` that choose samples."""
    batches, sampler = loader.batch_sampler, loader.sampler
    if batches is None:
        chosen: dict[str, object] = {"batch_size": None}
    else:
        made_by_torch = type(batches) is BatchSampler and batches.sampler is sampler
        if not made_by_torch or (batches.batch_size, batches.drop_last) != (loader.batch_size, loader.drop_last):
            return {"batch_sampler": batches}
        chosen = {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
    if isinstance(loader.dataset, IterableDataset):
        return chosen
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


def _transform(transform: object) -> Any:
    kind = type(transform)
    name = f"{module_of(kind)}.{kind.__qualname__}"
    if name.startswith("fastpipe.") and callable(transform):
        return transform
    if not callable(transform):
        raise PlanError(f"fastpipe.convert takes a transform, a dataset or a DataLoader, not a {name}.")
    if name.startswith("albumentations."):
        return importlib.import_module("fastpipe.transforms.albumentations").Albumentations(transform)
    if recipe_of(kind) is None or not (members_of(transform) is not None or drawable(transform)):
        return _hooked_callable(transform)
    is_v2 = name.startswith("torchvision.transforms.v2.")
    compose: Any = importlib.import_module("fastpipe.transforms.v2").Compose if is_v2 else Compose
    members = members_of(transform)
    if members is not None:
        program = object.__new__(compose)
        object.__setattr__(program, "__dict__", vars(transform))  # shares members that are set later
        return converted(kind, program, True)
    return converted(kind, compose([transform]), False)


def _hooked_callable(transform: object) -> Any:
    if is_hooked(transform):
        return transform
    if isinstance(transform, type):
        raise PlanError(
            f"fastpipe.convert takes no class, as {one_line(transform)} is one: make an object of it first."
        )
    if inspect.isroutine(transform) or isinstance(transform, functools.partial):
        raise PlanError(
            f"fastpipe.convert takes no function, as {one_line(transform)} is one: convert the transforms that it "
            "calls, or the dataset that calls it. Or start the script with `fastpipe run`, or call "
            "fastpipe.install() first: nothing needs to be converted then."
        )
    return hooked(transform)
