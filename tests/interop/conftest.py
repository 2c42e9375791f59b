from __future__ import annotations

from pathlib import Path

import pytest
from recipe_conformance import write_photos


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two classes."""
    return write_photos(tmp_path_factory.mktemp("recipes"))
