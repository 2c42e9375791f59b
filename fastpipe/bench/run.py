"""What ``fastpipe bench`` and ``fastpipe configure`` do once their arguments are parsed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from PIL import Image

from fastpipe.bench.choose import Choice, choose, to_config
from fastpipe.bench.measure import Measurement, measure
from fastpipe.bench.report import make_console, print_measurement, show_progress, to_json, write_json
from fastpipe.bench.samples import made_samples, sample_folder
from fastpipe.config import MachineConfig, current_config, format_key
from fastpipe.errors import ConfigError, UnsupportedRequestError
from fastpipe.readers import available_readers, get_reader, reader_status

__all__ = ["bench", "choose_by_hand", "configure", "reset", "show"]


def bench(
    path: str | os.PathLike[str] | None = None,
    *,
    readers: Sequence[str] | None = None,
    formats: Sequence[str] | None = None,
    workers: int | None = None,
    images: int = 24,
    rounds: int = 7,
    json: str | None = None,
    quiet: bool = False,
) -> tuple[Measurement, dict[str, Choice]]:
    """Measures, prints tables, and writes JSON where it is asked for.

    Args:
        path: a folder or file of the user's; None for made images.
        readers: names, each item maybe several with commas between; None for all that load here.
        formats: the config's keys of formats, likewise; None for all found.
        workers: DataLoader workers; None for one a usable CPU.
        images: of each format, at most.
        rounds: timed rounds.
        json: a file; ``"-"`` for standard output, where the tables then don't go.
        quiet: no progress bar and no table.

    Returns:
        The measurement, and the reader that it speaks for for each format.

    Raises:
        DatasetError: no image to measure.
        ReaderError: a named reader is unknown or doesn't load here, or none decodes the images.
        ConfigError: the JSON file can't be written.
    """
    measurement = _measure(path, readers, formats, workers, images, rounds, quiet)
    choices = choose(measurement)
    _report(measurement, choices, json, quiet)
    return measurement, choices


def configure(
    path: str | os.PathLike[str] | None = None,
    *,
    readers: Sequence[str] | None = None,
    formats: Sequence[str] | None = None,
    workers: int | None = None,
    images: int = 24,
    rounds: int = 7,
    json: str | None = None,
    quiet: bool = False,
    file: Path | None = None,
) -> MachineConfig:
    """Measures as `bench` does, chooses a reader for each format and writes the config file.

    What an earlier file says of formats that were not measured now is kept where it still holds on this machine.

    Args:
        file: the config file; None for the user's. The others are `bench`'s.

    Raises:
        ConfigError: the config file can't be written; and what `bench` raises.
    """
    try:
        earlier = MachineConfig.load(file, check=False)
    except ConfigError:
        earlier = None  # about to be replaced
    measurement = _measure(path, readers, formats, workers, images, rounds, quiet)
    choices = choose(measurement)
    config = to_config(measurement, choices, earlier)
    written = config.save(file)  # first of all: a closed pipe must not cost the measurement
    _report(measurement, choices, json, quiet)
    if not quiet and json != "-":
        print(f"\nWritten to {written}:")
        _print_readers(config)
    return config


def show() -> None:
    """Prints the config file's place, whether it is used, and the reader of each format.

    Raises:
        ConfigError: the file or ``FASTPIPE_READER`` can't be understood.
    """
    file = MachineConfig.path()
    stored = MachineConfig.load(check=False)
    if not file.exists():
        print(f"No config file ({file}): built-in defaults. `fastpipe configure` measures and writes one.")
    elif other := stored.mismatches():
        print(f"{file} is not used, because it was not measured here:")
        print(*(f"  {phrase}" for phrase in other), sep="\n")
        print("Built-in defaults apply; `fastpipe configure` measures this machine.")
    else:
        when = f", measured {stored.created}" if stored.created else ""
        print(f"{file}{when}:")
        _print_readers(stored)
    if override := os.environ.get("FASTPIPE_READER"):
        print(f"FASTPIPE_READER={override} overrides it:")
        effective = current_config()
        for reader in effective.readers.values():
            get_reader(reader)
        _print_readers(effective)


def reset() -> None:
    """Removes the config file.

    Raises:
        ConfigError: it can't be removed.
    """
    file = MachineConfig.path()
    try:
        file.unlink()
    except FileNotFoundError:
        print(f"No config file ({file}): built-in defaults already.")
    except OSError as error:
        raise ConfigError(f"can't remove the config file {file}: {error.strerror or error}") from error
    else:
        print(f"Removed {file}: built-in defaults.")


def choose_by_hand(items: Iterable[str]) -> None:
    """Writes readers chosen by hand into the config file, beside what was measured where that still holds here.

    Args:
        items: ``"jpeg=cv2"``; the format ``*`` stands for every format without an entry of its own.

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
        if "*" in able:
            Image.init()
            able = frozenset(Image.OPEN)
        known = {format_key(name) for name in able}
        if key != "*" and key not in known:
            raise ConfigError(f"--set {item}: reader {reader!r} reads {', '.join(sorted(known))}, not {key}")
        chosen[key] = reader
    stored = MachineConfig.load(check=False)
    if stored.mismatches():
        print(f"What {MachineConfig.path()} held was not measured here and is dropped.")
        stored = MachineConfig()
    config = replace(stored, readers={**stored.readers, **chosen})
    print(f"Written to {config.save()}:")
    _print_readers(config)


def _measure(
    path: str | os.PathLike[str] | None,
    readers: Sequence[str] | None,
    formats: Sequence[str] | None,
    workers: int | None,
    images: int,
    rounds: int,
    quiet: bool,
) -> Measurement:
    names, wanted = _split(readers), _split(formats)
    keys = None if wanted is None else list(dict.fromkeys(format_key(name) for name in wanted))
    for name in names or ():
        get_reader(name)  # before minutes of measuring
    if path is None:
        samples = made_samples(count=images) if keys is None else made_samples(keys, count=images)
    else:
        samples = sample_folder(path, keys, count=images)
    with show_progress(quiet) as progress:
        measurement = measure(samples, names, workers=workers, rounds=rounds, progress=progress)
    if not measurement.results:
        tried = ", ".join(names or available_readers())
        raise UnsupportedRequestError(f"none of the readers {tried} decodes {', '.join(measurement.images)} images")
    return measurement


def _report(measurement: Measurement, choices: Mapping[str, Choice], json: str | None, quiet: bool) -> None:
    if json is not None:
        write_json(json, to_json(measurement, choices))
    if not quiet and json != "-":
        print_measurement(make_console(), measurement, choices, _unavailable())


def _print_readers(config: MachineConfig) -> None:
    for format, reader in sorted(config.readers.items()):
        time = config.measured.get(format, {}).get(reader)
        print(f"  {format} = {reader}" + ("" if time is None else f"  ({time:.0f} µs a region)"))
    if not config.readers:
        print("  no reader chosen: built-in defaults")


def _unavailable() -> Mapping[str, str]:
    return {name: status.reason for name, status in reader_status().items() if not status.available}


def _split(items: Sequence[str] | None) -> list[str] | None:
    """``["pil,cv2", "imageio"]`` as three names; None where nothing is named."""
    names = [name.strip() for item in items or () for name in item.split(",") if name.strip()]
    return names or None
