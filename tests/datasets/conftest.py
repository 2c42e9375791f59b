"""What the tests of datasets share."""

from __future__ import annotations

import pytest

from fastpipe.index import file_states


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders count as settled at once: what is tested here is not the time that passes."""
    monkeypatch.setattr(file_states, "SETTLED_NS", -(10**18))
