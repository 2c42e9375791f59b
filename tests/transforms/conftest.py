"""The programs that a Compose runs."""

from __future__ import annotations

from typing import Any

import pytest

from fastpipe.transforms import compose_plan


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The programs that are run."""
    run, ran = compose_plan.run_on_image, list[Any]()

    def noting(program: Any, image: Any, **options: Any) -> Any:
        ran.append(program)
        return run(program, image, **options)

    monkeypatch.setattr(compose_plan, "run_on_image", noting)
    return ran
