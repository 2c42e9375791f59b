"""Lists and folders whose entries are no ordinary files: nothing hangs, and each error names its file."""

from __future__ import annotations

import os
import re
from pathlib import Path

import corpus
import pytest

import fastpipe
from fastpipe import transforms as T
from fastpipe.errors import DatasetError

pytestmark = pytest.mark.skipif(os.name == "nt", reason="FIFOs, devices and such names aren't on Windows")

GOOD = {"a.jpg", "f.jpg"}
TRANSFORM = T.Compose([T.CenterCrop(8), T.ToTensor()])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two good images, a FIFO, a device without end, a link to itself and a folder, all of them named .jpg."""
    folder = tmp_path / "images" / "one"
    folder.mkdir(parents=True)
    (folder / "a.jpg").write_bytes(corpus.jpeg(16, 24))
    os.mkfifo(folder / "b-fifo.jpg")
    (folder / "c-zero.jpg").symlink_to("/dev/zero")
    (folder / "d-loop.jpg").symlink_to(folder / "d-loop.jpg")
    (folder / "e-folder.jpg").mkdir()
    (folder / "f.jpg").write_bytes(corpus.jpeg(16, 24))
    return folder.parent


def test_a_folder_of_tricks(root: Path) -> None:
    data = fastpipe.ImageFolder(root, TRANSFORM)
    names = [Path(path).name for path, _ in data.samples]
    assert set(names) >= GOOD
    for index, name in enumerate(names):
        if name in GOOD:
            assert data[index][0].shape == (3, 8, 8)
        else:
            with pytest.raises(OSError, match=re.escape(name)):
                data[index]


def test_a_folder_of_tricks_in_batches(root: Path) -> None:
    data = fastpipe.ImageFolder(
        root, TRANSFORM, on_error="replace", max_bad_fraction=1.0, bad_files_log=None, threads=2
    )
    with pytest.warns(fastpipe.errors.FastpipeWarning, match="replaced by others"):
        ((images, _),) = fastpipe.DataLoader(data, batch_size=len(data))
    assert images.shape == (len(data), 3, 8, 8)


def test_a_folder_of_tricks_is_described(root: Path) -> None:
    index = fastpipe.ImageIndex.from_folder(str(root), location=None)
    assert len(index) >= 2
    for path, _ in fastpipe.ImageFolder(root).samples:
        name = Path(path).name
        if name in GOOD:
            assert fastpipe.readers.read_header(path).size == (16, 24)
        else:
            with pytest.raises(OSError, match=re.escape(name)):
                fastpipe.readers.read_header(path)


@pytest.mark.parametrize("as_csv", [False, True])
def test_a_list_of_tricks(root: Path, tmp_path: Path, as_csv: bool) -> None:
    outside = tmp_path / "outside.jpg"
    outside.write_bytes(corpus.jpeg(16, 24))
    (root / "new\nline.jpg").write_bytes(corpus.jpeg(16, 24))
    good = ["one/a.jpg", "../outside.jpg", "one/../one/./f.jpg", "one//a.jpg", str(outside)]
    bad = ["one/b-fifo.jpg", "one/c-zero.jpg", "one/d-loop.jpg", "one/e-folder.jpg", "nowhere.jpg", "/dev/zero", "one"]
    bad += ["one/a.jpg/", "x" * 5000, "~root", "../" * 50 + "etc/hostname"]
    file = tmp_path / ("list.csv" if as_csv else "list.txt")
    if as_csv:
        good.append("new\nline.jpg")
        file.write_text("path,label\n" + "".join(f'"{path}",0\n' for path in good + bad))
    else:
        file.write_text("".join(f"{path} 0\n" for path in good + bad))
    data = fastpipe.ImageList(file, TRANSFORM, root=root)
    for index in range(len(good)):
        assert data[index][0].shape == (3, 8, 8)
    for index in range(len(good), len(data)):
        name = Path(data.samples[index][0]).name[:40]  # a long one may be told shortened
        with pytest.raises(OSError, match=re.escape(name)):
            data[index]


def test_a_nul_in_a_list_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_bytes(b"a.jpg 0\nb\0.jpg 1\n")
    with pytest.raises(DatasetError, match=r"line 2.*NUL"):
        fastpipe.ImageList(file, root=tmp_path)
