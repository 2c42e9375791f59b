"""The result of packing, as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from fastpipe.environment import line_width, versions
from fastpipe.packing.smaller import Changes
from fastpipe.packing.whole import NO_FILE
from fastpipe.reporting.output import format_bytes, pluralize, wrap_text

SCHEMA = "fastpipe-pack/2"
"""Identifies the layout of the JSON; the number grows when a key is removed or changes its meaning."""


@dataclass(frozen=True)
class PackResult:
    """The result of `fastpipe.pack` and `fastpipe.unpack`.

    Attributes:
        command: ``"pack"`` or ``"unpack"``.
        source: the source's name.
        target: the target's absolute path.
        files: the number of files in the target.
        converted: the number of files that are packed (unpacked).
        same_bytes: the number of files whose own bytes are restored by `unpack` (are restored), or that are copies.
        made_smaller: the number of files whose image was made smaller, in this run or before it was packed. The other
            files have the same pixels in other bytes: `same_pixels`.
        kept: the number of unconverted files, by reason.
        bytes_before: the files' bytes in the source.
        bytes_after: the files' bytes in the target.
        parts: the number of the target's archives; 0 for separate files.
        resumed: the number of files that were in the target before this run.
        changes: changes of images that were made smaller first.
        left_out: files beside the source's images that no dataset reads, by ending; they aren't in the target.
        seconds: the time that this run took.
    """

    command: str
    source: str
    target: str
    files: int
    converted: int
    same_bytes: int
    made_smaller: int
    kept: dict[str, int]
    bytes_before: int
    bytes_after: int
    parts: int
    resumed: int
    changes: Changes = field(default_factory=Changes)
    left_out: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    def about(self) -> dict[str, object]:
        """The result as JSON values."""
        values = asdict(self) | {"same_pixels": self.same_pixels, "seconds": round(self.seconds, 3)}
        values["versions"] = versions("pillow")
        values["smaller"] = values.pop("changes") if self.changes.images else None
        if self.changes.images:
            psnr = {"psnr": self.changes.psnr, "lowest_psnr": self.changes.lowest_psnr}
            values["smaller"] |= {name: round(one, 3) if math.isfinite(one) else None for name, one in psnr.items()}
        return {"schema": SCHEMA, **values}

    @property
    def same_pixels(self) -> int:
        """The number of files whose pixels come back (are back) in other bytes."""
        return self.files - self.same_bytes - self.made_smaller

    def _compared(self) -> list[str]:
        """The lines about bytes and pixels: what the target's files share with the source's, as compared."""
        packs = self.command == "pack"
        if self.same_bytes == self.files:
            return [f"all of them {'give' if packs else 'are'} the original JPEGs, byte for byte"]
        counts = {
            "all bytes": self.same_bytes,
            f"the pixels{'' if packs else ' of the packed image'}, without the original bytes": self.same_pixels,
            "a smaller image: the original can't be restored": self.made_smaller,
        }
        return ["the target keeps of each file:", *_column(counts)]

    def __str__(self) -> str:
        done = f"{self.command}ed"
        new = self.files - self.resumed
        rate = f" ({new / self.seconds:,.0f} a second)" if new and self.seconds >= 0.1 else ""
        lines = [f"{pluralize(self.converted, 'image')} {done} to {self.target} in {self.seconds:.1f} s{rate}"]
        if self.parts > 1:
            lines[0] += f", {pluralize(self.parts, 'shard')}"
        if self.resumed:
            lines.append(f"{pluralize(self.resumed, 'file')} of {self.files:,} were there before")
        ratio = f", {self.bytes_after / self.bytes_before:.2f} times" if self.bytes_before else ""
        lines.append(f"bytes: {format_bytes(self.bytes_before)} before, {format_bytes(self.bytes_after)} after{ratio}")
        if self.converted or self.made_smaller:
            lines += self._compared()
        if changes := self.changes if self.changes.images else None:
            lines.append(
                f"made smaller before: {pluralize(changes.images, 'image')}, "
                f"{changes.pixels_after / changes.pixels_before:.2f} times the pixels, "
                f"{changes.bytes_after / changes.bytes_before:.2f} times the bytes; encoding them anew: "
                f"{changes.psnr:.1f} dB PSNR, {changes.lowest_psnr:.1f} dB at the worst"
            )
        if self.kept:
            lines += [f"not {done}:", *_column(self.kept)]
        left_out = self.left_out.copy()
        if no_file := left_out.pop(NO_FILE, 0):
            lines.append(f"not copied: {no_file:,} that {'is' if no_file == 1 else 'are'} {NO_FILE}")
        if left_out:
            endings = ", ".join(f"{ending or 'no ending'} {count:,}" for ending, count in left_out.items())
            lines.append(f"not copied, as no dataset reads them: files with the endings {endings}")
        return "\n".join(wrap_text(line, width=line_width()) for line in lines)


def _column(counts: Mapping[str, int]) -> list[str]:
    """A line for each count that isn't 0, and what it counts."""
    digits = max(len(f"{count:,}") for count in counts.values())
    return [f"  {count:>{digits},}  {what}" for what, count in counts.items() if count]
