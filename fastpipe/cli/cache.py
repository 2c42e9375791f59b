"""``fastpipe cache``: what is kept between runs, and how to be rid of it."""

from __future__ import annotations

from typing import Annotated

import typer

from fastpipe.cli._options import JsonOption, QuietOption


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove it all; what is needed is made again.")] = False,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Show or clear what is kept between runs.

    Indexes of folders and lists, journals of interrupted checks, locks. FASTPIPE_CACHE names another folder.

    Example: fastpipe cache --clear
    """
    from fastpipe.reporting.output import check_writable, size, write_json
    from fastpipe.tools.cache import cache_contents, clear_cache

    check_writable(json, "--json")
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
