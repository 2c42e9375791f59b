"""``fastpipe cache``: what is kept between runs, and how to be rid of it."""

from __future__ import annotations

from typing import Annotated

import typer

from fastpipe.cli._options import JsonOption, QuietOption


def cache(
    folder: Annotated[
        str | None,
        typer.Argument(help="Of a fastpipe.Cache, which keeps files of stores; none for what is kept of indexes."),
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Remove it all; what is needed is made again.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Read all files of a fastpipe.Cache, and remove damaged ones.")
    ] = False,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Show or clear what is kept between runs.

    Indexes of folders and lists, journals of interrupted checks, locks; FASTPIPE_CACHE names another folder for them.
    Or, given the folder of a fastpipe.Cache, the files of stores in it; those that a running epoch holds stay.

    Example: fastpipe cache --clear
    """
    from fastpipe.reporting.output import check_writable

    check_writable(json, "--json")
    if folder is not None:
        _of_stores(folder, clear, check, json, quiet)
        return
    if check:
        raise typer.BadParameter("--check takes the folder of a fastpipe.Cache: fastpipe cache FOLDER --check")
    _of_indexes(clear, json, quiet)


def _of_indexes(clear: bool, json: str | None, quiet: bool) -> None:
    from fastpipe.reporting.output import size, write_json
    from fastpipe.tools.cache import cache_contents, clear_cache

    found = cache_contents()
    left = clear_cache() if clear else []
    if json is not None:
        write_json(json, {**found, "cleared": clear, "left": left})
    if json != "-" and not quiet:
        print(found["folder"])
        for kind in found["contents"].values():
            print(f"  {kind['what']}: {kind['count']:,}, {size(kind['bytes'])}")
        if clear:
            print(*(f"left: {line}" for line in left), "cleared" if not left else "cleared but for these", sep="\n")
    raise typer.Exit(1 if left else 0)


def _of_stores(folder: str, clear: bool, check: bool, json: str | None, quiet: bool) -> None:
    from fastpipe.reporting.output import size, write_json
    from fastpipe.tools.cache import store_cache, store_cache_contents

    cache = store_cache(folder)
    damaged = cache.check() if check else 0
    found = store_cache_contents(cache)
    if clear:
        cache.clear()
    left = cache.statistics().files if clear else 0
    if json is not None:
        write_json(json, {**found, "damaged": damaged, "cleared": clear, "left": left})
    if json != "-" and not quiet:
        print(found["folder"])
        print(f"  files: {found['files']:,}, {size(found['bytes'])}; held by running epochs: {found['held']:,}")
        asked = found["hits"] + found["misses"]
        print(f"  asked for: {asked:,}, of which {found['hits']:,} were there; evicted: {found['evicted']:,}")
        print(f"  read from stores: {size(found['fetched_bytes'])}")
        if check:
            print(f"  damaged, and removed: {damaged:,}")
        if clear:
            print("cleared" if not left else f"cleared but for {left:,} files that running epochs hold")
    raise typer.Exit(1 if left else 0)
