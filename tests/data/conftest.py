"""What the tests of datasets share."""

from __future__ import annotations

import pytest

from fastpipe.data import scan


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders count as settled at once: what is tested here is not the time that passes."""
    monkeypatch.setattr(scan, "_SETTLED_NS", -(10**18))
