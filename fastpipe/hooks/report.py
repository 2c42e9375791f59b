"""The report of what was taken over: a table, JSON or a page."""

from __future__ import annotations

from dataclasses import dataclass

from fastpipe.hooks.ledger import Ledger, Site


@dataclass(frozen=True)
class Report:
    """What was taken over until now.

    Attributes:
        sites: what was taken over, of this process and its workers.
        notes: what else is to be said.
    """

    sites: tuple[Site, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, ledger: Ledger) -> Report:
        """The report of a ledger as it stands."""
        sites, notes = ledger.total()
        return cls(tuple(sites), tuple(notes))
