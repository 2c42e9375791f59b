"""The config file of readers: measures, describes, changes and removes it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastpipe.config import MachineConfig, current_config, format_key
from fastpipe.errors import ConfigError, ReaderError, ReaderUnavailableError
from fastpipe.readers import check_formats, check_readers, configured_reader

if TYPE_CHECKING:
    from fastpipe.progress_bar import SlowBar
    from fastpipe.tools.bench.result import BenchResult


@dataclass(frozen=True)
class ConfigState:
    """The config file, and what is used of it here.

    Attributes:
        file: its path.
        exists: there is one.
        stored: what it says; empty if it can't be read.
        effective: what is used here.
        problem: why it can't be read; empty if it can.
        differs: how this machine differs from the one that it was measured on.
        override: the value of ``FASTPIPE_READER``; None without one.
    """

    file: Path
    exists: bool
    stored: MachineConfig
    effective: MachineConfig
    problem: str
    differs: Sequence[str]
    override: str | None

    def to_dict(self) -> dict[str, object]:
        """The state as values for JSON."""
        return {
            "file": str(self.file),
            "exists": self.exists,
            "created": self.stored.created,
            "readers": dict(self.effective.readers),
            "measured": {format: dict(times) for format, times in self.stored.measured.items()},
            "problem": self.problem,
            "differs": list(self.differs),
            "override": self.override,
        }


def measure(path: str | None, bar: SlowBar, options: Mapping[str, Any]) -> tuple[BenchResult, MachineConfig, Path]:
    """Measures readers and writes the config file; keeps its entries for other formats if they are valid here.

    Args:
        path: as of `fastpipe.tools.bench.result.bench`, as are the options.
        bar: shows the progress.
        options: further arguments.

    Returns:
        The measurement, the config, and where it was written.
    """
    from fastpipe.tools.bench.choose import to_config  # imported here, as it imports torch
    from fastpipe.tools.bench.result import bench

    try:
        earlier = MachineConfig.load(check=False)
    except ConfigError:
        earlier = None  # an unreadable file is replaced
    with bar:
        result = bench(path, progress=bar.show, **options)
    config = to_config(result.measurement, result.choices, earlier)
    return result, config, config.save()


def state() -> ConfigState:
    """The state of the config file."""
    file, problem = MachineConfig.path(), ""
    try:
        stored = MachineConfig.load(check=False)
    except ConfigError as error:
        stored, problem = MachineConfig(), str(error)
    differs, override = stored.mismatches(), os.environ.get("FASTPIPE_READER")
    effective = stored if not differs else MachineConfig()
    if override:
        effective = current_config()
        for format in effective.readers:
            configured_reader(format, effective)
        check_formats(effective.readers)
    return ConfigState(file, file.exists(), stored, effective, problem, differs, override)


def reset() -> tuple[Path, bool]:
    """Removes the config file; returns its path, and whether there was one."""
    file = MachineConfig.path()
    try:
        file.unlink()
    except FileNotFoundError:
        return file, False
    except OSError as error:
        raise ConfigError(f"can't remove the config file {file}: {error.strerror or error}") from error
    return file, True


def choose_by_hand(items: Sequence[str]) -> tuple[MachineConfig, Path, bool]:
    """Writes readers such as ``"jpeg=cv2"`` into the config file; keeps measured entries if they are valid here.

    Returns:
        The config, where it was written, and whether entries were dropped.
    """
    chosen = dict(_reader_by_hand(item) for item in items)
    stored = MachineConfig.load(check=False)
    dropped = bool(stored.mismatches())
    if dropped:
        stored = MachineConfig()
    config = replace(stored, readers={**stored.readers, **chosen})
    return config, config.save(), dropped


def _reader_by_hand(item: str) -> tuple[str, str]:
    """Parses FORMAT=READER into the config's key and the reader's name; ``*`` is for formats without their own key."""
    format, equals, name = (part.strip() for part in item.partition("="))
    if not (format and equals and name):
        raise ConfigError(f"--set {item}: give FORMAT=READER, such as --set jpeg=cv2")
    key = format_key(format)
    check_readers({key: name})
    return key, name


def readers_in_words(config: MachineConfig) -> str:
    """A line for the reader of each format, with its time if measured, or why it isn't used."""
    lines = []
    for format, reader in sorted(config.readers.items()):
        time = config.measured.get(format, {}).get(reader)
        about = "" if time is None else f"  ({time:,.0f} µs a region)"
        try:
            check_readers({format: reader})
        except (ConfigError, ReaderError) as error:
            why = "doesn't load here" if isinstance(error, ReaderUnavailableError) else str(error).rstrip(".")
            about = f"  ({why}: the built-in order is used)"
        lines.append(f"  {format} = {reader}{about}")
    return "\n".join(lines) or "  no reader chosen: built-in defaults"
