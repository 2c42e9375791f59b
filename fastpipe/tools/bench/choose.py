"""One reader for each format: chosen by a measurement, or by hand; the config file shown, changed, removed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from PIL import Image

from fastpipe.config import MachineConfig, current_config, format_key
from fastpipe.errors import ConfigError
from fastpipe.readers import configured_reader, get_reader
from fastpipe.reporting.output import check_writable, wrap_text, write_json_if_asked
from fastpipe.tools.timing import Timing, noise_us

if TYPE_CHECKING:  # what is shown, removed or chosen by hand needs no torch
    from fastpipe.tools.bench.measure import Measurement, Result


@dataclass(frozen=True, slots=True)
class Choice:
    """The reader for one format."""

    reader: str  # its name
    reason: str  # why this one, for people


def deciding_time(result: Result) -> Timing | None:
    """The time that a reader is chosen by: inside DataLoader workers where these were measured."""
    return result.workers or result.single


def choose(measurement: Measurement) -> dict[str, Choice]:
    """The reader to use for each format of a measurement.

    The smallest median time of a region wins, under DataLoader workers where these were measured: that is what a
    training pipeline asks for, under the load that it asks it. Readers that gave wrong pixels for the whole image
    or a region are out. Where others come so close that the spread of both explains the difference (or within 3%),
    the one that

    1. decodes regions (it gains more on larger images than those measured),
    2. serves the larger share of the files itself,
    3. is Pillow (one library less to go wrong),
    4. was faster after all

    is taken, asked in this order.
    """
    wrong = {
        (result.format, result.reader)
        for result in measurement.results
        if not result.exact and result.request in ("full", "region")
    }
    choices = {}
    for format in measurement.images:
        timed: list[tuple[Result, Timing]] = []
        for result in measurement.of(format, "region"):
            time = deciding_time(result)
            if time is not None and (format, result.reader) not in wrong:
                timed.append((result, time))
        if not timed:
            continue
        best = min((time for _, time in timed), key=lambda time: time.median_us)
        close = [(result, time) for result, time in timed if time.median_us - best.median_us <= noise_us(time, best)]

        def rank(one: tuple[Result, Timing]) -> tuple[bool, float, bool, float]:
            result, time = one
            able = get_reader(result.reader).capabilities
            return not able.regions, -result.served, not able.reference, time.median_us

        result, time = min(close, key=rank)
        choices[format] = Choice(result.reader, _reason(result, time, timed, close, measurement.workers))
    return choices


def _reason(
    chosen: Result, time: Timing, timed: list[tuple[Result, Timing]], close: list[tuple[Result, Timing]], workers: int
) -> str:
    where = f"in {workers} DataLoader worker{'s' if workers > 1 else ''}" if workers else "in one process"
    others = [(result.reader, other) for result, other in timed if result is not chosen]
    if not others:
        return f"{time.median_us:,.0f} µs a region {where}; nothing else was measured"
    tied = [result.reader for result, _ in close if result is not chosen]
    if tied:
        return f"{time.median_us:,.0f} µs a region {where}; as fast within the spread as {', '.join(tied)}"
    name, second = min(others, key=lambda one: one[1].median_us)
    return f"{time.median_us:,.0f} µs a region {where}; next is {name} with {second.median_us:,.0f} µs"


def to_config(
    measurement: Measurement, choices: Mapping[str, Choice], earlier: MachineConfig | None = None
) -> MachineConfig:
    """The config of a measurement and its choices.

    Formats that weren't measured now are kept from an earlier config, where that still holds on this machine.
    """
    readers, measured = {}, {}
    if earlier is not None and not earlier.mismatches():
        readers, measured = dict(earlier.readers), dict(earlier.measured)
    for format, choice in choices.items():
        readers[format] = choice.reader
        measured[format] = {
            result.reader: round(time.median_us, 1)
            for result in measurement.of(format, "region")
            if (time := deciding_time(result)) is not None
        }
    return MachineConfig(
        readers=readers,
        measured=measured,
        versions=measurement.versions,
        machine=measurement.machine,
        created=measurement.created,
    )


def show(*, json: str | None = None, quiet: bool = False) -> bool:
    """Prints the config file's place, whether it is used, and the reader of each format.

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
        for format in effective.readers:
            configured_reader(format, effective)
    check_writable(json, "--json")
    values = {
        "file": str(file),
        "exists": file.exists(),
        "created": stored.created,
        "readers": dict(effective.readers),
        "measured": {format: dict(times) for format, times in stored.measured.items()},
        "differs": list(other),
        "override": override,
    }
    if not write_json_if_asked(json, values, quiet):
        return not other
    if not file.exists():
        print(wrap_text(f"No config file ({file}): built-in defaults. `fastpipe configure` measures and writes one."))
    elif other:
        print(wrap_text(f"{file} is not used, because it was not measured here:"))
        print(*(wrap_text(f"  {phrase}") for phrase in other), sep="\n")
        print("Built-in defaults apply; `fastpipe configure` measures this machine.")
    else:
        print(wrap_text(f"{file}{f', measured {stored.created}' if stored.created else ''}:"))
        print_readers(stored)
    if override:
        print(f"FASTPIPE_READER={override} overrides it:")
        print_readers(effective)
    return not other


def reset(*, quiet: bool = False) -> None:
    """Removes the config file.

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
        print(wrap_text(said))


def choose_by_hand(items: Iterable[str], *, quiet: bool = False) -> None:
    """Writes readers chosen by hand into the config file, beside what was measured where that still holds here.

    An item is ``"jpeg=cv2"``; the format ``*`` stands for every format without an entry of its own.

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
            print(wrap_text(f"What {written} held was not measured here and is dropped."))
        print(f"Written to {written}:")
        print_readers(config)


def print_readers(config: MachineConfig) -> None:
    """Prints the reader of each format, and its time where that was measured."""
    for format, reader in sorted(config.readers.items()):
        time = config.measured.get(format, {}).get(reader)
        about = "" if time is None else f"  ({time:,.0f} µs a region)"
        if configured_reader(format, config) is None:
            about = "  (doesn't load here: the built-in order serves)"
        print(f"  {format} = {reader}{about}")
    if not config.readers:
        print("  no reader chosen: built-in defaults")
