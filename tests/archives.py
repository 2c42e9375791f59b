"""The same files as a folder, and packed: zip, tar, shards, Parquet."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from pathlib import Path


def files_below(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


def zipped(root: Path, target: Path, start: str = "", method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(target, "w", method) as archive:
        for path in files_below(root):
            archive.write(path, start + path.relative_to(root).as_posix())
    return target


def tarred(root: Path, target: Path, start: str = "./", format: int = tarfile.PAX_FORMAT) -> Path:
    with tarfile.open(target, "w", format=format) as archive:
        archive.add(root, start, recursive=True)
    return target


def shard(target: Path, members: dict[str, bytes]) -> Path:
    """A tar of these members, in this order."""
    with tarfile.open(target, "w") as archive:
        for name, data in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))
    return target


def shards(root: Path, folder: Path, count: int = 2) -> list[Path]:
    """``root/class/….jpg`` as WebDataset writes it: the class's number beside each image, and JSON."""
    paths = files_below(root)
    classes = sorted({path.parent.name for path in paths})
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for number in range(count):
        members: dict[str, bytes] = {}
        for at, path in enumerate(paths[number::count]):
            label = path.parent.name
            members[f"{at:04}{path.suffix}"] = path.read_bytes()
            members[f"{at:04}.cls"] = str(classes.index(label)).encode()
            members[f"{at:04}.json"] = json.dumps({"label": label, "of": path.name}).encode()
        made.append(shard(folder / f"{number:03}.tar", members))
    return made
