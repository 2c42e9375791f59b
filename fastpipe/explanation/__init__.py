"""The plan as text: what runs where, exact or not, and why."""

from fastpipe.explanation.describe import explain

__all__ = ["explain"]


def __dir__() -> list[str]:
    return sorted(__all__)
