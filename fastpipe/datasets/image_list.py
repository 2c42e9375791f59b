"""`ImageList`: image files and labels from a list, in any order, with subsets and splits."""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Sequence
from typing import TypeAlias, TypeVar

import numpy as np

from fastpipe.counts import pluralize
from fastpipe.datasets.base import SampleT
from fastpipe.datasets.folder import ImageFolder
from fastpipe.datasets.indexed import IndexedDataset
from fastpipe.datasets.options import ImageOptions, Unpack, with_options
from fastpipe.index.image_index import ImageIndex
from fastpipe.index.list_source import ListSource, index_of_rows
from fastpipe.index.read_list import Column
from fastpipe.index.table import Array, Listing
from fastpipe.paths import local_path
from fastpipe.sources import ByteSource, Cache, source_of
from fastpipe.types import Transform

Self = TypeVar("Self", bound="ImageList")


Root: TypeAlias = "str | os.PathLike[str] | ByteSource | None"


class ImageList(IndexedDataset[SampleT]):
    """A map-style dataset over a list of files and labels.

    Args:
        source: one of

            - a text file of lines "path label" (the label is what follows the last white space),
            - a ``.csv`` or ``.tsv`` file, or a ``.parquet`` file where pyarrow is installed,
            - ``(paths, labels)``, two sequences; paths may be str, bytes or `os.PathLike`,
            - an `ImageIndex`.

            A large file's parsed content is kept in fastpipe's cache folder until the file's size or times change.
            If all labels are integers, or all are floats, they are the targets. If all are names, a target is the
            name's place among the sorted names. A mixture is an error. A row without a path or without a label is a bad
            sample, which raises when it is read: see ``on_error``.
        transform: takes a PIL image (a fastpipe transform: is compiled).
        target_transform: takes the target.
        root: the folder that relative paths start from; None for the current folder. Or a URL or a
            `fastpipe.ByteSource`: paths are then the source's keys, the part after the URL.
        columns: the columns of path and label in CSV and Parquet, by name, or by position from 0 in a file without a
            header line.
        loader: takes a path and returns an image. Any but the default switches off compiled decoding.
        reader, config, apply_exif, max_pixels, seed, threads: as in `ImageFolder`.
        on_error, bad_files_log, max_bad_fraction, cache: as in `ImageFolder`.

    Attributes:
        samples, imgs: ``(path, target)`` pairs, a view that makes them on demand; assign a list to change them.
        targets: the target of each sample, a view as well.
        classes: the class names, sorted; integer labels as text; empty for float labels.
        class_to_idx: the target of each class.
        index: the `ImageIndex` of the list.

    Raises:
        DatasetError: the list can't be parsed, or no row has a path and a label; the message names the line.
        OSError: the file can't be opened.
    """

    index: ImageIndex

    @with_options(ImageOptions)
    def __init__(
        self,
        source: str | os.PathLike[str] | ImageIndex | Sequence[object],
        transform: Transform | None = None,
        target_transform: Transform | None = None,
        *,
        root: Root = None,
        columns: tuple[Column, Column] = ("path", "label"),
        cache: Cache | None = None,
        **options: Unpack[ImageOptions],
    ) -> None:
        super().__init__(transform, target_transform, **options)
        index = _index_of(source, root, columns)
        store = source_of(index.source or root, cache)  # the index knows the store of its paths
        self.root = _name_of(root, store)
        self._fastpipe_set_samples(index if store is None else index.read_through(store))

    @classmethod
    def from_folder(
        cls: type[Self],
        root: str | os.PathLike[str] | ByteSource,
        transform: Transform | None = None,
        target_transform: Transform | None = None,
        *,
        index: str | os.PathLike[str] | None = "auto",
        **options: Unpack[ImageOptions],
    ) -> Self:
        """The files of ``root/class/….jpg``, as `ImageFolder` lists them; ``options`` are those of `ImageList`.

        Args:
            root: the folder that holds one folder for each class.
            transform, target_transform: as in `ImageList`.
            index: as in `ImageFolder`.

        Raises:
            FileNotFoundError: `root` is no folder, has no class folder, or a class has no valid file.
        """
        folder = ImageFolder(root if isinstance(root, ByteSource) else os.fspath(root), index=index)
        assert folder.index is not None
        start = folder.source or folder.root
        return cls(folder.index, transform, target_transform, root=start, **options)

    @property
    def classes(self) -> list[str]:
        return list(self.index.classes)

    @property
    def class_to_idx(self) -> dict[str, int]:
        return dict(zip(self.index.classes, self.index.class_values, strict=True))

    def subset(self: Self, indices: Sequence[int] | slice | Array) -> Self:
        """A dataset of the given samples in the given order; the rest is the same, and the transform is shared.

        Args:
            indices: positions (negative: from the end; may repeat), a slice, or a boolean array ``(n,)``.

        Raises:
            IndexError: a position is out of range, or the number of booleans isn't the number of samples.
            TypeError: the positions are no integers.
        """
        index = self._fastpipe_current_index()
        other = copy.copy(self)
        other._fastpipe_set_samples(index.take(_positions(indices, len(index))))
        return other

    def split(self: Self, fractions: Sequence[float], seed: int = 0, stratified: bool = False) -> tuple[Self, ...]:
        """Splits the samples at random into disjoint datasets; each keeps the order of this one.

        Args:
            fractions: each dataset's share of the samples; they sum to 1.
            seed: seeds the split; the global generators don't change.
            stratified: give each dataset its share of every target, to within two samples.

        Raises:
            ValueError: a fraction is negative, or the fractions don't sum to 1.
        """
        shares = np.asarray(fractions, np.float64)
        if shares.ndim != 1 or not len(shares) or (shares < 0).any() or abs(shares.sum() - 1) > 1e-6:
            raise ValueError(f"fractions={fractions!r}: give numbers from 0 to 1 that sum to 1, as (0.9, 0.1)")
        index = self._fastpipe_current_index()
        generator = np.random.default_rng(seed)
        order = generator.permutation(len(index))
        if stratified:
            order = order[np.argsort(index.labels[order], kind="stable")]
            counts = np.unique(index.labels, return_counts=True)[1]
            splits = _stratified(order, counts, shares)
        else:
            splits = np.split(order, _bounds(len(order), shares))
        return tuple(self.subset(np.sort(split)) for split in splits)

    def _fastpipe_current_index(self) -> ImageIndex:
        """The samples' index; if a list was assigned to `samples`, an index made of that list."""
        index = self._fastpipe_index
        if index is not None:
            return index
        rows = index_of_rows(([path for path, _ in self.samples], [label for _, label in self.samples]))
        listing = Listing(rows.table, self.index.classes, self.index.class_values)
        return ImageIndex.from_listing(listing, rows.root, rows.source)


def _index_of(source: object, root: Root, columns: tuple[Column, Column]) -> ImageIndex:
    if isinstance(source, ImageIndex):
        return source
    store = source_of(root, None)
    name = _name_of(root, store) or ""
    if isinstance(source, (str, os.PathLike)):
        return ListSource(path=local_path(source), columns=columns, root=name, bytes_from=store).index()
    return index_of_rows(source, name, store)


def _name_of(root: Root, store: ByteSource | None) -> str | None:
    if store is not None:
        return store.name
    return None if root is None or isinstance(root, ByteSource) else local_path(root)


def _positions(indices: object, count: int) -> Array:
    if isinstance(indices, slice):
        return np.arange(*indices.indices(count))
    picks: Array = np.asarray(indices)
    if picks.dtype == bool:
        if picks.shape != (count,):
            raise IndexError(f"there are {pluralize(picks.size, 'boolean')} for {pluralize(count, 'sample')}")
        return np.arange(count)[picks]
    if not picks.size:
        return np.zeros(0, np.int64)
    if picks.ndim != 1 or picks.dtype.kind not in "iu":
        raise TypeError(f"positions are a sequence of integers, a slice or an array of booleans; not {indices!r:.60}")
    positions: Array = picks.astype(np.int64)
    positions[positions < 0] += count
    if positions.min() < 0 or positions.max() >= count:
        raise IndexError(f"a position is out of range of {pluralize(count, 'sample')}")
    return positions


def _bounds(count: int, shares: Array) -> Array:
    """The end of each split but the last; each has its share of `count` to within one sample."""
    bounds: Array = np.rint(np.cumsum(shares)[:-1] * count).astype(np.int64)
    return bounds


def _stratified(order: Array, counts: Array, shares: Array) -> list[Array]:
    """Splits samples that are sorted by target: each target's group is cut into the splits.

    Cuts are rounded on cumulated counts, so that rounding errors of one group are made up for by the next and the
    splits' total sizes come out right as well.
    """
    cumulated = np.concatenate([[0.0], np.cumsum(shares)])
    cumulated[-1] = 1.0
    splits: list[list[Array]] = [[] for _ in shares]
    for begin, end in itertools.pairwise([0, *np.cumsum(counts).tolist()]):
        cuts = np.floor(cumulated * end + 0.5) - np.floor(cumulated * begin + 0.5)
        cuts = np.maximum.accumulate(cuts).astype(np.int64)  # a difference of roundings may step back by one
        for split, (first, last) in zip(splits, itertools.pairwise(cuts.tolist()), strict=True):
            split.append(order[begin + first : begin + last])
    return [np.concatenate(split) if split else order[:0] for split in splits]
