"""``fastpipe bench``: prints the speed of each reader on this machine, as tables or JSON."""

from __future__ import annotations

from fastpipe.cli import _options as options


def bench(
    path: options.PathArgument = None,
    readers: options.ReadersOption = None,
    format: options.FormatOption = None,
    workers: options.WorkersOption = None,
    images: options.ImagesOption = 24,
    rounds: options.RoundsOption = 7,
    json: options.JsonOption = None,
    quiet: options.QuietOption = False,
) -> None:
    """Measure every reader on your images.

    They are measured in one process and in DataLoader workers. Readers with wrong pixels aren't timed.

    Example: fastpipe bench ~/photos/train --format jpeg --workers 8
    """
    from fastpipe.progress_bar import SlowBar
    from fastpipe.reporting.output import give_report
    from fastpipe.tools.bench.result import bench as measure

    with SlowBar(shown=not quiet) as bar:
        result = measure(
            path,
            readers=readers,
            formats=format,
            workers=workers,
            images=images,
            rounds=rounds,
            progress=bar.show,
        )
    give_report(result, json, quiet)
