"""A conformance check of a `ByteSource`: for the tests of those who write their own."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fastpipe.sources.base import ByteSource, Entry, Fetched

__all__ = ["check_source"]

_THREADS = 8
_MISSING = "fastpipe/no-such-file.jpg"


def check_source(source: ByteSource, files: int = 8) -> None:
    """Reads some files of a source in every way that fastpipe does, and compares.

    For a test of yours: ``def test_my_source(): fastpipe.sources.check_source(MySource(…))``. The source needs a file
    at least, and mustn't change meanwhile.

    Args:
        source: to look at.
        files: how many files to read, the smallest ones.

    Raises:
        AssertionError: it breaks a promise; names all that it breaks, one a line.
    """
    broken = list(_broken(source, files))
    if broken:
        raise AssertionError("\n".join([f"{source!r} is no source as fastpipe needs it:", *broken]))


def _broken(source: ByteSource, files: int) -> Iterator[str]:
    if not isinstance(source.name, str) or not source.name:
        yield f"name is {source.name!r}: a text that tells this source from others."
        return
    entries = [*source.list()]
    wrong = [text for entry in entries if (text := _wrong_with(entry))]
    yield from wrong[:8]
    if not entries or wrong:
        yield from [] if wrong else ["list() gives nothing: there is nothing to test."]
        return
    keys = [entry.key for entry in entries]
    if len({*keys}) < len(keys):
        yield f"list() gives {next(key for key in keys if keys.count(key) > 1)!r} twice."
    if {*source.list()} != {*entries}:
        yield "list() gives something else the second time: an etag must change only when the bytes do."
    chosen = sorted(entries, key=lambda entry: (entry.size < 0, entry.size))[:files]
    whole = {}
    for entry in chosen:
        try:
            whole[entry.key] = source.read(entry.key)
        except Exception as error:
            yield f"read({entry.key!r}) raises {error!r}."
    for entry in chosen:
        if entry.key in whole:
            yield from _broken_by_reading(source, entry, whole[entry.key])
    yield from _broken_by_a_missing_key(source)
    yield from _broken_elsewhere(source, chosen, whole)


def _wrong_with(entry: object) -> str:
    if not isinstance(entry, Entry):
        return f"list() gives {entry!r:.80}, which is no fastpipe.sources.Entry."
    key, size, etag = entry
    if not isinstance(key, str) or not key or "\0" in key or {"", ".", ".."} & {*key.split("/")}:
        return f"list() gives the key {key!r}: names with '/' between them, and none of them empty, '.' or '..'."
    if not isinstance(size, int) or size < -1:
        return f"list() gives {key!r} the size {size!r}: bytes as an integer, -1 where it isn't known."
    return "" if isinstance(etag, str) else f"list() gives {key!r} the etag {etag!r}: a text, '' where there is none."


def _broken_by_reading(source: ByteSource, entry: Entry, whole: bytes) -> Iterator[str]:
    key, length = entry.key, len(whole)
    if type(whole) is not bytes:
        yield f"read({key!r}) gives {type(whole).__name__}: bytes are needed."
        return
    if entry.size not in (-1, length):
        yield f"read({key!r}) gives {length} bytes, and list() says {entry.size}."
    middle = length // 3
    for offset, count in ((0, length), (0, 1), (middle, 2), (middle, -1), (middle, length), (length, 5), (0, 0)):
        expected = whole[offset:] if count < 0 else whole[offset : offset + count]
        try:
            found = source.read(key, offset, count)
        except Exception as error:
            yield f"read({key!r}, {offset}, {count}) raises {error!r}; the file has {length} bytes."
            continue
        if found != expected:
            yield (
                f"read({key!r}, {offset}, {count}) gives {len(found)} bytes, which aren't the {len(expected)} that the "
                f"file of {length} bytes has there."
            )
    try:
        alone = source.entry(key)
    except Exception as error:
        yield f"entry({key!r}) raises {error!r}."
    else:
        if alone.key != key or alone.size not in (entry.size, length) or (entry.etag and alone.etag != entry.etag):
            yield f"entry({key!r}) gives {alone}, and list() {entry}."


def _broken_by_a_missing_key(source: ByteSource) -> Iterator[str]:
    asks: Sequence[tuple[str, Callable[[str], object]]] = (("read", source.read), ("entry", source.entry))
    for name, ask in asks:
        try:
            ask(_MISSING)
        except FileNotFoundError:
            continue
        except Exception as error:
            yield f"{name}({_MISSING!r}) raises {error!r}: FileNotFoundError says that there is no such file."
        else:
            yield f"{name}({_MISSING!r}) gives something: FileNotFoundError says that there is no such file."


def _broken_elsewhere(source: ByteSource, chosen: list[Entry], whole: dict[str, bytes]) -> Iterator[str]:
    """By threads, and in other processes."""
    sound = [entry for entry in chosen if entry.key in whole] * 4
    with ThreadPoolExecutor(_THREADS) as pool:
        try:
            same = [*pool.map(_read_of(source), sound)] == [whole[entry.key] for entry in sound]
        except Exception as error:
            yield f"read() in {_THREADS} threads at once raises {error!r}."
        else:
            if not same:
                yield f"read() in {_THREADS} threads at once gives other bytes."
    results = source.fetch([source.file(entry) for entry in sound])
    if [*map(_content, results)] != [whole[entry.key] for entry in sound]:
        yield "fetch() gives something else than read()."
    try:
        copy = pickle.loads(pickle.dumps(source))
    except Exception as error:
        yield f"it can't be pickled, as workers need it: {error!r}. Leave connections out of its state."
        return
    if copy.identity != source.identity:
        yield f"a pickled copy has the identity {copy.identity!r}, and the source {source.identity!r}."
    for entry in sound[:1]:
        try:
            if copy.read(entry.key) != whole[entry.key]:
                yield f"a pickled copy reads other bytes of {entry.key!r}."
        except Exception as error:
            yield f"read({entry.key!r}) of a pickled copy raises {error!r}."


def _content(result: Fetched) -> object:
    return Path(getattr(result, "container", result)).read_bytes() if isinstance(result, str) else result


def _read_of(source: ByteSource) -> Callable[[Entry], bytes]:
    return lambda entry: source.read(entry.key)
