"""timm's dataset of files in folders."""

from __future__ import annotations

import copy

from fastpipe.datasets.bad_files import BadFile
from fastpipe.datasets.indexed import IndexedDataset
from fastpipe.interop import Foreign
from fastpipe.interop.datasets.known import Convert, Files, KnownClass, NotConvertible, copy_attributes
from fastpipe.interop.datasets.torchvision import set_samples


class NextSample:
    """An `on_error` function that does what timm does for a file that can't be read: takes the next sample.

    Args:
        count: the number of samples.
    """

    draws_nothing = True

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, bad: BadFile) -> int:
        return int(bad.index + 1) % self.count


class FolderDataset(IndexedDataset):
    """timm's ``ImageDataset`` over folders, with the same samples and order, `filename` and `filenames`."""

    class_to_idx: dict[str, int]
    _fastpipe_reader: Foreign

    def filename(self, index: int, basename: bool = False, absolute: bool = False) -> str:
        """The name of a sample's file."""
        return str(self._fastpipe_reader.filename(index, basename, absolute))

    def filenames(self, basename: bool = False, absolute: bool = False) -> list[str]:
        """The names of all files."""
        return list(self._fastpipe_reader.filenames(basename, absolute))


def _files(dataset: Foreign) -> Files:
    """The dataset's files; raises `NotConvertible` if its samples aren't files in folders, read as RGB."""
    reader = dataset.reader
    if (type(reader).__module__, type(reader).__name__) != (
        "timm.data.readers.reader_image_folder",
        "ReaderImageFolder",
    ):
        raise NotConvertible(f"its reader is a {type(reader).__name__}")
    if dataset.load_bytes or dataset.input_img_mode != "RGB" or dataset.additional_features is not None:
        raise NotConvertible(
            f"load_bytes={dataset.load_bytes}, input_img_mode={dataset.input_img_mode!r}, "
            f"additional_features={dataset.additional_features}: known are images in RGB with a target"
        )
    samples = reader.samples

    def sample(index: int) -> tuple[str, object]:
        path, target = samples[index]
        return path, -1 if target is None else target

    return sample


def _converted(dataset: Foreign, _: Convert) -> FolderDataset:
    files, reader = _files(dataset), dataset.reader
    folder = FolderDataset(
        dataset.transform, dataset.target_transform, max_bad_fraction=1.0, on_error=NextSample(len(reader))
    )
    folder.root, folder.class_to_idx = reader.root, reader.class_to_idx
    set_samples(folder, map(files, range(len(reader))))
    folder._fastpipe_reader = copy.copy(reader)
    folder._fastpipe_reader.samples = folder.samples  # mapped arrays instead of a list of objects in each worker
    copy_attributes(folder, dataset)
    return folder


TABLE = {
    "ImageDataset": KnownClass(
        _converted,
        reads=("reader", "load_bytes", "input_img_mode", "additional_features", "transform", "target_transform"),
        files=_files,
    )
}
