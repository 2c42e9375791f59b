"""The ledger of hooked calls: images, times, checks, and unhooked calls with the reasons, of all processes."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import threading
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from fastpipe.atomic_write import atomic_write
from fastpipe.foreign_code import outcome_of
from fastpipe.hooks.account_folder import make_folder, remove_folder
from fastpipe.hooks.packing_gain import DecodesToMeasure, PackingSamples
from fastpipe.liveness import Owner
from fastpipe.plain_way import raise_interruption

if TYPE_CHECKING:
    from fastpipe.program.core_job import Encoded
    from fastpipe.types import Box

_CHECKED_AGAIN = 4096
"""Number of samples between two checks of a site, after the first ones have been checked."""

_CHECKS_SHARE = 0.01
"""The largest share of a process's time that checks take, but for the first ones."""

_FLUSHED_AFTER = 1.0  # seconds between two writes of a child process

_ENDED = ".ended.json"
"""The suffix of the ledger file of a process that has ended."""

_FOLDED_FROM = 8
"""The number of ledger files of ended processes from which on they are merged: each new process reads all."""


def failure(error: Exception) -> str:
    """The reason for the report, for images made in the plain way because fastpipe failed.

    A caller keeps this, and not the error, whose frames hold the caller's own, until the plain way has worked.
    """
    return f"fastpipe failed ({named(error)}), and the plain way was taken"


def named(error: BaseException) -> str:
    """An error's class and message; only the class if the message raises, as of a class of the user's it may."""
    said = outcome_of(lambda: f"{type(error).__name__}: {error}")
    if isinstance(said, Exception):  # of the user's ``__str__``
        raise_interruption(said)
        return type(error).__name__
    return said


DIFFERED = "a check found a difference"
"""The reason for the report, for images of a site that is off."""


@dataclass
class Site:
    """A hooked transform, dataset, library function or loader.

    "fastpipe's way" is the replacement, "the plain way" the library's own code. Times are processor seconds of the
    threads that made the images (`fastpipe.clock`), except `stalled`, `waited` and `running`.

    Attributes:
        kind: "transform", "dataset", "loader" or "function".
        name: the name in the report.
        images: number of images made in fastpipe's way, including checked ones.
        timed: number of images whose times count: none of a process's first call, which imports and compiles, and none
            that was checked.
        seconds: the time that the `timed` images took.
        checked: number of images that were made in both ways.
        compared: number of checks whose times count: all but the first in a process.
        plain_seconds: the time of the plain way for the `compared` checks.
        fast_seconds: the time of fastpipe's way for these, pixels included.
        stalled: wall-clock seconds that the plain way spent waiting in these: for a processor, a disk or a lock.
        differed: number of checks that found other bytes, or another state of a generator.
        left: number of images made in the plain way only, by the reason.
        is_off: only the plain way is used from now on.
        waited: seconds that the training waited for a loader.
        running: seconds that the loader was iterated.
        earlier: number of images of child processes that ended before this one began.
        packing: what packing would give, measured on a few of the checked images.
    """

    kind: str
    name: str
    images: int = 0
    timed: int = 0
    seconds: float = 0.0
    checked: int = 0
    compared: int = 0
    plain_seconds: float = 0.0
    fast_seconds: float = 0.0
    stalled: float = 0.0
    differed: int = 0
    left: dict[str, int] = field(default_factory=dict)
    is_off: bool = False
    waited: float = 0.0
    running: float = 0.0
    earlier: int = 0
    packing: PackingSamples = field(default_factory=PackingSamples)

    @classmethod
    def of(cls, values: dict[str, Any]) -> Site:
        """A site from its fields as `asdict` gives them."""
        return cls(**{**values, "packing": PackingSamples(**values["packing"])})

    def count(self, seconds: float | None, images: int = 1) -> None:
        """Counts images made in fastpipe's way, and their time.

        Args:
            seconds: the time that they took; None for images that were checked, or that have no pixels yet.
            images: number of images.
        """
        if self.images and seconds is not None:
            self.timed += images
            self.seconds += seconds
        self.images += images
        LEDGER.flush_child()

    def count_plain(self, reason: str, images: int = 1) -> None:
        """Counts images made in the plain way."""
        self.left[reason] = self.left.get(reason, 0) + images
        LEDGER.flush_child()

    def count_failed(self, error: Exception, images: int = 1) -> None:
        """Counts images made in the plain way because fastpipe failed."""
        self.count_plain(failure(error), images)

    def take_back(self, reason: str) -> None:
        """Counts an image for the plain way that was counted for fastpipe's when it was opened."""
        self.images -= 1
        self.count_plain(reason)

    def is_check_due(self, images: int = 1) -> bool:
        """True if one of the next images has to be checked."""
        check, done = LEDGER.check, self.earlier + self.images
        return bool(check) and (done < check or (-done % _CHECKED_AGAIN < images and LEDGER.has_time_to_check()))

    def add_check(self, plain_seconds: float, fast_seconds: float, difference: str, stalled: float = 0.0) -> None:
        """Counts a check.

        Args:
            plain_seconds: the processor time of the plain way.
            fast_seconds: that of fastpipe's way.
            difference: a description of the difference; empty if there is none. With one, the site is switched off,
                with a warning.
            stalled: see `Site`.
        """
        if self.checked:
            self.compared += 1
            self.plain_seconds += plain_seconds
            self.fast_seconds += fast_seconds
            self.stalled += stalled
        self.checked += 1
        LEDGER.checking += plain_seconds + stalled
        if difference:
            self.differed += 1
            self.is_off = True
            LEDGER.warn(f"{self.name}: {difference}. The plain result was taken, and will be from now on.")

    def note_decode(self, encoded: Encoded, box: Box | None) -> None:
        """Notes that a box of an image that is checked is decoded: what packing would give is measured on it later.

        A child process measures when it writes its ledger for the second time, this one when it reports.
        """
        LEDGER.decodes.note(self, encoded, box)

    def is_empty(self) -> bool:
        """True if nothing has been counted."""
        return not (self.left or any(getattr(self, name) for name in _SUMS))

    def add(self, other: Site) -> None:
        """Adds the counts of the same site in another process."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for reason, images in other.left.items():
            self.left[reason] = self.left.get(reason, 0) + images
        self.is_off = self.is_off or other.is_off
        self.packing.add(other.packing)


_SUMS = (
    "images",
    "timed",
    "seconds",
    "checked",
    "compared",
    "plain_seconds",
    "fast_seconds",
    "stalled",
    "differed",
    "waited",
    "running",
)


class _Account(TypedDict):
    """The ledger of a child process, as JSON; the names are those of `Site` and `Ledger`."""

    sites: list[dict[str, Any]]
    notes: list[str]


class Ledger:
    """The sites of this process and of its children.

    Attributes:
        check: number of first samples of each site that are checked.
        notes: further lines for the report, such as functions that were hooked too late; each once.
        is_child: this is the ledger of a child process, which its parent will read.
        checking: seconds that the plain way has taken for checks in this process.
        decodes: decodes of checked images, on which what packing would give is measured.
    """

    def __init__(self) -> None:
        self.check = 0
        self.checking = 0.0
        self.decodes = DecodesToMeasure()
        self._begun = time.monotonic()
        self.notes: dict[str, None] = {}
        self._sites: dict[tuple[str, str], Site] = {}
        self._folder: str | None = None
        self._owner: Owner | None = None
        self._account = ""
        self.is_child = False
        self._earlier: dict[tuple[str, str], Site] = {}
        self._flushed = 0.0
        self._lock = threading.RLock()

    def site(self, kind: str, name: str) -> Site:
        """The site of that kind and name; made if there is none."""
        known = self._sites.get((kind, name))
        if known is None:
            with self._lock:
                known = self._sites.setdefault((kind, name), self._fresh(kind, name))
        return known

    def _fresh(self, kind: str, name: str) -> Site:
        earlier = self._earlier.get((kind, name))
        if earlier is None:
            return Site(kind, name)
        return Site(kind, name, is_off=earlier.is_off, earlier=earlier.images)

    def has_time_to_check(self) -> bool:
        """True unless the checks have taken more than their share of this process's time."""
        return self.checking <= _CHECKS_SHARE * (time.monotonic() - self._begun)

    def note(self, text: str) -> None:
        """Adds a line to the report."""
        self.notes.setdefault(text)

    def warn(self, message: str) -> None:
        """Issues a warning, once for each message."""
        if message in self.notes:
            return
        self.note(message)
        import warnings

        from fastpipe.errors import FastpipeWarning

        warnings.warn(message, FastpipeWarning, stacklevel=4)

    # -- processes

    def folder(self) -> str:
        """The folder for child processes' ledger files; made at the first call."""
        if self._folder is None:
            self._folder, self._owner = make_folder()
        return self._folder

    @property
    def has_folder(self) -> bool:
        """True if the folder has been made, by this process or by one that started it."""
        return self._folder is not None

    def end(self) -> None:
        """Writes a child's ledger for the last time; removes the folder that this process has made."""
        self.flush_child(is_end=True)
        if self._owner is not None and self._folder is not None:
            remove_folder(self._folder, self._owner)

    def begin_child(self, folder: str) -> None:
        """Begins a child process's own ledger, which continues the checks of earlier children."""
        self._lock = threading.RLock()  # a thread of the parent may hold the old one
        self._folder, self.is_child = folder, True
        self._account = f"{os.getpid()}-{secrets.token_hex(4)}"
        self.checking, self._begun = 0.0, time.monotonic()
        self.decodes, self._flushed = DecodesToMeasure(), 0.0
        self.notes.clear()
        self._earlier.clear()
        _added(self._earlier, _accounts(folder))
        for site in self._sites.values():  # other objects refer to these sites
            fresh = self._fresh(site.kind, site.name)
            fresh.is_off = fresh.is_off or site.is_off
            vars(site).update(vars(fresh))

    def flush_child(self, is_end: bool = False) -> None:
        """Writes a child's ledger for its parent, from time to time and when the process ends."""
        if not self.is_child or self._folder is None:
            return
        now = time.monotonic()
        if not is_end and now - self._flushed < _FLUSHED_AFTER:
            return
        if self._flushed or is_end:
            self.decodes.measure()
        self._flushed = now
        sites = [site for site in self._sites.values() if not site.is_empty()]
        if not sites and not self.notes:
            return
        going_on = Path(self._folder) / f"{self._account}.json"
        try:
            _write(going_on.with_suffix(_ENDED) if is_end else going_on, sites, self.notes)
            if is_end:
                going_on.unlink(missing_ok=True)
        except OSError:
            pass  # the parent has ended, and removed its folder

    def hand_up(self, folder: str) -> None:
        """Writes all that is counted here for the process that has started this one as a program of its own.

        Args:
            folder: that process's folder.
        """
        sites, notes = self.total()
        with contextlib.suppress(OSError):  # that process has ended
            _write(Path(folder) / f"{os.getpid()}-{secrets.token_hex(4)}{_ENDED}", sites, notes)

    def fold_ended(self) -> None:
        """Merges the ledger files of ended children, before another child starts."""
        if self.is_child or self._folder is None:
            return
        with self._lock:
            ended = [*Path(self._folder).glob(f"*{_ENDED}")]
            if len(ended) < _FOLDED_FROM:
                return
            accounts = [json.loads(path.read_bytes()) for path in ended]
            whole = Path(self._folder) / f"all{_ENDED}"
            _write(whole, _added({}, accounts).values(), _notes_in(accounts))
            for path in ended:
                if path != whole:
                    with contextlib.suppress(OSError):  # on Windows while another process reads the file
                        path.unlink()

    def total(self) -> tuple[list[Site], list[str]]:
        """The sites and notes of this process and its children, for a report: measures what packing would give."""
        self.decodes.measure()
        return self._counted()

    def _counted(self) -> tuple[list[Site], list[str]]:
        sites = {key: Site.of(asdict(site)) for key, site in [*self._sites.items()]}
        accounts = [] if self._folder is None else _accounts(self._folder)
        notes = {**self.notes, **_notes_in(accounts)}
        return list(_added(sites, accounts).values()), list(notes)

    def has_images(self) -> bool:
        """True if this process or its children have made images."""
        return any(site.images for site in self._counted()[0] if site.kind != "loader")


def _accounts(folder: str) -> list[_Account]:
    """The ledgers that child processes have written."""
    accounts = []
    for path in sorted(Path(folder).glob("*.json")):
        with contextlib.suppress(FileNotFoundError):  # it has been merged meanwhile
            accounts.append(json.loads(path.read_bytes()))
    return accounts


def _added(sites: dict[tuple[str, str], Site], accounts: Iterable[_Account]) -> dict[tuple[str, str], Site]:
    """Adds the counts of ledgers to sites, in place, and returns the sites."""
    for account in accounts:
        for values in account["sites"]:
            site = Site.of(values)
            sites.setdefault((site.kind, site.name), Site(site.kind, site.name)).add(site)
    return sites


def _notes_in(accounts: Iterable[_Account]) -> dict[str, None]:
    return {note: None for account in accounts for note in account["notes"]}


def _write(path: Path, sites: Iterable[Site], notes: Iterable[str]) -> None:
    text = json.dumps({"notes": [*notes], "sites": [asdict(site) for site in sites]})
    with atomic_write(path, synced=False) as file:
        file.write(text.encode())


LEDGER = Ledger()
atexit.register(LEDGER.end)  # registered first here, so called after all that is registered later
