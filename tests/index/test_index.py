"""ImageIndex: torchvision's order on any tree, staleness, damage, concurrent builders, pickling."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torchvision_here import torchvision

from fastpipe import progress_bar
from fastpipe.datasets import ImageIndex, find_classes, make_dataset
from fastpipe.errors import DatasetError, FastpipeWarning
from fastpipe.index import format as store_module
from fastpipe.index import local_scan, pieces
from fastpipe.index.extensions import IMG_EXTENSIONS
from fastpipe.index.lazy_sequences import Samples
from fastpipe.index.statistics import files_left_out
from fastpipe.sources import threads

posix = pytest.mark.skipif(sys.platform == "win32", reason="links and odd names need POSIX")

listed_by_torchvision = torchvision.datasets.folder.make_dataset


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")


def settle(root: Path) -> None:
    """Makes every folder look as if it had not been touched for a while (the change time can't be set)."""
    for folder, _, _ in os.walk(root, followlinks=False):
        os.utime(folder, (1e9, 1e9))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    touch(root, "a/1.jpg", "a/2.PNG", "a/notes.txt", "a/deep/3.jpeg", "b/4.webp", "b.c/5.bmp", "c/x/y/z/6.tif")
    return root


def samples_of(root: Path, **options: object) -> list[tuple[str, int]]:
    return list(Samples(ImageIndex.from_folder(root, **options)))


def expected(root: Path) -> list[tuple[str, int]]:
    classes = find_classes(root)[1]
    return listed_by_torchvision(str(root), classes, IMG_EXTENSIONS, allow_empty=True)


part = st.text("aB-._ é\udc80\udcff\U0001f600~0", min_size=1, max_size=4).filter(lambda text: text.strip(".") != "")
names = st.tuples(part, st.sampled_from(["", ".jpg", ".JPG", ".png", ".txt"])).map("".join)
trees = st.lists(st.tuples(part, st.lists(part, max_size=2), names), max_size=14)


@posix
@given(files=trees, links=st.lists(st.tuples(part, st.integers(0, 50)), max_size=3))
def test_order_is_torchvisions_on_any_tree(tmp_path_factory, files, links):
    root = tmp_path_factory.mktemp("any")
    folders = []
    for label, between, name in files:
        folder = os.path.join(root, label, *between)
        try:
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, name), "wb"):
                folders.append(folder)
        except OSError:
            continue  # the name is a file already
    outside = tmp_path_factory.mktemp("outside")
    touch(outside, "linked.jpg", "in/side.png", "in-side/x.jpg")
    for name, at in links:
        if folders and not os.path.lexists(os.path.join(folders[at % len(folders)], name)):
            os.symlink(outside if at % 2 else outside / "linked.jpg", os.path.join(folders[at % len(folders)], name))
    if not folders:
        with pytest.raises(FileNotFoundError, match="class folder"):
            ImageIndex.from_folder(root)
        return
    known = listed_by_torchvision(str(root), find_classes(root)[1], IMG_EXTENSIONS, allow_empty=True)
    first = ImageIndex.from_folder(root)
    assert list(Samples(first)) == known == make_dataset(str(root), None, IMG_EXTENSIONS, allow_empty=True)
    assert [first.path(number) for number in range(len(first))] == [path for path, _ in known]
    assert list(Samples(ImageIndex.from_folder(root, location=None))) == known
    assert first.counts().tolist() == np.bincount([t for _, t in known], minlength=len(first.classes)).tolist()


class TestOpening:
    def test_second_time_is_opened_not_built(self, tree, settled):
        first = ImageIndex.from_folder(tree)
        second = ImageIndex.from_folder(tree)
        assert first.origin.startswith("built")
        assert second.origin == "opened"
        assert second.generation == first.generation
        assert list(Samples(second)) == expected(tree)

    def test_a_folder_that_just_changed_is_looked_at_again(self, tree):
        """Its time may not move with the next change; the files being the same, nothing is written."""
        first = ImageIndex.from_folder(tree)
        touch(tree, "a/0.jpg")
        assert list(Samples(ImageIndex.from_folder(tree))) == expected(tree)
        assert (first.table.part_states[:, 1] == pieces.UNSETTLED).all()

    def test_by_relative_path_and_with_another_spelling_it_is_the_same_index(self, tree, settled, monkeypatch):
        first = ImageIndex.from_folder(tree)
        monkeypatch.chdir(tree.parent)
        for spelling in ("tree", "./tree", Path("tree"), "tree/"):
            index = ImageIndex.from_folder(spelling)
            assert index.generation == first.generation
            assert list(Samples(index)) == listed_by_torchvision(
                spelling, find_classes(tree)[1], IMG_EXTENSIONS, allow_empty=True
            )

    def test_at_a_given_place(self, tree, tmp_path, settled):
        place = tmp_path / "here" / "index"
        first = ImageIndex.from_folder(tree, location=place)
        assert first.location == place
        assert {file.name for file in place.iterdir()} == {"lock", f"{first.generation}.index"}
        assert ImageIndex.from_folder(tree, location=place).origin == "opened"

    def test_a_folder_with_other_things_is_refused(self, tree, tmp_path):
        touch(tmp_path, "mine/thesis.txt")
        with pytest.raises(DatasetError, match="holds other things"):
            ImageIndex.from_folder(tree, location=tmp_path / "mine")
        with pytest.raises(DatasetError, match="that is a file"):
            ImageIndex.from_folder(tree, location=tmp_path / "mine" / "thesis.txt")

    def test_without_a_place_to_write_it_stays_in_memory_and_says_so(self, tree, tmp_path, monkeypatch):
        touch(tmp_path, "file")
        monkeypatch.setenv("FASTPIPE_CACHE", str(tmp_path / "file"))
        with pytest.warns(FastpipeWarning, match="stays in memory"):
            index = ImageIndex.from_folder(tree)
        assert index.location is None
        assert list(Samples(index)) == expected(tree)

    def test_errors_of_the_root(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="nowhere is not a folder"):
            ImageIndex.from_folder(tmp_path / "nowhere")
        touch(tmp_path, "top.jpg")
        with pytest.raises(FileNotFoundError, match="class folder"):
            ImageIndex.from_folder(tmp_path)


CHANGES = {
    "file added": lambda root: touch(root, "a/0.jpg"),
    "file added deep": lambda root: touch(root, "c/x/y/z/0.jpg"),
    "file removed": lambda root: (root / "a/deep/3.jpeg").unlink(),
    "file renamed": lambda root: (root / "a/1.jpg").rename(root / "a/9.jpg"),
    "file moved": lambda root: (root / "a/1.jpg").rename(root / "b/1.jpg"),
    "file becomes a folder": lambda root: ((root / "a/1.jpg").unlink(), touch(root, "a/1.jpg/in.png")),
    "folder added": lambda root: touch(root, "a/new/1.png"),
    "folder removed": lambda root: shutil.rmtree(root / "c/x/y"),
    "folder renamed": lambda root: (root / "a/deep").rename(root / "a/Deep"),
    "folder swapped": lambda root: (shutil.move(root / "a/deep", root / "d"), touch(root, "a/deep/other.jpg")),
    "class added in front": lambda root: touch(root, "0/1.png"),
    "class removed": lambda root: shutil.rmtree(root / "b"),
    "class renamed": lambda root: (root / "b").rename(root / "z"),
    "nothing of ours": lambda root: touch(root, "a/more.txt", "README"),
    "time set back": lambda root: (touch(root, "a/0.jpg"), os.utime(root / "a", (1e9, 1e9))),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("sizes", [False, True])
def test_a_change_is_noticed(tree, settled, change, sizes):
    (tree / "a/1.jpg").write_bytes(b"12345")
    settle(tree)
    time.sleep(0.02)  # times tick in steps of some milliseconds
    first = ImageIndex.from_folder(tree, sizes=sizes)
    CHANGES[change](tree)
    index = ImageIndex.from_folder(tree)
    assert list(Samples(index)) == expected(tree)
    if sizes:  # kept up to date for whoever asked once
        assert index.sizes.tolist() == [os.path.getsize(path) for path, _ in expected(tree)]
    assert index.counts().sum() == len(index)
    assert ImageIndex.from_folder(tree).origin == "opened"
    assert len(first) == 6  # the old generation is left to whoever uses it
    assert len(list(Samples(first))) == 6


def test_only_folders_that_changed_are_listed_again(tree, settled, monkeypatch):
    ImageIndex.from_folder(tree)
    time.sleep(0.02)
    touch(tree, "a/deep/0.jpg", "b/new/0.jpg")
    looked_at = []
    plain = local_scan._entries
    monkeypatch.setattr(local_scan, "_entries", lambda full, *rest: looked_at.append(full) or plain(full, *rest))
    assert samples_of(tree) == expected(tree)
    assert sorted(looked_at) == [str(tree / name) for name in ("a/deep", "b", "b/new")]


@posix
class TestLinks:
    def test_a_link_that_leads_back_is_an_error(self, tree):
        os.symlink(tree / "a", tree / "a" / "deep" / "back")
        with pytest.raises(DatasetError, match=r"back is a link to a folder that holds it"):
            ImageIndex.from_folder(tree)

    def test_a_link_to_the_root_is_an_error(self, tree):
        os.symlink("..", tree / "a" / "up")
        with pytest.raises(DatasetError, match="no end to the files"):
            ImageIndex.from_folder(tree)

    def test_a_link_to_itself_hides_no_other_file(self, tree):
        touch(tree, *(f"a/{number}.gif" for number in range(30)))
        os.symlink("itself", tree / "a" / "itself")
        assert files_left_out(ImageIndex.from_folder(tree)) == {".gif": 30, ".txt": 1, "": 1}

    def test_two_links_to_one_folder_are_no_loop(self, tree, tmp_path):
        touch(tmp_path, "elsewhere/1.jpg")
        for name in ("a/one", "a/two", "linked class"):
            os.symlink(tmp_path / "elsewhere", tree / name)
        assert samples_of(tree) == expected(tree)

    def test_a_dangling_link_is_listed_and_seen_when_it_leads_somewhere(self, tree, tmp_path, settled):
        os.symlink(tmp_path / "later", tree / "a" / "link.jpg")
        assert samples_of(tree) == expected(tree)
        touch(tmp_path, "later/1.jpg")
        assert samples_of(tree) == expected(tree)
        assert any(path.endswith("link.jpg/1.jpg") for path, _ in expected(tree))
        shutil.rmtree(tmp_path / "later")
        assert samples_of(tree) == expected(tree)

    def test_a_link_whose_target_is_exchanged_elsewhere(self, tree, tmp_path, settled):
        touch(tmp_path, "one/1.jpg", "two/2.jpg")
        os.symlink(tmp_path / "one", tmp_path / "now")
        os.symlink(tmp_path / "now", tree / "a" / "linked")
        assert samples_of(tree) == expected(tree)
        (tmp_path / "now").unlink()
        os.symlink(tmp_path / "two", tmp_path / "now")
        assert samples_of(tree) == expected(tree)

    def test_names_that_are_no_utf8(self, tmp_path):
        folder = os.path.join(os.fsencode(tmp_path), b"tree", b"class \xff")
        os.makedirs(folder)
        with open(os.path.join(folder, b"\xe9 \xf0\x9f.jpg"), "wb") as file:
            file.write(b"123")
        index = ImageIndex.from_folder(tmp_path / "tree", sizes=True)
        assert os.fsencode(index.path(0)) == os.path.join(folder, b"\xe9 \xf0\x9f.jpg")
        assert index.sizes.tolist() == [3]
        assert ImageIndex.from_folder(tmp_path / "tree").classes == ("class \udcff",)

    @pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may list everything")
    def test_a_folder_that_cannot_be_listed_is_told(self, tree):
        (tree / "a/deep").chmod(0)
        try:
            with pytest.warns(FastpipeWarning, match=r"can't be listed.*a/deep"):
                assert samples_of(tree) == expected(tree)
        finally:
            (tree / "a/deep").chmod(0o755)
        assert samples_of(tree) == expected(tree)


def file_of(index: ImageIndex) -> Path:
    return index.location / f"{index.generation}.index"


def parts_of(file: Path) -> tuple[dict[str, Any], bytes]:
    """The header of an index, and its arrays."""
    data = file.read_bytes()
    end = 24 + int.from_bytes(data[16:20], "little")
    return json.loads(data[24:end]), data[end:]


def resign(file: Path, *, without: str = "", **changes: object) -> None:
    """A header that is consistent in itself, and still not one for this."""
    header, arrays = parts_of(file)
    header |= changes
    header.pop(without, None)
    file.write_bytes(store_module.packed_header(header) + arrays)


def flip(file: Path, name: str) -> None:
    """Changes the last value of an array."""
    header, arrays = parts_of(file)
    about, changed = header["arrays"][name], bytearray(arrays)
    size = np.dtype(about["type"]).itemsize
    changed[about["start"] + (int(np.prod(about["shape"])) - 1) * size] ^= 1
    file.write_bytes(store_module.packed_header(header) + changed)


DAMAGE = {
    "truncated": lambda file: os.truncate(file, file.stat().st_size - 40),
    "nothing but its mark": lambda file: os.truncate(file, 16),
    "half a header": lambda file: os.truncate(file, 100),
    "empty": lambda file: os.truncate(file, 0),
    "longer": lambda file: file.open("ab").write(b"1234"),
    "another file": lambda file: np.save(file.open("wb"), np.zeros(6, "<f4")),
    "changed folders": lambda file: flip(file, "part_starts"),
    "changed last offset": lambda file: flip(file, "offsets"),
    "missing array": lambda file: resign(
        file, arrays={name: about for name, about in parts_of(file)[0]["arrays"].items() if name != "offsets"}
    ),
    "garbage header": lambda file: file.write_bytes(store_module._MAGIC + bytes([9, *7 * [0]]) + b"\xff{garbage"),
    "version 3": lambda file: file.write_bytes(store_module._MAGIC + bytes([9, *7 * [0]]) + b'{"a": 1} '),
    "endless header": lambda file: file.write_bytes(store_module._MAGIC + 16 * b"\xff"),
    "changed header": lambda file: file.write_bytes(file.read_bytes().replace(b'"b.c"', b'"b.d"', 1)),
    "other format": lambda file: resign(file, format="photos"),
    "other root": lambda file: resign(file, identity={**parts_of(file)[0]["identity"], "root": "/somewhere/else"}),
    "other extensions": lambda file: resign(file, identity={**parts_of(file)[0]["identity"], "extensions": [".gif"]}),
    "missing keys": lambda file: resign(file, without="classes"),
    "missing": lambda file: file.unlink(),
    "a folder in its place": lambda file: file.unlink() or file.mkdir(),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("place", ["auto", "given"])
def test_damage_is_noticed_and_mended(tree, tmp_path, settled, damage, place):
    location = "auto" if place == "auto" else tmp_path / "index"
    first = ImageIndex.from_folder(tree, location=location)
    DAMAGE[damage](file_of(first))
    index = ImageIndex.from_folder(tree, location=location)
    assert index.origin.startswith("built")
    assert list(Samples(index)) == expected(tree)
    assert ImageIndex.from_folder(tree, location=location).origin == "opened"


def test_content_that_changed_silently_is_mended_by_a_refresh(tree, settled):
    first = ImageIndex.from_folder(tree)
    flip(file_of(first), "labels")
    index = ImageIndex.from_folder(tree, refresh=True)
    assert index.origin == "built: asked to look at everything again"
    assert list(Samples(index)) == expected(tree)


def test_two_roots_at_one_place_take_turns_and_are_right(tree, tmp_path, settled):
    touch(tmp_path, "other/q/1.jpg")
    for root in (tree, tmp_path / "other", tree):
        index = ImageIndex.from_folder(root, location=tmp_path / "index")
        assert list(Samples(index)) == expected(root)


def test_a_disk_that_fails_while_writing_leaves_the_old_index(tree, settled, monkeypatch, tmp_path):
    first = ImageIndex.from_folder(tree, location=tmp_path / "index")
    time.sleep(0.02)
    touch(tree, "a/0.jpg")

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store_module.os, "fsync", fail)
        with pytest.raises(DatasetError, match="No space left"):
            ImageIndex.from_folder(tree, location=tmp_path / "index")
    assert sorted(file.name for file in first.location.iterdir()) == sorted(["lock", file_of(first).name])
    assert list(Samples(ImageIndex.from_folder(tree, location=tmp_path / "index"))) == expected(tree)


def test_generations_that_nobody_opened_for_a_day_are_removed(tree, settled):
    first = ImageIndex.from_folder(tree)
    second = ImageIndex.from_folder(tree, refresh=True)
    day = time.time() - 2 * 24 * 3600
    os.utime(file_of(first), (day, day))
    (first.location / f"{file_of(first).name}.0123.part").write_bytes(b"of a writer that was killed")
    os.utime(first.location / f"{file_of(first).name}.0123.part", (day, day))
    os.utime(file_of(second), ns=(time.time_ns(), int(day * 1e9)))  # made long ago, and opened just now
    third = ImageIndex.from_folder(tree, refresh=True)
    assert {file.name for file in third.location.iterdir()} == {"lock", file_of(second).name, file_of(third).name}
    assert first.generation < second.generation < third.generation


BUILDER = """
import os, sys, time
from fastpipe.datasets import ImageIndex
from fastpipe.index.lazy_sequences import Samples
start = time.time() + 0.3
children = []
for _ in range(2):
    children.append(os.fork())
    if children[-1] == 0:
        children = []
        break
while time.time() < start: pass
for _ in range(3):
    count = len(Samples(ImageIndex.from_folder(sys.argv[1], refresh=_ == 1)).copy())
    os.write(1, b"%d\\n" % count)  # at once: what print writes unbuffered, others write into
sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_processes_that_build_at_once_all_get_a_whole_index(tree):
    done = subprocess.run([sys.executable, "-c", BUILDER, str(tree)], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.split() == ["6"] * 9
    assert samples_of(tree) == expected(tree)


def read_in_worker(index: ImageIndex) -> list[tuple[str, int]]:
    return list(Samples(index))


class TestPickling:
    def test_a_few_hundred_bytes(self, tmp_path):
        touch(tmp_path / "tree", *(f"class {c}/{n}.jpg" for c in range(30) for n in range(30)))
        index = ImageIndex.from_folder(tmp_path / "tree")
        data = pickle.dumps(index)
        assert len(data) < 500
        assert list(Samples(pickle.loads(data))) == expected(tmp_path / "tree")

    def test_the_pickled_generation_is_the_one_that_is_opened(self, tree, settled):
        old = ImageIndex.from_folder(tree)
        before = list(Samples(old))
        data = pickle.dumps(old)
        time.sleep(0.02)
        touch(tree, "0/0.jpg")
        new = ImageIndex.from_folder(tree)
        assert new.generation != old.generation
        assert list(Samples(pickle.loads(data))) == before
        file_of(old).unlink()
        with pytest.raises(DatasetError, match="make the dataset again"):
            pickle.loads(data)

    def test_in_memory(self, tree):
        index = ImageIndex.from_folder(tree, location=None)
        assert list(Samples(pickle.loads(pickle.dumps(index)))) == expected(tree)

    @pytest.mark.slow
    def test_in_a_spawned_process(self, tree):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            assert pool.apply(read_in_worker, (ImageIndex.from_folder(tree),)) == expected(tree)


class TestManyFolders:
    @pytest.fixture
    def many(self, tmp_path: Path) -> Path:
        touch(tmp_path / "many", *(f"class {c}/{n % 3}/{n}.jpg" for c in range(40) for n in range(6)))
        return tmp_path / "many"

    @pytest.mark.parametrize("waits", [True, False])
    def test_same_files_from_a_fast_and_a_slow_disk(self, many, settled, monkeypatch, waits):
        monkeypatch.setattr(threads, "_PATIENCE_S", -1 if waits else 1e9)
        assert samples_of(many) == expected(many)
        time.sleep(0.02)
        touch(many, "class 7/1/new.jpg")
        assert samples_of(many, sizes=True) == expected(many)
        assert ImageIndex.from_folder(many).origin == "opened"

    @pytest.mark.parametrize("shown", [True, False])
    def test_what_takes_long_shows_a_bar_on_a_terminal(self, many, monkeypatch, capsys, shown):
        monkeypatch.setattr(progress_bar.SlowBar, "delay_s", 0.0)
        monkeypatch.setattr(progress_bar, "_is_terminal", lambda: True)
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert samples_of(many, sizes=True, progress=shown) == expected(many)
        assert ("looking for images" in capsys.readouterr().err) == shown
