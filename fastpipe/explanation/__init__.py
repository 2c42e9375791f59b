"""The plan as text: what runs where, exact or not, and why."""

from fastpipe.explanation.describe import explain

__all__ = ["explain"]
