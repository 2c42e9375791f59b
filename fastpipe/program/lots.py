"""Many images from files to their places in a batch, without a Python object for each on the way.

That is what most training does: crops and flips, drawn together, of files whose headers the core has read. A decode
leaves nothing of Python's in the processor's caches, and what Python does it does with the lock of all its threads; so
their jobs are filled in one call. The result is that of `start_together`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastpipe import core
from fastpipe.ops import Crop
from fastpipe.program.batch import BatchBuilder
from fastpipe.program.execute import DIRECT, WHOLE, Encoded
from fastpipe.program.lower import lower
from fastpipe.program.straight import Followed
from fastpipe.program.together import Started, Work, engine_of, limits_of
from fastpipe.types import ImageShape, Recipe


class Lot(Sequence[Work]):
    """Images whose files were read, and for each of which a crop was drawn that is resized, and flips.

    Once they are started they are what each of them is to be made of, for those that the core refuses.

    Args:
        files: as they were read.
        drawn: for each of them.
        behind: what follows a crop, by the flips that were drawn; the core has all of it.
        encoded: a file by itself, by its number.
    """

    def __init__(
        self,
        files: core.Files,
        drawn: Sequence[core.Drawn],
        behind: Mapping[int, Followed],
        encoded: Callable[[int], Encoded],
    ) -> None:
        self.files, self._drawn, self._behind, self._encoded = files, drawn, behind, encoded
        self._shapes = files.shapes()
        self._first: Work | None = None

    def recipe(self, number: int) -> Recipe:
        """What was drawn for an image, as for any other."""
        *box, flips = self._drawn[number]
        return Recipe(ImageShape(*self._shapes[number][:2]), (Crop(*box), *self._behind[flips].steps))

    def encoded(self, number: int) -> Encoded:
        """The file of an image, as of any other, until the files are given back."""
        return self._encoded(number)

    def start(self, builder: BatchBuilder, first: int, threads: int) -> Started | None:
        """Has the core make the images, as `start_together`; None where they don't fit into the batch.

        Args:
            builder: of the batch.
            first: the place of the first of them in it.
            threads: how many make them.
        """
        places = range(first, first + len(self))
        work = builder.accept_alike(places, lower(self.recipe(0)), self.encoded(0))
        if work is None or work.program.conversion is None or work.images.dtype not in DIRECT:
            return None
        self._first = work
        engine = engine_of(threads)
        jobs, limits = engine.jobs(len(self)), limits_of(work.encoded)
        models = engine.models.pop() if engine.models else core.Batch(1 << core.MOST_CHANCES)
        batch = core.Places(work.images)
        sink = batch.sink(*work.program.conversion.arithmetic)
        for flips, followed in self._behind.items():
            assert followed.packed is not None
            models[flips].whole((0, 0), WHOLE, limits, followed.packed, 0, sink)
        self.files.fill(jobs, models, self._drawn, batch.first + first * batch.step, batch.step)
        engine.models.append(models)
        return Started([], self, engine, jobs)

    def __len__(self) -> int:
        return len(self._drawn)

    def __getitem__(self, number: Any) -> Any:
        assert self._first is not None
        program, _, images, first = self._first
        program = lower(self.recipe(number))._replace(conversion=program.conversion)
        return Work(program, self.encoded(number), images, first + number)
