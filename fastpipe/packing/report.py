"""The result of packing, as text and as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field

from fastpipe.environment import line_width, versions
from fastpipe.packing.smaller import Changes
from fastpipe.reporting.output import format_bytes, pluralize, wrap_text

SCHEMA = "fastpipe-pack/1"
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
        exact: the number of converted files that restore (have) the JPEG's own bytes.
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
    exact: int
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
        values = {**asdict(self), "versions": versions("pillow"), "seconds": round(self.seconds, 3)}
        values["smaller"] = values.pop("changes") if self.changes.images else None
        if self.changes.images:
            psnr = {"psnr": self.changes.psnr, "lowest_psnr": self.changes.lowest_psnr}
            values["smaller"] |= {name: round(one, 3) if math.isfinite(one) else None for name, one in psnr.items()}
        return {"schema": SCHEMA, **values}

    def _exactly(self) -> str:
        """Says how many of the converted files restore, or are, the original JPEGs."""
        packs = self.command == "pack"
        if self.exact == self.converted:
            return f"all of them {'give' if packs else 'are'} the original JPEGs, byte for byte"
        if self.exact:
            others = self.converted - self.exact
            return (
                f"{self.exact:,} of them {'give' if packs else 'are'} the original JPEGs, byte for byte; of "
                f"{others:,} the original bytes were discarded"
            )
        return "their original bytes were discarded: JPEGs made of them have the same coefficients and metadata"

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
        if self.converted:
            lines.append(self._exactly())
        if changes := self.changes if self.changes.images else None:
            lines.append(
                f"made smaller before: {pluralize(changes.images, 'image')}, "
                f"{changes.pixels_after / changes.pixels_before:.2f} times the pixels, "
                f"{changes.bytes_after / changes.bytes_before:.2f} times the bytes; encoding them anew: "
                f"{changes.psnr:.1f} dB PSNR, {changes.lowest_psnr:.1f} dB at the worst"
            )
        if self.kept:
            lines.append("kept as they are:")
            digits = max(len(f"{count:,}") for count in self.kept.values())
            lines += [f"  {count:>{digits},}  {reason}" for reason, count in self.kept.items()]
        if self.left_out:
            endings = ", ".join(f"{ending or 'no ending'} {count:,}" for ending, count in self.left_out.items())
            lines.append(f"not copied, as no dataset reads them: files with the endings {endings}")
        return "\n".join(wrap_text(line, width=line_width()) for line in lines)
