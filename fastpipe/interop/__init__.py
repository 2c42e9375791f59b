"""Other libraries' transforms and datasets, recognised by their class and planned or converted."""

from typing import Any, TypeAlias

Foreign: TypeAlias = Any
"""An object of another library: what it has is checked by its class and, where needed, by its code's fingerprint."""
