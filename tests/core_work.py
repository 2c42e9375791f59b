"""The work that the core does for images without pixels: decodes of files, and recorded steps."""

from __future__ import annotations

import importlib
from collections import Counter
from typing import Any

import pytest

from fastpipe.pillow.lazy_operations import PointTable
from fastpipe.program import core_job


class CoreWork:
    """Counts the core's jobs while the object's patches are in force.

    Attributes:
        decoded: the decoded area in whole images, by the file's bytes.
        jobs: number of jobs on files.
        steps: number of steps that these have run.
        tables: how many times each table of ``Image.point`` has been applied, by its entries.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.decoded: Counter[bytes] = Counter()
        self.jobs = 0
        self.steps = 0
        self.tables: Counter[bytes] = Counter()

        def from_file(job: Any, program: Any, encoded: Any) -> Any:
            shape, taken = core_job.fill_from_file(job, program, encoded)
            if isinstance(encoded, core_job.Encoded):
                height, width = encoded.header.size
                area: Any = program.box.height * program.box.width / (height * width)
                self.decoded[encoded.data] += area
                self.jobs += 1
                self.steps += taken
            self._note(program.steps[:taken])
            return shape, taken

        def from_pixels(job: Any, image: Any, channels: int, box: Any, steps: Any) -> Any:
            offset, shape, taken = core_job.fill_from_pixels(job, image, channels, box, steps)
            self._note(steps[:taken])
            return offset, shape, taken

        for module, ours in (("execute", from_file), ("parts", from_file), ("on_image", from_pixels)):
            home = importlib.import_module(f"fastpipe.program.{module}")  # the package has functions of these names
            patch.setattr(home, "fill_from_pixels" if ours is from_pixels else "fill_from_file", ours)

    def _note(self, steps: Any) -> None:
        self.tables.update(step.entries for step in steps if isinstance(step, PointTable))
