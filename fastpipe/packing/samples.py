"""Lists the members of shards and the rows of Parquet files as files to pack."""

from __future__ import annotations

import base64
import itertools
import json
import posixpath
from collections import Counter
from collections.abc import Iterator

from fastpipe.index.archives import check_member, list_members
from fastpipe.index.containers import ContainerSource
from fastpipe.index.extensions import IMG_EXTENSIONS
from fastpipe.index.image_index import ImageIndex
from fastpipe.index.parquet import open_parquet
from fastpipe.index.shard_source import ShardSource, key_and_ending
from fastpipe.index.table_source import TableSource
from fastpipe.packing.items import BY_CONTENT, Item
from fastpipe.packing.names import Ending, checked, in_a_sample
from fastpipe.types import ArchiveMember, member_of

_ROWS = 64


def shard_items(source: ShardSource, ending: Ending, keeps_containers: bool) -> Iterator[Item]:
    """Yields all members of shards, sample by sample.

    Args:
        source: the shards.
        ending: the ending of converted images.
        keeps_containers: whether each shard becomes a shard of the target; else samples are put together, and if there
            are several shards, each sample's name begins with its shard's name.
    """
    for path, container, start in _containers(source, keeps_containers):
        files = (member for member in list_members(path) if member.start >= 0)
        seen = Counter[str]()  # shards of samples drawn with replacement may have a member twice
        for _, sample in itertools.groupby(files, key=lambda member: key_and_ending(member.name)[0]):
            members = list(sample)
            names = [member.name for member in members]
            for number, member in enumerate(members):
                check_member(path, member)
                name = checked(member.name, path)
                image = name.lower().endswith(IMG_EXTENSIONS)
                new = in_a_sample(name, names, ending) if image else ""
                seen[name] += 1
                yield Item(
                    f"{container}/{name}" + (f"#{seen[name]}" if seen[name] > 1 else ""),
                    member_of(path, f"{path}/{member.name}", member.start, member.size),
                    _with_start(name, start),
                    new and _with_start(new, start),
                    member.size,
                    begins=number == 0,
                    group=container,
                    modified_ns=member.modified_ns,
                )


def table_items(
    source: TableSource, index: ImageIndex, labels: dict[int, str], ending: Ending, keeps_containers: bool
) -> Iterator[Item]:
    """Yields the rows of Parquet files: the image, its label beside it, and other columns as JSON.

    Args:
        source: the Parquet files.
        index: the index of their images.
        labels: the text of each label.
        ending: the ending of converted images.
        keeps_containers: as in `shard_items`.
    """
    rows = iter(range(len(index)))
    values = index.labels
    for path, container, start in _containers(source, keeps_containers):
        for number, others in enumerate(_other_columns(source, path)):
            row = next(rows)
            key = f"{start}{number:09}"
            beside = [(f"{key}.cls", labels[int(values[row])].encode())] if source.label is not None else []
            if others is not None:
                beside.append((f"{key}.json", others))
            image = index.path(row)
            size = image.length if isinstance(image, ArchiveMember) else -1
            kept, converted = key + BY_CONTENT, key + ending.new
            yield Item(f"{container}/{number}", image, kept, converted, size, tuple(beside), True, container)


def _other_columns(source: TableSource, path: str) -> Iterator[bytes | None]:
    """Yields for each row the columns besides image and label, as JSON; None if there are none."""
    with open_parquet(path) as file:
        names = [name for name in file.schema_arrow.names if name not in (source.image, source.label)]
        if not names:
            yield from itertools.repeat(None, file.metadata.num_rows)
            return
        for batch in file.iter_batches(batch_size=_ROWS, columns=names):
            for row in batch.to_pylist():
                yield json.dumps(row, default=_as_text, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _as_text(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _containers(source: ContainerSource, keeps_containers: bool) -> Iterator[tuple[str, str, str]]:
    """Yields for each container its path, its name, and the prefix of its samples' names in the target."""
    for path in source.paths:
        name = source.name_of(path).rstrip("/")
        flat = posixpath.splitext(name)[0].replace("/", "-").replace(".", "_")
        yield path, name, "" if keeps_containers or len(source.paths) == 1 else f"{flat}-"


def _with_start(name: str, start: str) -> str:
    folder, slash, base = name.rpartition("/")
    return folder + slash + start + base
