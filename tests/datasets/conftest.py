"""Fixtures that the tests of datasets share."""

from __future__ import annotations

import pytest

from fastpipe.index import pieces


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders count as settled at once: what is tested here is not the time that passes."""
    monkeypatch.setattr(pieces, "SETTLED_NS", -(10**18))
