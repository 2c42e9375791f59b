"""``fastpipe cache``: shows or clears files kept between runs."""

from __future__ import annotations

from typing import Annotated

import click

from fastpipe.cli._options import JsonOption, QuietOption
from fastpipe.cli.parameters import Argument, Option
from fastpipe.counts import pluralize


def cache(
    folder: Annotated[
        str | None,
        Argument(
            metavar="PATH",
            help="The folder of a fastpipe.Cache, with files of stores; without it, the cache of indexes.",
        ),
    ] = None,
    clear: Annotated[bool, Option("--clear", help="Remove everything; needed files are made again.")] = False,
    check: Annotated[
        bool, Option("--check", help="Read all files of a fastpipe.Cache, and remove damaged ones.")
    ] = False,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Show or clear files kept between runs.

    These are indexes of folders and lists, interrupted listings and locks; FASTPIPE_CACHE names another folder.
    With the folder of a fastpipe.Cache: its files of stores; files that a running epoch needs stay.

    Example: fastpipe cache --clear
    """
    from fastpipe.reporting.output import format_bytes, wrap_text, write_json_if_asked
    from fastpipe.tools.cache import cache_contents, clear_cache, store_cache, store_cache_contents

    values: dict[str, object]
    if folder is None:
        if check:
            raise click.BadParameter("--check takes the folder of a fastpipe.Cache: fastpipe cache FOLDER --check")
        found, stayed = cache_contents(), clear_cache() if clear else []
        values = {"left": stayed}
        lines = [
            f"  {kind['what']}: {kind['count']:,}, {format_bytes(kind['bytes'])}" for kind in found["contents"].values()
        ]
        if clear:
            lines += [*(f"left: {line}" for line in stayed), "cleared" if not stayed else "cleared but for these"]
    else:
        cache = store_cache(folder)
        damaged = cache.check() if check else 0
        found = store_cache_contents(cache)
        if clear:
            cache.clear()
        left = cache.statistics().files if clear else 0
        values = {"damaged": damaged, "left": left}
        asked = found["hits"] + found["misses"]
        lines = [
            f"  files: {found['files']:,}, {format_bytes(found['bytes'])}; held by running epochs: {found['pinned']:,}",
            f"  asked for: {asked:,}, of which {found['hits']:,} were there; evicted: {found['evicted']:,}",
            f"  read from stores: {format_bytes(found['fetched_bytes'])}",
        ]
        if check:
            lines.append(f"  damaged, and removed: {damaged:,}")
        if clear:
            lines.append("cleared" if not left else f"cleared but for {pluralize(left, 'file')} of running epochs")
    if write_json_if_asked(json, {**found, "cleared": clear, **values}, quiet):
        print(found["folder"], *map(wrap_text, lines), sep="\n")
    raise click.exceptions.Exit(1 if values["left"] else 0)
