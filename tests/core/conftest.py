"""A context for each instruction set; without a library these tests are skipped."""

from __future__ import annotations

import core_jobs
import pytest

from fastpipe import core
from fastpipe.core.structs import Isa


@pytest.fixture(params=core_jobs.isas(), ids=lambda isa: isa.name.lower())
def context(request: pytest.FixtureRequest) -> core.Context:
    if not core.available():
        pytest.skip(core.why_not())
    isa: Isa = request.param
    return core.Context(isa)
