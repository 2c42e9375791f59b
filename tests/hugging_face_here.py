"""Hugging Face's ``datasets``, of whose name there is a folder of tests."""

from __future__ import annotations

import sys
from typing import Any

import pytest


def datasets() -> Any:
    """The package; skips the test if it isn't installed."""
    pytest.importorskip("datasets.arrow_dataset", reason="Hugging Face's datasets isn't installed")
    return sys.modules["datasets"]
