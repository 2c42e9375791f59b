"""`explain`: a plan as text, with what runs where, what is exact, and why."""

from fastpipe.tools.explain.describe import explain

__all__ = ["explain"]


def __dir__() -> list[str]:
    return sorted(__all__)
