"""Hugging Face data sets with images and a transform: the transform gets images that aren't decoded yet."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from PIL import ExifTags, Image, ImageOps
from torch.utils.data import Dataset

from fastpipe.datasets.conversion.known import KnownClass, NotConvertible
from fastpipe.pillow.files import open_image


class TransformedDataset(Dataset[dict[str, Any]]):
    """A Hugging Face ``Dataset`` whose transform gets lazy images: of their files only what is used gets decoded.

    Samples and batches are those of the data set: the transform is called once for what is asked for at once. Names
    that this class doesn't have, and columns, are the data set's own.

    Args:
        dataset: with a transform, as ``with_transform`` sets it.
        columns: the columns of images, and the feature of each.
    """

    def __init__(self, dataset: Any, columns: Mapping[str, Any]) -> None:
        self.dataset, self.columns = dataset, dict(columns)
        self.transform: Callable[[dict[str, Any]], Any] = dataset.format["format_kwargs"]["transform"]
        encoded = type(next(iter(self.columns.values())))(decode=False)
        raw = dataset.with_format(None, columns=dataset.format["columns"])
        for name in self.columns:
            raw = raw.cast_column(name, encoded)
        self._raw = raw

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, bool) or not hasattr(key, "__index__"):
            return self.dataset[key]
        made = self._made([key])
        return {name: values[0] for name, values in made.items()}

    def __getitems__(self, keys: Sequence[int]) -> list[dict[str, Any]]:
        """Several samples, from one call of the transform."""
        made = self._made(list(keys))
        count = len(next(iter(made.values())))
        return [{name: values[number] for name, values in made.items()} for number in range(count)]

    def _made(self, keys: list[int]) -> Any:
        """The transform's result for some rows."""
        batch = self._raw[keys]
        for name, feature in self.columns.items():
            if name in batch:
                batch[name] = [None if one is None else _opened(one, feature) for one in batch[name]]
        made = self.transform(batch)
        _load(made)
        return made

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "dataset" not in vars(self):
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dataset!r})"


def _opened(value: Mapping[str, Any], feature: Any) -> Image.Image:
    """An image as ``datasets.Image`` decodes it, but for its pixels, which aren't there yet."""
    source = value["bytes"] if value["bytes"] is not None else value["path"]
    if source is None or (isinstance(source, str) and "://" in source):
        decoded: Image.Image = feature.decode_example(value)
        return decoded
    image = open_image(source)
    if image.getexif().get(ExifTags.Base.Orientation) is not None:
        image = ImageOps.exif_transpose(image)
    return image.convert(feature.mode) if feature.mode and feature.mode != image.mode else image


def _load(made: Any) -> None:
    """Makes the pixels of images in a transform's result."""
    if isinstance(made, Image.Image):
        made.load()
        made.im  # noqa: B018 - the pixels, which `load` may leave to whoever looks at them
    elif isinstance(made, (list, tuple)):
        for part in made:
            _load(part)
    elif isinstance(made, Mapping):
        for part in made.values():
            _load(part)


def _converted(dataset: Any, _: Callable[[Any], Any]) -> TransformedDataset:
    kind = sys.modules["datasets"].Image
    shown = dataset.format
    features = {name: feature for name, feature in dataset.features.items() if type(feature) is kind and feature.decode}
    columns = {name: features[name] for name in shown["columns"] if name in features}
    if not columns:
        raise NotConvertible("it has no column of datasets.Image that is decoded")
    if shown["type"] != "custom":
        raise NotConvertible(
            "it has no transform" if shown["type"] is None else f"its format is {shown['type']!r}",
            "give it the transform, dataset.with_transform(function), before it is converted",
        )
    if shown["output_all_columns"] and len(shown["columns"]) < len(dataset.column_names):
        raise NotConvertible(
            "output_all_columns=True adds columns that the transform doesn't get", "have it get all columns"
        )
    return TransformedDataset(dataset, columns)


TABLE = {"Dataset": KnownClass(_converted, methods=("__getitems__", "_getitem"))}
