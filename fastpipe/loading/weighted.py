"""Samplers that draw indices by weights from a seed: resumable, divided among ranks, without a list of draws."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence, Sized
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import ConcatDataset, Sampler, Subset

from fastpipe.arguments import seed_number, whole_number
from fastpipe.errors import DatasetError
from fastpipe.loading.permutation import scramble
from fastpipe.loading.ranks import checked_ranks, rank_and_count
from fastpipe.loading.resumable import ResumableSampler

_Positions = NDArray[np.int64]


class WeightedSampler(ResumableSampler, Sampler[int]):
    """Draws indices by weights, like torch's ``WeightedRandomSampler``, in an order fixed by ``(seed, epoch)``.

    It keeps 8 bytes for each weight and computes indices on demand; torch's sampler draws all indices of an epoch at
    its beginning. Each epoch has new draws. Ranks take turns in one order, as with `DistributedSampler`.

    Args:
        weights: one for each sample, not negative; they needn't sum to 1.
        num_samples: indices in an epoch, of all ranks together; None for as many as there are weights.
        replacement: an index may be drawn again. False draws each index at most once in an epoch; this sorts a key for
            each weight when an epoch begins.
        seed: chooses the draws; the same on all ranks.
        num_replicas: the number of ranks; None for that of ``torch.distributed``, or 1 if it isn't initialised.
        rank: this process's rank, from 0; None for that of ``torch.distributed``, or 0.
        drop_last: drop indices at the end that don't suffice for all ranks; False continues from the order's front.

    Raises:
        DatasetError: no weight is positive, a weight is negative or not finite, ``num_samples`` without replacement
            exceeds the number of positive weights, or the rank isn't below ``num_replicas``.
    """

    def __init__(
        self,
        weights: Sequence[float] | NDArray[Any] | torch.Tensor,
        num_samples: int | None = None,
        replacement: bool = True,
        seed: int = 0,
        num_replicas: int | None = None,
        rank: int | None = None,
        drop_last: bool = False,
    ) -> None:
        try:
            values = np.asarray(weights, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DatasetError(f"weights={weights!r:.80}: give one finite number for each sample.") from error
        if values.ndim != 1 or not len(values) or not np.isfinite(values).all() or values.min() < 0 or not values.any():
            raise DatasetError(
                f"weights of shape {values.shape}: give one finite number for each sample, none negative, not all 0."
            )
        takes = "how many indices an epoch has, on all ranks"
        count = len(values) if num_samples is None else num_samples
        self.num_samples = whole_number("num_samples", count, takes, least=1, error=DatasetError)
        self.seed = seed_number(seed, error=DatasetError)
        self.replacement, self.drop_last = replacement, drop_last
        positive = int(np.count_nonzero(values))
        if not replacement and self.num_samples > positive:
            raise DatasetError(
                f"num_samples={self.num_samples}: give a number from 1 to {positive}, the positive weights, or "
                "replacement=True."
            )
        here, ranks = rank_and_count()
        ranks = ranks if num_replicas is None else num_replicas
        self.num_replicas, self.rank = checked_ranks(ranks, here if rank is None else rank)
        self._weights_digest = hashlib.blake2b(np.ascontiguousarray(values).data, digest_size=8).hexdigest()
        self._last = int(np.flatnonzero(values)[-1])
        # The table that draws use: with replacement, the cumulative sum of the weights; without, the weights.
        self._table = np.cumsum(values) if replacement else values.copy()

    def __len__(self) -> int:
        """The number of this rank's indices in an epoch."""
        return self._rank_share(self.num_samples)

    def _order_length(self) -> int:
        return self.num_samples

    def _settings(self) -> dict[str, object]:
        drawn = "with" if self.replacement else "without"
        weights = f"{self._weights_digest}, {drawn} replacement"
        return {**super()._settings(), "seed": self.seed, "weights": weights}

    def _index_at(self) -> Callable[[_Positions], _Positions]:
        if not self.replacement:
            return self._drawn_once().__getitem__
        sums, seed, epoch, last = self._table, self.seed, self.epoch, self._last

        def at(places: _Positions) -> _Positions:
            drawn = np.searchsorted(sums, _uniform(places, seed, epoch) * sums[-1], side="right")
            within: _Positions = np.minimum(drawn, last)  # a product may round up to the total
            return within

        return at

    def _drawn_once(self) -> _Positions:
        """Draws an epoch's indices without replacement; larger weights tend to come earlier.

        Source: P. Efraimidis, P. Spirakis, Weighted random sampling with a reservoir, 2006: the largest of
        ``log(u) / weight``.
        """
        uniform = _uniform(np.arange(len(self._table)), self.seed, self.epoch)
        with np.errstate(divide="ignore", invalid="ignore"):
            keys = np.where(self._table > 0, np.log1p(-uniform) / self._table, -np.inf)
        order: _Positions = np.argsort(-keys, kind="stable")[: self.num_samples]
        return order


class ClassBalancedSampler(WeightedSampler):
    """Draws indices so that each class is equally frequent, whatever its number of samples.

    Args:
        targets: the class of each sample, or a dataset that has it in ``targets``, also in a ``Subset`` or
            ``ConcatDataset``.
        num_samples, replacement, seed, num_replicas, rank, drop_last: as in `WeightedSampler`.

    Raises:
        DatasetError: as in `WeightedSampler`; or the dataset has no ``targets``, or they aren't one value a sample.
    """

    def __init__(
        self,
        targets: Sized | Sequence[object] | NDArray[Any] | torch.Tensor,
        num_samples: int | None = None,
        replacement: bool = True,
        seed: int = 0,
        num_replicas: int | None = None,
        rank: int | None = None,
        drop_last: bool = False,
    ) -> None:
        values = targets_of(targets)
        if values.ndim != 1 or not len(values):
            raise DatasetError(f"targets of shape {values.shape}: give one class for each sample, and at least one.")
        _, classes, counts = np.unique(values, return_inverse=True, return_counts=True)
        super().__init__(1.0 / counts[classes], num_samples, replacement, seed, num_replicas, rank, drop_last)


def targets_of(thing: object) -> NDArray[Any]:
    """The class of each sample of a dataset, or of a sequence of classes, as an array ``(n,)``."""
    if isinstance(thing, Subset):
        return targets_of(thing.dataset)[np.asarray(thing.indices, dtype=np.int64)]
    if isinstance(thing, ConcatDataset):
        return np.concatenate([targets_of(part) for part in thing.datasets])
    is_list = isinstance(thing, (Sequence, np.ndarray, torch.Tensor))
    targets = getattr(thing, "targets", thing if is_list else None)
    if targets is None:
        raise DatasetError(
            f"a {type(thing).__name__} has no targets: give ClassBalancedSampler the class of each sample, as a list "
            "or an array."
        )
    return np.asarray(targets)


def _uniform(places: _Positions, seed: int, epoch: int) -> NDArray[np.float64]:
    """A number in [0, 1) for each place in an epoch's order: 53 bits of a keyed hash, splitmix64 of a counter."""
    digest = hashlib.shake_128(f"fastpipe weighted {seed},{epoch}".encode()).digest(16)
    start, gamma = (int(word) for word in np.frombuffer(digest, dtype="<u8"))
    mixed = places.astype(np.uint64) * np.uint64(gamma | 1) + np.uint64(start)
    scramble(mixed)
    mixed ^= mixed >> np.uint64(31)
    uniform: NDArray[np.float64] = (mixed >> np.uint64(11)) * 2.0**-53
    return uniform
