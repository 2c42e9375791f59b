"""The config file from the command line: shown, removed, changed by hand."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image

from fastpipe.config import MachineConfig, current_config, format_key
from fastpipe.errors import ConfigError
from fastpipe.readers import get_reader
from fastpipe.reporting.output import check_writable, write_json


def show(*, json: str | None = None, quiet: bool = False) -> bool:
    """Prints the config file's place, whether it is used, and the reader of each format.

    Args:
        json: a file; ``"-"`` for standard output, where the text then doesn't go.
        quiet: no text.

    Returns:
        False where there is a config file that isn't used, because it was measured elsewhere.

    Raises:
        ConfigError: the config file or ``FASTPIPE_READER`` can't be understood, or `json` can't be written.
    """
    file = MachineConfig.path()
    stored = MachineConfig.load(check=False)
    other = stored.mismatches()
    override = os.environ.get("FASTPIPE_READER")
    effective = stored if not other else MachineConfig()
    if override:
        effective = current_config()
        for reader in effective.readers.values():
            get_reader(reader)
    check_writable(json, "--json")
    if json is not None:
        write_json(json, {**_values(file, stored, effective), "differs": list(other), "override": override})
    if not quiet and json != "-":
        _print_stored(file, stored, other)
        if override:
            print(f"FASTPIPE_READER={override} overrides it:")
            print_readers(effective)
    return not other


def _values(file: Path, stored: MachineConfig, effective: MachineConfig) -> dict[str, Any]:
    return {
        "file": str(file),
        "exists": file.exists(),
        "created": stored.created,
        "readers": dict(effective.readers),
        "measured": {format: dict(times) for format, times in stored.measured.items()},
    }


def _print_stored(file: Path, stored: MachineConfig, other: Sequence[str]) -> None:
    if not file.exists():
        print(f"No config file ({file}): built-in defaults. `fastpipe configure` measures and writes one.")
    elif other:
        print(f"{file} is not used, because it was not measured here:")
        print(*(f"  {phrase}" for phrase in other), sep="\n")
        print("Built-in defaults apply; `fastpipe configure` measures this machine.")
    else:
        print(f"{file}{f', measured {stored.created}' if stored.created else ''}:")
        print_readers(stored)


def reset(*, quiet: bool = False) -> None:
    """Removes the config file.

    Args:
        quiet: don't say so.

    Raises:
        ConfigError: it can't be removed.
    """
    file = MachineConfig.path()
    try:
        file.unlink()
        said = f"Removed {file}: built-in defaults."
    except FileNotFoundError:
        said = f"No config file ({file}): built-in defaults already."
    except OSError as error:
        raise ConfigError(f"can't remove the config file {file}: {error.strerror or error}") from error
    if not quiet:
        print(said)


def choose_by_hand(items: Iterable[str], *, quiet: bool = False) -> None:
    """Writes readers chosen by hand into the config file, beside what was measured where that still holds here.

    Args:
        items: ``"jpeg=cv2"``; the format ``*`` stands for every format without an entry of its own.
        quiet: print nothing.

    Raises:
        ConfigError: an item isn't ``format=reader``, or the reader doesn't read that format.
        ReaderError: the reader is unknown or doesn't load here.
    """
    chosen = {}
    for item in items:
        format, equals, reader = (part.strip() for part in item.partition("="))
        if not (format and equals and reader):
            raise ConfigError(f"--set {item}: give FORMAT=READER, such as --set jpeg=cv2")
        key, able = format_key(format), get_reader(reader).capabilities.formats
        refused = [str(one) for one in get_reader(reader).defects if key in map(format_key, one.formats)]
        if "*" in able:
            Image.init()
            able = frozenset(Image.OPEN)
        known = {format_key(name) for name in able}
        if key != "*" and key not in known:
            said = [f"--set {item}: reader {reader!r} reads {', '.join(sorted(known))}, not {key}", *refused]
            raise ConfigError("; not ".join(said))
        chosen[key] = reader
    stored = MachineConfig.load(check=False)
    dropped = bool(stored.mismatches())
    if dropped:
        stored = MachineConfig()
    config = replace(stored, readers={**stored.readers, **chosen})
    written = config.save()
    if not quiet:
        if dropped:
            print(f"What {written} held was not measured here and is dropped.")
        print(f"Written to {written}:")
        print_readers(config)


def print_readers(config: MachineConfig) -> None:
    """Prints the reader of each format, and its time where that was measured."""
    for format, reader in sorted(config.readers.items()):
        time = config.measured.get(format, {}).get(reader)
        print(f"  {format} = {reader}" + ("" if time is None else f"  ({time:.0f} µs a region)"))
    if not config.readers:
        print("  no reader chosen: built-in defaults")
