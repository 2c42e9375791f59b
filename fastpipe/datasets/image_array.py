"""`ImageArray`: images in memory, in one array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized

from PIL import Image

from fastpipe.counts import pluralize
from fastpipe.datasets.base import ImageDataset, SampleT
from fastpipe.datasets.options import SampleOptions, Unpack, with_options
from fastpipe.errors import DatasetError
from fastpipe.executor import ImageStages, PixelArray, PixelStages
from fastpipe.types import Target, Transform


class ImageArray(ImageDataset[SampleT]):
    """A map-style dataset over images in memory: a batch is made from the array by one call of the core.

    A transform gets a PIL image in mode RGB or L, as from torchvision's CIFAR10 and MNIST. For a planned transform, the
    core reads the array itself.

    Args:
        data: uint8, ``(N, H, W)`` or ``(N, H, W, 3)``, with any strides; an array, or a tensor in main memory. It isn't
            copied: forked workers share it; spawned workers get it pickled.
        targets: N targets.
        transform: takes a PIL image (a fastpipe transform: is compiled).
        target_transform: takes the target.
        channels_first: colour images have the shape ``(N, 3, H, W)``.
        seed, threads, on_error, bad_files_log, max_bad_fraction: as in `ImageFolder`.

    Attributes:
        data, targets: as given; either may be replaced.
        channels_first: as given.

    Raises:
        DatasetError: the data has another shape or type, or there are more or fewer targets than images.
    """

    channels_first: bool = False

    @with_options(SampleOptions)
    def __init__(
        self,
        data: Sized,
        targets: Sequence[Target],
        transform: Transform | None = None,
        target_transform: Transform | None = None,
        *,
        channels_first: bool = False,
        **options: Unpack[SampleOptions],
    ) -> None:
        super().__init__(transform, target_transform, **options)
        self.data, self.channels_first = data, channels_first
        self.targets = targets
        count = len(PixelArray(data, channels_first))
        if len(targets) != count:
            raise DatasetError(f"there are {pluralize(count, 'image')}, and {pluralize(len(targets), 'target')}.")
        self._fastpipe_share_record()

    def __len__(self) -> int:
        return len(self.data)

    def sample(self, index: int) -> tuple[str, Target]:
        """The image's name for messages, and its target."""
        self._fastpipe_number(index)  # raises for an index out of range
        return f"data[{index}]", self.target_of(index)

    def samples_at(self, indices: Sequence[int]) -> Iterable[tuple[str, Target]]:
        count, target_of = len(self), self.target_of
        if indices and (min(indices) < -count or max(indices) >= count):
            return map(self.sample, indices)
        return [(f"data[{index}]", target_of(index)) for index in indices]

    def image(self, index: int) -> Image.Image:
        """The image of a sample, as a transform gets it."""
        return PixelArray(self.data, self.channels_first).image(self._fastpipe_number(index))

    def target_of(self, index: int) -> Target:
        """The target of a sample; override it if it isn't ``targets[index]``."""
        return self.targets[index]

    def _fastpipe_stages(self) -> ImageStages:
        return PixelStages(self._fastpipe_stage_options(), PixelArray(self.data, self.channels_first))
