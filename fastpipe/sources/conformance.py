"""A conformance check for a `ByteSource` that a user wrote."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fastpipe.foreign_code import outcome_of
from fastpipe.sources.base import ByteSource, Entry, Fetched

__all__ = ["check_source"]

_THREADS = 8
_MISSING = "fastpipe/no-such-file.jpg"


def check_source(source: ByteSource, files: int = 8) -> None:
    """Reads some files of a source in every way that fastpipe does, and compares the results.

    Use it in a test: ``def test_my_source(): fastpipe.sources.check_source(MySource(…))``. The source needs at least
    one file, and mustn't change meanwhile.

    Args:
        source: the source to check.
        files: how many files to read, the smallest ones.

    Raises:
        AssertionError: the source violates the interface; the message has one line for each violation.
    """
    broken: list[str] = []
    _look(source, files, broken)
    if broken:
        raise AssertionError("\n".join([f"{source!r} is no source as fastpipe needs it:", *broken]))


@contextlib.contextmanager
def _attempt(broken: list[str], text: str, end: str = ".") -> Iterator[None]:
    """Adds a line to `broken` if the block raises."""
    try:
        yield
    except Exception as error:  # of a source that is somebody's own
        broken.append(f"{text} raises {error!r}{end}")


def _look(source: ByteSource, files: int, broken: list[str]) -> None:
    if not isinstance(source.name, str) or not source.name:
        broken.append(f"name is {source.name!r}: a text that tells this source from others.")
        return
    entries = [*source.list()]
    wrong = [text for entry in entries if (text := _wrong_with(entry))]
    broken += wrong[:8]
    if not entries:
        broken.append("list() gives nothing: there is nothing to test.")
    if wrong or not entries:
        return
    keys = [entry.key for entry in entries]
    if len({*keys}) < len(keys):
        broken.append(f"list() gives {next(key for key in keys if keys.count(key) > 1)!r} twice.")
    if {*source.list()} != {*entries}:
        broken.append("list() gives something else the second time: an etag must change only when the bytes do.")
    whole: dict[Entry, bytes] = {}
    for entry in sorted(entries, key=lambda entry: (entry.size < 0, entry.size))[:files]:
        with _attempt(broken, f"read({entry.key!r})"):
            whole[entry] = source.read(entry.key)
    for entry, data in whole.items():
        _look_at_reading(source, entry, data, broken)
    _look_at_a_missing_key(source, broken)
    _look_elsewhere(source, whole, broken)


def _wrong_with(entry: object) -> str:
    if not isinstance(entry, Entry):
        return f"list() gives {entry!r:.80}, which is no fastpipe.sources.Entry."
    key, size, etag = entry
    if not isinstance(key, str) or not key or "\0" in key or {"", ".", ".."} & {*key.split("/")}:
        return f"list() gives the key {key!r}: names with '/' between them, and none of them empty, '.' or '..'."
    if not isinstance(size, int) or size < -1:
        return f"list() gives {key!r} the size {size!r}: bytes as an integer, -1 where it isn't known."
    return "" if isinstance(etag, str) else f"list() gives {key!r} the etag {etag!r}: a text, '' where there is none."


def _look_at_reading(source: ByteSource, entry: Entry, whole: bytes, broken: list[str]) -> None:
    key, length = entry.key, len(whole)
    if type(whole) is not bytes:
        broken.append(f"read({key!r}) gives {type(whole).__name__}: bytes are needed.")
        return
    if entry.size not in (-1, length):
        broken.append(f"read({key!r}) gives {length} bytes, and list() says {entry.size}.")
    middle = length // 3
    for offset, count in ((0, length), (0, 1), (middle, 2), (middle, -1), (middle, length), (length, 5), (0, 0)):
        expected = whole[offset:] if count < 0 else whole[offset : offset + count]
        with _attempt(broken, f"read({key!r}, {offset}, {count})", f"; the file has {length} bytes."):
            if (found := source.read(key, offset, count)) != expected:
                broken.append(
                    f"read({key!r}, {offset}, {count}) gives {len(found)} bytes, which aren't the {len(expected)} that "
                    f"the file of {length} bytes has there."
                )
    with _attempt(broken, f"entry({key!r})"):
        alone = source.entry(key)
        if alone.key != key or alone.size not in (entry.size, length) or (entry.etag and alone.etag != entry.etag):
            broken.append(f"entry({key!r}) gives {alone}, and list() {entry}.")


def _look_at_a_missing_key(source: ByteSource, broken: list[str]) -> None:
    expected = ": FileNotFoundError says that there is no such file."
    for name in ("read", "entry"):
        with _attempt(broken, f"{name}({_MISSING!r})", expected), contextlib.suppress(FileNotFoundError):
            getattr(source, name)(_MISSING)
            broken.append(f"{name}({_MISSING!r}) gives something{expected}")


def _look_elsewhere(source: ByteSource, whole: dict[Entry, bytes], broken: list[str]) -> None:
    """Checks reading in threads, and from a pickled copy as in other processes."""
    often, expected = 4 * [*whole], 4 * [*whole.values()]
    with ThreadPoolExecutor(_THREADS) as pool, _attempt(broken, f"read() in {_THREADS} threads at once"):
        if [*pool.map(source.read, [entry.key for entry in often])] != expected:
            broken.append(f"read() in {_THREADS} threads at once gives other bytes.")
    if [*map(_content, source.fetch([source.file(entry) for entry in often]))] != expected:
        broken.append("fetch() gives something else than read().")
    copy = outcome_of(lambda: pickle.loads(pickle.dumps(source)))
    if isinstance(copy, Exception):
        broken.append(f"it can't be pickled, as workers need it: {copy!r}. Leave connections out of its state.")
        return
    if copy.identity != source.identity:
        broken.append(f"a pickled copy has the identity {copy.identity!r}, and the source {source.identity!r}.")
    for entry, data in [*whole.items()][:1]:
        with _attempt(broken, f"read({entry.key!r}) of a pickled copy"):
            if copy.read(entry.key) != data:
                broken.append(f"a pickled copy reads other bytes of {entry.key!r}.")


def _content(result: Fetched) -> object:
    return Path(getattr(result, "container", result)).read_bytes() if isinstance(result, str) else result
