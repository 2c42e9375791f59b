"""The choice of a reader for each format on this machine: a small value, and the TOML file that keeps it.

A `MachineConfig` is passed and pickled like any value; nothing is read at import. `fastpipe configure` measures the
readers and writes the file. `current_config` returns the config of this process, from these places in this order:

    reader= argument   (beats all; the readers see to it)
    FASTPIPE_READER    "cv2", or "jpeg=cv2,png=pil", or both: "cv2,png=pil"
    the config file    FASTPIPE_CONFIG: a folder or a .toml file; else the user's
    built-in defaults  where none of these names a reader

The names of readers aren't checked here; the readers' registry does that. A config file that can't be followed never
stops a run: the file as a whole, or an entry (`fastpipe.readers.machine_config`), is skipped with one warning.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from fastpipe.atomic_write import atomic_write
from fastpipe.environment import LIBRARIES, library_versions, machine_fingerprint
from fastpipe.errors import ConfigError, FastpipeWarning
from fastpipe.paths import local_path, open_regular, user_folder

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "MachineConfig",
    "current_config",
    "format_key",
    "parse_reader_override",
    "readers_asked",
]

ANY_FORMAT = "*"
"""The key of `MachineConfig.readers` for every format without a key of its own."""

_VARIABLE = "FASTPIPE_CONFIG"

_ALIASES = {"jpg": "jpeg", "mpo": "jpeg", "jpe": "jpeg", "jfif": "jpeg", "tif": "tiff"}

_HEAD = """\
Which reader fastpipe uses for each format on this machine; written by `fastpipe configure`.
Change it with `fastpipe configure --set jpeg=cv2`, or measure again with `fastpipe configure`.
Times are microseconds per region, medians.
"""


def format_key(name: str) -> str:
    """The config's key of a format: ``"JPEG"``, ``"MPO"`` and ``"jpg"`` are ``"jpeg"``."""
    key = name.strip().lower()
    return _ALIASES.get(key, key)


def _by_format(name: str, given: object) -> dict[str, str]:
    """Checks a dict from formats to readers' names; returns it with the config's keys of the formats."""
    if not isinstance(given, Mapping) or not all(isinstance(item, str) for pair in given.items() for item in pair):
        raise ConfigError(f'{name}={given!r:.80}: give a dict from formats to readers, as {{"jpeg": "core"}}.')
    readers: dict[str, str] = {}
    for format, reader in given.items():
        key = format_key(format)
        if readers.setdefault(key, reader) != reader:
            raise ConfigError(f"{name}={given!r:.80} names two readers for {key}.")
    return readers


@dataclass(frozen=True)
class MachineConfig:
    """The chosen reader of each format, and the measurements behind the choice. Formats without one use the defaults.

    Picklable; `dataclasses.replace` makes a changed copy.

    Attributes:
        readers: format (``"jpeg"``, ``"png"``, ``"webp"``, …; MPO counts as jpeg) to the name of a reader;
            the key ``"*"`` is for every format without a key of its own.
        measured: format to reader to the median time of one region request, in microseconds: the figures behind the
            choice (under DataLoader workers, unless these were measured without any).
        versions: the versions of the measured libraries; empty for a choice made by hand.
        machine: the measured machine, as `machine_fingerprint` gives it; empty for a choice made by hand.
        created: when it was measured, ISO 8601.
    """

    readers: Mapping[str, str] = field(default_factory=dict)
    measured: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, str | int] = field(default_factory=dict)
    created: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "readers", _by_format("readers", self.readers))

    def reader_for(self, format: str) -> str | None:
        """The reader chosen for a format (``"JPEG"`` or ``"jpeg"``); None for the built-in default."""
        return self.readers.get(format_key(format), self.readers.get(ANY_FORMAT))

    def mismatches(self) -> tuple[str, ...]:
        """Describes each difference between this machine and the measured one in a phrase; empty if there is none."""
        here, versions = machine_fingerprint(), library_versions()
        other = [
            f"{key} is {here.get(key, 'unknown')!r}, was {value!r}"
            for key, value in self.machine.items()
            if here.get(key) != value
        ]
        other += [
            f"{name} is {versions.get(name, 'not installed')}, was {value}"
            for name, value in self.versions.items()
            if name in ("fastpipe", *LIBRARIES) and versions.get(name) != value
        ]
        return tuple(other)

    @classmethod
    def path(cls) -> Path:
        """The path of this user's config file, whether it exists or not.

        Raises:
            ConfigError: the user has no home folder, as in many containers, and FASTPIPE_CONFIG isn't set.
        """
        place = _place(os.environ.get(_VARIABLE, ""))
        if place is None:
            raise ConfigError("this user has no home folder for the config file: set FASTPIPE_CONFIG to a folder.")
        return place

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None, *, check: bool = True) -> MachineConfig:
        """Reads a config file; a missing file gives the empty config.

        Args:
            path: the file; None for `path()`, or for the empty config if the user has no config folder.
            check: warn once and return the empty config if the file was measured on another machine or with other
                library versions. False returns the file's content in any case.

        Raises:
            ConfigError: the file can't be read or parsed; names the file and, for a syntax error, the line.
        """
        file = _place(os.environ.get(_VARIABLE, "")) if path is None else Path(path)
        if file is None or str(file) == os.devnull:
            return cls()
        try:
            with open_regular(file) as opened:
                data = opened.read()
        except (FileNotFoundError, NotADirectoryError):
            return cls()
        except OSError as error:
            raise ConfigError(f"can't read the config file {file}: {error.strerror or error}") from error
        config = _parse(data, file)
        other = config.mismatches() if check else ()
        if not other:
            return config
        warn_once(
            f"{file} is not used, because it was not measured here: {'; '.join(other)}. Built-in defaults apply. "
            "Run `fastpipe configure` to measure this machine."
        )
        return cls()

    def save(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Writes the config file atomically, so that no reader sees half a file.

        Args:
            path: the file; None for `path()`. Its folder is made where it is missing.

        Returns:
            The path written.

        Raises:
            ConfigError: the file can't be written.
        """
        file = self.path() if path is None else Path(path)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(os.path.realpath(file), keeps_mode=True) as out:  # a symbolic link stays one
                out.write(self.to_toml().encode())
        except OSError as error:
            raise ConfigError(f"can't write the config file {file}: {error.strerror or error}") from error
        _current.cache_clear()
        return file

    def to_toml(self) -> str:
        """The config file's text."""
        lines = [f"# {line}" for line in _HEAD.splitlines()]
        if self.created:
            lines.append(f"created = {_toml(self.created)}")
        tables = {name: sorted(getattr(self, name).items()) for name in ("readers", "machine", "versions")}
        for name, times in sorted(self.measured.items()):
            tables[f"measured.{_key(name)}"] = sorted(times.items(), key=lambda item: item[1])
        for name, items in tables.items():
            if items:
                lines += ["", f"[{name}]", *(f"{_key(key)} = {_toml(value)}" for key, value in items)]
        return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _toml(value: str | float) -> str:
    """A text or number as TOML has it."""
    if not isinstance(value, str):
        return repr(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _place(given: str) -> Path | None:
    """The config file that ``FASTPIPE_CONFIG`` names; if it is empty, the user's, or None without a home folder."""
    if not given:
        folder = user_folder("config")
        return None if folder is None else folder / "config.toml"
    path = Path(local_path(given))
    return path if path.suffix.lower() == ".toml" else path / "config.toml"


def current_config() -> MachineConfig:
    """The config of this process: the file's, overridden by ``FASTPIPE_READER``. Read once, at first use.

    A file that can't be read or parsed isn't used, with a warning.

    Raises:
        ConfigError: the variable can't be parsed.
    """
    return _current(os.environ.get(_VARIABLE, ""), os.environ.get("FASTPIPE_READER", ""))


@functools.lru_cache(maxsize=8)
def _current(place: str, override: str) -> MachineConfig:
    asked = parse_reader_override(override)
    if ANY_FORMAT in asked:
        return MachineConfig(readers=asked)
    try:
        config = MachineConfig.load(_place(place))
    except ConfigError as error:
        warn_once(f"{str(error).rstrip('.')}. Until then built-in defaults apply.")
        config = MachineConfig()
    return replace(config, readers={**config.readers, **asked}) if asked else config


def parse_reader_override(text: str, name: str = "FASTPIPE_READER") -> dict[str, str]:
    """Parses ``"jpeg=cv2,png=pil"`` to ``{"jpeg": "cv2", "png": "pil"}``; a bare name stands for every other format.

    Args:
        text: the text.
        name: the setting's name, for the error.

    Raises:
        ConfigError: an item is neither a name nor ``format=name``, or a format is given twice.
    """
    readers: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        left, equals, right = (part.strip() for part in item.partition("="))
        key, reader = (format_key(left), right) if equals else (ANY_FORMAT, left)
        if not key or not reader or "=" in reader:
            raise ConfigError(f"{name}={text!r}: {item!r} is neither a reader's name nor format=name")
        if key in readers:
            raise ConfigError(f"{name}={text!r} names two readers for {'every format' if key == ANY_FORMAT else key}")
        readers[key] = reader
    return readers


def readers_asked(reader: str | Mapping[str, str] | None) -> dict[str, str]:
    """Parses a ``reader=`` argument to readers' names by format; one name for all formats gets the key ``"*"``.

    Args:
        reader: a reader's name; ``{"jpg": "cv2", "png": "pil"}`` or ``"jpg=cv2,png=pil"``; None.

    Raises:
        ConfigError: ``reader`` has none of these forms, or names two readers for a format.
    """
    if reader is None or isinstance(reader, Mapping):
        return _by_format("reader", reader or {})
    if not isinstance(reader, str) or not reader.strip():
        raise ConfigError(f"reader={reader!r}: give a reader's name, or names by format, as {{'jpg': 'cv2'}}")
    return parse_reader_override(reader, "reader")


_said: set[str] = set()


def warn_once(message: str) -> None:
    """Issues a warning, unless this process has issued it already.

    All DataLoader workers read the same file, so only worker 0 warns.
    """
    if message in _said:
        return
    _said.add(message)  # added first, as a filter may turn the warning into an error
    data = sys.modules.get("torch.utils.data")  # not imported here; a process that hasn't imported it is no worker
    worker = None if data is None else data.get_worker_info()
    if worker is None or worker.id == 0:
        warnings.warn(message, FastpipeWarning, stacklevel=3)


def _parse(data: bytes, file: Path) -> MachineConfig:
    """Parses the bytes of a config file."""
    try:
        values = tomllib.loads(data.decode("utf-8"))
        problem = _problem(values)
    except ValueError as error:  # names the line
        problem = f"it is not TOML in UTF-8: {error}"
    if problem:
        raise ConfigError(f"{file}: {problem}. Mend it, or start anew with `fastpipe configure --reset`.")
    return MachineConfig(**values)


def _problem(values: dict[str, Any]) -> str:
    """Describes the first invalid key or value of a parsed config file; empty if all are valid."""
    keys = [one.name for one in fields(MachineConfig)]
    for name, value in values.items():
        if name not in keys:
            return f"unknown key {name!r} (known: {', '.join(keys)})"
        if not isinstance(value, str if name == "created" else dict):
            return f"{name} must be {'a string' if name == 'created' else 'a table'}, not {value!r}"
    for name, reader in values.get("readers", {}).items():
        if not isinstance(reader, str) or not reader.strip():
            return f"readers.{name} must be the name of a reader, not {reader!r}"
    for name, times in values.get("measured", {}).items():
        if not isinstance(times, dict) or not all(isinstance(time, (int, float)) for time in times.values()):
            return f"measured.{name} must be a table of numbers, not {times!r}"
    return ""
