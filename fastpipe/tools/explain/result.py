"""The result of `explain`: a plan as values and as a tree of text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from fastpipe.environment import line_width
from fastpipe.interop.graph_breaks import GraphBreak
from fastpipe.types import Box, Size

_LONG = 120
_LABEL = 8  # the width of a branch's label, in characters
_IN_ASCII = str.maketrans(
    {"×": "x", "–": "-", "…": "...", "→": ">", "°": " degrees", "├": "|", "─": "-", "└": "`", "│": "|"}
)
_Branch = tuple[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class ExplainedStep:
    """One step on the decoded pixels."""

    step: str  # the step as a call
    contract: str  # ``"exact"`` or ``"own"``
    promise: str  # the contract in words


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """A plan for one example image; printed, it is a tree of what runs where."""

    subject: str  # the name of the explained object
    example: str  # the example image: a file of the dataset, or an assumed size
    shape: Size  # its height and width in pixels
    drawn: tuple[str, ...]  # the transforms whose random numbers are drawn from the image's size
    recipe: tuple[str, ...]  # the steps drawn for the example, in words
    box: Box  # the decoded region
    share: float  # the decoded share of the pixels, 0 to 1
    # for each format found in some of the dataset's files, the reader and what it decodes
    decoders: tuple[tuple[str, str], ...]
    steps: tuple[ExplainedStep, ...]  # the steps on the decoded pixels
    batch: str  # how samples become a batch
    broken_by: GraphBreak | None  # the first transform that isn't planned, and why; None if all are planned
    rest: tuple[str, ...]  # that transform and those after it
    # the transforms in `rest` that are called with each image; the others are planned on their results
    called: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # further remarks
    # if the dataset's own code loads the images and nothing is planned: what is decoded, and by what; else empty
    loaded_by: str = ""

    def to_dict(self) -> dict[str, object]:
        """The result as JSON values."""
        values = asdict(self)
        return {"schema": "fastpipe-explain/1", **values, "decoders": dict(self.decoders)}

    def text(self, *, ascii: bool = False, width: int | None = None) -> str:
        """Formats the plan as a tree.

        Args:
            ascii: use only ASCII characters for branches and signs.
            width: the most characters of a line, broken at spaces; None for ``COLUMNS``, the terminal's, or 80.
        """
        signs = _IN_ASCII if ascii else {}
        width = line_width() if width is None else width
        texts = [(self.subject, "", "  "), *_tree(self._branches())]
        return "\n".join(line for text in texts for line in _wrapped(width, *(one.translate(signs) for one in text)))

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def _branches(self) -> list[_Branch]:
        box, (height, width) = self.box, self.shape
        decode = f"rows {box.top}–{box.bottom}, columns {box.left}–{box.right} of {height}×{width}"
        decode += f" ({100 * self.share:.0f}% of the pixels)"
        decode += ", equal to Pillow's"
        if self.called and not self.steps and self.share == 1:
            decode = f"of {height}×{width} the part that a transform looks at, when it does, equal to Pillow's"
        nothing = "nothing"
        if self.loaded_by:
            decode, nothing = self.loaded_by, "nothing by plan"
        under = [f"{format}: {how}" for format, how in self.decoders]
        drawn = "from the size in the file's header, before a pixel is decoded"
        branches: list[_Branch] = [
            ("draw    " + (drawn if self.drawn else nothing), list(self.drawn)),
            (f"example {self.example}: {'; '.join(self.recipe) or f'{nothing} is drawn'}", []),
            ("decode  " + decode, under),
            (
                "run     " + ("on each image's pixels" if self.steps else nothing),
                [f"{step.step}: {step.promise}" for step in self.steps],
            ),
            ("batch   " + self.batch, []),
        ]
        if self.broken_by is None:
            branches.append(("then    nothing: the whole transform is planned", []))
        else:
            branches.append(self._unplanned(self.broken_by))
        return branches + [("note    " + note, []) for note in self.notes]

    def _unplanned(self, found: GraphBreak) -> _Branch:
        """The branch for the transform that isn't planned, and for the transforms after it."""
        name = found.transform if len(found.transform) <= _LONG else found.transform.partition("(")[0] + "(…)"
        if found.is_loading:
            after = [f"it calls {', '.join(self.rest)}"] if self.rest else []
            return f"then    {name} makes the image or the sample: {found.reason}", after
        others = [one for one in self.rest[1:] if one not in self.called]
        after = [f"after it, planned on what it gives: {', '.join(others)}"] if others else []
        if len(self.called) > 1:
            after.append(f"called as well: {', '.join(self.called[1:])}")
        return f"then    {name} is called with each image: {found.reason}", after


def _tree(branches: Sequence[_Branch], left: str = "") -> Iterator[tuple[str, str, str]]:
    """Yields each branch's text, with the prefix of its first line and the prefix of its other lines.

    Further lines of a text are aligned with the text, not with its label.
    """
    for number, (text, under) in enumerate(branches):
        last = number == len(branches) - 1
        inside = left + ("    " if last else "│   ")
        hang = ("│   " if under else "").ljust(4 if left else _LABEL)
        yield text, left + ("└── " if last else "├── "), inside + hang
        yield from _tree([(one, ()) for one in under], inside)


def _wrapped(width: int, text: str, first: str, others: str) -> list[str]:
    """Wraps a text, with prefixes for the first and the other lines; a word longer than a line isn't broken."""
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=others, break_long_words=False, break_on_hyphens=False
    )
