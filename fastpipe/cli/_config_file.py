"""Measures, shows, changes and removes the config file of readers, for ``fastpipe configure``."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import click

from fastpipe.config import MachineConfig, current_config, format_key
from fastpipe.errors import ConfigError, ReaderError, ReaderUnavailableError
from fastpipe.progress_bar import SlowBar
from fastpipe.readers import check_formats, check_readers, configured_reader
from fastpipe.reporting.output import give_report, wrap_text, write_json_if_asked


def measure(json: str | None, quiet: bool, path: str | None, **options: Any) -> None:
    """Measures readers and writes the config file; keeps its entries for other formats if they are valid here."""
    from fastpipe.tools.bench.choose import to_config  # imported here, as it imports torch
    from fastpipe.tools.bench.result import bench

    try:
        earlier = MachineConfig.load(check=False)
    except ConfigError:
        earlier = None  # an unreadable file is replaced
    with SlowBar(shown=not quiet) as bar:
        result = bench(path, progress=bar.show, **options)
    config = to_config(result.measurement, result.choices, earlier)
    written = config.save()  # before printing, which fails if the pipe is closed
    if give_report(result, json, quiet):
        print(f"\nWritten to {written}:")
        _print_readers(config)


def show(json: str | None, quiet: bool) -> None:
    """Prints the file's path, whether it is used, and each format's reader; exits with 1 if it is stale."""
    file = MachineConfig.path()
    problem = ""
    try:
        stored = MachineConfig.load(check=False)
    except ConfigError as error:
        stored, problem = MachineConfig(), str(error)
    other = stored.mismatches()
    override = os.environ.get("FASTPIPE_READER")
    effective = stored if not other else MachineConfig()
    if override:
        effective = current_config()
        for format in effective.readers:
            configured_reader(format, effective)
        check_formats(effective.readers)
    values = {
        "file": str(file),
        "exists": file.exists(),
        "created": stored.created,
        "readers": dict(effective.readers),
        "measured": {format: dict(times) for format, times in stored.measured.items()},
        "problem": problem,
        "differs": list(other),
        "override": override,
    }
    if write_json_if_asked(json, values, quiet):
        if problem:
            print(wrap_text(f"{problem} Until then built-in defaults apply."))
        elif not file.exists():
            message = f"No config file ({file}): built-in defaults. `fastpipe configure` measures and writes one."
            print(wrap_text(message))
        elif other:
            print(wrap_text(f"{file} is not used, because it was not measured here:"))
            print(*(wrap_text(f"  {phrase}") for phrase in other), sep="\n")
            print("Built-in defaults apply; `fastpipe configure` measures this machine.")
        else:
            print(wrap_text(f"{file}{f', measured {stored.created}' if stored.created else ''}:"))
            _print_readers(stored)
        if override:
            print(f"FASTPIPE_READER={override} overrides it:")
            _print_readers(effective)
    if other:
        raise click.exceptions.Exit(1)


def reset(quiet: bool) -> None:
    """Removes the config file."""
    file = MachineConfig.path()
    try:
        file.unlink()
        said = f"Removed {file}: built-in defaults."
    except FileNotFoundError:
        said = f"No config file ({file}): built-in defaults already."
    except OSError as error:
        raise ConfigError(f"can't remove the config file {file}: {error.strerror or error}") from error
    if not quiet:
        print(wrap_text(said))


def choose_by_hand(items: list[str], quiet: bool) -> None:
    """Writes readers such as ``"jpeg=cv2"`` into the config file; keeps measured entries if they are valid here."""
    chosen = dict(_reader_by_hand(item) for item in items)
    stored = MachineConfig.load(check=False)
    dropped = bool(stored.mismatches())
    if dropped:
        stored = MachineConfig()
    config = replace(stored, readers={**stored.readers, **chosen})
    written = config.save()
    if not quiet:
        if dropped:
            print(wrap_text(f"The entries of {written} were not measured here and are dropped."))
        print(f"Written to {written}:")
        _print_readers(config)


def _reader_by_hand(item: str) -> tuple[str, str]:
    """Parses FORMAT=READER into the config's key and the reader's name; ``*`` is for formats without their own key."""
    format, equals, name = (part.strip() for part in item.partition("="))
    if not (format and equals and name):
        raise ConfigError(f"--set {item}: give FORMAT=READER, such as --set jpeg=cv2")
    key = format_key(format)
    check_readers({key: name})
    return key, name


def _print_readers(config: MachineConfig) -> None:
    """Prints the reader of each format, and its time if measured."""
    for format, reader in sorted(config.readers.items()):
        time = config.measured.get(format, {}).get(reader)
        about = "" if time is None else f"  ({time:,.0f} µs a region)"
        try:
            check_readers({format: reader})
        except (ConfigError, ReaderError) as error:
            why = "doesn't load here" if isinstance(error, ReaderUnavailableError) else str(error).rstrip(".")
            about = f"  ({why}: the built-in order is used)"
        print(f"  {format} = {reader}{about}")
    if not config.readers:
        print("  no reader chosen: built-in defaults")
