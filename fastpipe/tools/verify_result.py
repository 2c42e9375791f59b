"""The result of `verify`: as text, as JSON and as a picture."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fastpipe.environment import versions
from fastpipe.reporting.output import pluralize, wrap_text
from fastpipe.reporting.pictures import Cell, PixelArray, difference, grid, pictures_of

_SHOWN = 3
_PACKAGES = (
    *("torch", "torchvision", "pillow", "numpy", "opencv-python-headless", "opencv-python"),
    "turbojpeg",
)


@dataclass(slots=True)
class Check:
    """A property that must hold for each of many samples.

    Attributes:
        name: the property.
        count: the number of comparisons.
        equal: the number of comparisons in which it held.
        failures: the first comparisons in which it didn't, one line each.
    """

    name: str
    count: int = 0
    equal: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return self.equal == self.count

    def add(self, holds: bool, where: str) -> None:
        self.count += 1
        self.equal += holds
        if not holds and len(self.failures) < 10:
            self.failures.append(where)


@dataclass(frozen=True, slots=True)
class WorstSample:
    """The sample that differs most from torchvision's.

    Attributes:
        path: the file.
        drawing: the number of its drawing, from 1.
        recipe: the drawn steps, in words.
        largest: the largest difference, in 1/255.
        original: the whole image.
        torchvision, fastpipe: the results, ``(H, W, C)`` on the scale of 0 to 255.
    """

    path: str
    drawing: int
    recipe: tuple[str, ...]
    largest: float
    original: Image.Image
    torchvision: PixelArray
    fastpipe: PixelArray


@dataclass(frozen=True, slots=True, repr=False)
class Certificate:
    """The result of `verify`: whether a transform's samples equal torchvision's byte for byte; ``print`` it.

    Attributes:
        transform: the transform's repr.
        files: the number of files that were read.
        drawings: the number of drawings of each file.
        compared: the number of compared samples; fewer than all if a file can't be read, or an image not transformed.
        equal: the number of samples that equal torchvision's, byte for byte.
        sha256: the hash of all finished samples; if they equal torchvision's, it is the same on every machine with this
            version of Pillow. Empty if none was compared.
        checks: the check of finished samples, and the check of errors.
        worst: the sample whose pixels differ most from torchvision's; None if all are equal, or sizes differ.
        notes: what couldn't be compared, and why.
    """

    transform: str
    files: int
    drawings: int
    compared: int
    equal: int
    sha256: str
    checks: tuple[Check, ...]
    worst: WorstSample | None
    notes: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """True if every check holds; False if nothing could be compared."""
        return self.compared > 0 and all(check.holds for check in self.checks)

    def to_dict(self) -> dict[str, object]:
        """The result as JSON values."""
        names = ("path", "drawing", "recipe", "largest")
        worst = None if self.worst is None else {name: getattr(self.worst, name) for name in names}
        plain = {one.name: getattr(self, one.name) for one in fields(self)} | {
            "checks": [{**asdict(check), "holds": check.holds} for check in self.checks],
            "worst": worst,
            "versions": versions(*_PACKAGES),
        }
        return {"schema": "fastpipe-verify/2", "holds": self.holds, **plain}

    def __str__(self) -> str:
        times = "once" if self.drawings == 1 else f"{self.drawings} times"
        drawn = f"{self.files} file{'' if self.files == 1 else 's'}, each drawn {times}"
        lines = [f"fastpipe against torchvision: {drawn}", ""]
        width = max((len(check.name) for check in self.checks), default=0)
        for check in self.checks:
            lines.append(
                f"  {check.name:<{width}}  {check.equal:>6} of {check.count:<6}  {'yes' if check.holds else 'NO'}"
            )
            lines += [f"      {failure}" for failure in check.failures[:_SHOWN]]
        if self.sha256:
            lines += ["", f"sha256 of fastpipe's samples: {self.sha256}"]
        if self.worst is not None:
            recipe = "; ".join(self.worst.recipe) or "nothing drawn"
            differ = f"{self.compared - self.equal:,}, by up to {self.worst.largest:.3g} of 255"
            lines += ["", f"Samples that differ: {differ}"]
            lines += ["", f"Worst image: {self.worst.path}, drawing {self.worst.drawing}", f"  {recipe}"]
        if self.notes:
            lines += ["", *(f"Note: {note}" for note in self.notes)]
        lines += ["", self._verdict()]
        return wrap_text("\n".join(lines))

    __repr__ = __str__

    def _verdict(self) -> str:
        if not self.compared:
            return "FAIL: no image could be compared"
        return "PASS: equal, byte for byte" if self.holds else "FAIL: not equal"

    def picture(self, side: int = 320) -> Image.Image:
        """Draws the worst image: the original, torchvision's result, fastpipe's, and their amplified difference.

        Args:
            side: the side of each picture, in pixels.
        """
        verdict = "PASS" if self.holds else "FAIL"
        largest = 0.0 if self.worst is None else self.worst.largest
        heading = f"fastpipe verify: {verdict}, {pluralize(self.files, 'file')}, largest difference {largest:.3g}/255"
        if self.worst is None:
            said = "all images equal" if self.holds else "other sizes" if self.compared else "none compared"
            color = (225, 240, 225) if self.holds else (240, 225, 225)
            return grid([[Cell(Image.new("RGB", (side, side), color), (said,))]], heading=heading)
        worst = self.worst
        (theirs,), (ours,) = pictures_of(worst.torchvision / 255), pictures_of(worst.fastpipe / 255)
        cells = [
            Cell(worst.original, ("original", "/".join(Path(worst.path).parts[-2:]))),
            Cell(theirs, ("torchvision", *worst.recipe)),
            Cell(ours, ("fastpipe", "the same random numbers")),
            difference_cell(worst.fastpipe, worst.torchvision, side),
        ]
        return grid([cells], side=side, heading=heading)


def difference_cell(ours: PixelArray, theirs: PixelArray, side: int) -> Cell:
    """Draws the amplified difference of two images ``(H, W, C)``, 0 to 255, with its figures."""
    apart = distances(ours, theirs)
    most = int(np.quantile(np.ceil(apart), 0.999, method="inverted_cdf"))
    # Not scaled by the largest difference: beside one pixel of 75, thousands of 1 to 5 would be black.
    factor = max(1, 255 // max(most, 1))
    figures = ["no difference"]
    if apart.any():
        figures = [f"mean {apart.mean():.3f}, 99.9% {most}, max {apart.max():.3g} of 255"]
        figures.append(f"{np.count_nonzero(apart):,} of {apart.size:,} values differ")
    return Cell(difference(apart, factor, side=side), (f"difference x {factor}", *figures))


def distances(one: PixelArray, other: PixelArray) -> NDArray[np.float64]:
    """The absolute differences of two images of the same shape, 0 to 255."""
    # Differences below a thousandth of 1/255 come from both sides' float32 arithmetic.
    apart: NDArray[np.float64] = np.abs(one.astype(np.float64) - other.astype(np.float64)).round(3)
    return apart
