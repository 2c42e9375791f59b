"""ImageList: every source, errors that name the line, subsets and splits."""

from __future__ import annotations

import copy
import itertools
import os
import pickle
import sys
import tracemalloc
from collections import Counter
from pathlib import Path

import corpus
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import fastpipe
from fastpipe import ImageList
from fastpipe import transforms as T
from fastpipe.errors import DatasetError
from fastpipe.index import list_source, pieces, read_list
from fastpipe.readers import read_file


def full(root: Path | str, *names: str) -> list[str]:
    return [os.path.join(root, *name.split("/")) for name in names]


class TestText:
    def test_integers_are_the_targets(self, tmp_path):
        (tmp_path / "list.txt").write_text("b/2.jpg 7\n\na dir/1 x.jpg\t-3\r\nc.jpg  7", newline="")
        images = ImageList(tmp_path / "list.txt", root=tmp_path)
        assert images.samples == list(zip(full(tmp_path, "b/2.jpg", "a dir/1 x.jpg", "c.jpg"), [7, -3, 7], strict=True))
        assert images.targets == [7, -3, 7]
        assert images.classes == ["-3", "7"]
        assert images.class_to_idx == {"-3": -3, "7": 7}
        assert images.index.counts().tolist() == [1, 2]

    def test_names_are_sorted_and_counted(self, tmp_path):
        (tmp_path / "list.txt").write_text("\ufeffx.jpg zebra\ny.jpg ant\nz.jpg A3\n", encoding="utf-8")
        images = ImageList(str(tmp_path / "list.txt"))
        assert images.samples == [("x.jpg", 2), ("y.jpg", 1), ("z.jpg", 0)]
        assert images.classes == ["A3", "ant", "zebra"]

    def test_absolute_paths_beside_relative_ones(self, tmp_path):
        other = str(tmp_path / "other.jpg")
        (tmp_path / "list.txt").write_text(f"a.jpg 0\n{other} 1\n")
        images = ImageList(tmp_path / "list.txt", root=tmp_path / "root")
        assert images.samples == [(str(tmp_path / "root" / "a.jpg"), 0), (other, 1)]
        assert pickle.loads(pickle.dumps(images)).samples == images.samples

    @pytest.mark.skipif(sys.platform == "win32", reason="paths are text there")
    def test_any_bytes(self, tmp_path):
        (tmp_path / "list.txt").write_bytes(b"\xff\xe9.jpg 1\n\xc3\xa9.jpg 2\n")
        images = ImageList(tmp_path / "list.txt")
        assert [os.fsencode(path) for path, _ in images.samples] == [b"\xff\xe9.jpg", b"\xc3\xa9.jpg"]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("a.jpg\n\nb.jpg\n", r"list\.txt, line 1 is not a path and a label, and neither is any other row"),
            ("a.jpg 1\nb\0c.jpg 2\n", r"list\.txt, line 2: .* has a NUL"),
        ],
    )
    def test_bad_lines_are_named(self, tmp_path, text, message):
        (tmp_path / "list.txt").write_text(text)
        with pytest.raises(DatasetError, match=message):
            ImageList(tmp_path / "list.txt")

    def test_bytes_that_are_no_text_as_on_windows_are_named(self, tmp_path, monkeypatch):
        monkeypatch.setattr(read_list, "ERRORS", "strict")
        for name, start in (("list.txt", "after the header 1"), ("list.csv", "path,label")):
            (tmp_path / name).write_bytes(f"{start}\na.jpg,b 1\n".encode() + b"\xff.jpg,b 2\n")
            with pytest.raises(DatasetError, match=rf"{name}, (line 3|after line \d): it is not utf-8 text"):
                ImageList(tmp_path / name)

    def test_empty_and_missing(self, tmp_path):
        (tmp_path / "list.txt").write_text("")
        assert len(ImageList(tmp_path / "list.txt")) == 0
        with pytest.raises(FileNotFoundError):
            ImageList(tmp_path / "nowhere.txt")


class TestCsv:
    def test_columns_by_name(self, tmp_path):
        (tmp_path / "list.csv").write_text('split,label,path\ntrain,cat,"a, b.jpg"\n\ntrain,ant,"line\nbreak.jpg"\n')
        images = ImageList(tmp_path / "list.csv", root="r")
        assert images.samples == list(zip(full("r", "a, b.jpg", "line\nbreak.jpg"), [1, 0], strict=True))

    def test_columns_by_position_without_names(self, tmp_path):
        (tmp_path / "list.tsv").write_text("3\ta b.jpg\n4\tc.jpg\n")
        assert ImageList(tmp_path / "list.tsv", columns=(1, 0)).samples == [("a b.jpg", 3), ("c.jpg", 4)]

    def test_other_names(self, tmp_path):
        (tmp_path / "list.csv").write_text("file,class\na.jpg,0\n")
        assert ImageList(tmp_path / "list.csv", columns=("file", "class")).samples == [("a.jpg", 0)]
        with pytest.raises(DatasetError, match=r"line 1: there is no column 'path' among 'file', 'class'"):
            ImageList(tmp_path / "list.csv")

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            ('"b.jpg,3', "line 3: unexpected end of data"),
        ],
    )
    def test_bad_rows_are_named(self, tmp_path, row, message):
        (tmp_path / "list.csv").write_text(f"path,label\na.jpg,1\n{row}\n")
        with pytest.raises(DatasetError, match=rf"list\.csv, line 3.*{message}|{message}"):
            ImageList(tmp_path / "list.csv")


class TestParquet:
    def test_read(self, tmp_path):
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet

        columns = {"number": [5, 6], "share": [0.5, 1.5], "some": ["x", None]}
        table = pa.table({"label": ["x", "a"], "path": ["1.jpg", "2.jpg"], **columns})
        pyarrow.parquet.write_table(table, tmp_path / "list.parquet")
        assert ImageList(tmp_path / "list.parquet").samples == [("1.jpg", 1), ("2.jpg", 0)]
        numbered = ImageList(tmp_path / "list.parquet", columns=("path", "number"))
        assert numbered.targets == [5, 6]
        assert ImageList(tmp_path / "list.parquet", columns=("path", "share")).targets == [0.5, 1.5]
        with_none = ImageList(tmp_path / "list.parquet", columns=("path", "some"))
        assert with_none.samples[0] == ("1.jpg", 0)
        with pytest.raises(FileNotFoundError, match="no path, or no label"):
            with_none[1]
        with pytest.raises(DatasetError, match="no column 'file' among 'label', 'path'"):
            ImageList(tmp_path / "list.parquet", columns=("file", "label"))

    def test_damaged(self, tmp_path):
        pytest.importorskip("pyarrow")
        (tmp_path / "list.parquet").write_bytes(b"PAR1 nonsense PAR1")
        with pytest.raises(DatasetError, match=r"list\.parquet"):
            ImageList(tmp_path / "list.parquet")

    def test_without_pyarrow(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        (tmp_path / "list.parquet").write_bytes(b"PAR1 nonsense PAR1")
        with pytest.raises(DatasetError, match=r"pip install pyarrow"):
            ImageList(tmp_path / "list.parquet")


def lines_of(count: int, start: int = 0) -> list[tuple[str, int]]:
    return [(f"n{i % 7:08d}/n{i % 7:08d}_{i:07d}.JPEG", i % 7) for i in range(start, start + count)]


def text_of(rows: list[tuple[str, int]], separator: str = " ") -> str:
    return "".join(f"{path}{separator}{label}\n" for path, label in rows)


class TestKept:
    """The parsed content of a large file is kept as long as the file's size and times stay."""

    @pytest.fixture(params=["txt", "tsv"])
    def path(self, request, tmp_path, settled):
        path = tmp_path / f"list.{request.param}"
        self.separator = {"txt": " ", "tsv": "\t"}[request.param]
        path.write_text(text_of(lines_of(3000), self.separator))
        return path

    def open(self, path, **options):
        return ImageList(path, columns=(0, 1), **options)

    def test_is_parsed_once(self, path, monkeypatch):
        first = self.open(path, root="photos")
        assert first.samples == [(os.path.join("photos", *name.split("/")), label) for name, label in lines_of(3000)]
        monkeypatch.setattr(list_source, "read_list", None)
        again = self.open(str(path), root="photos")
        assert again.samples == first.samples
        assert again.classes == [*map(str, range(7))]
        assert again.index.generation == first.index.generation
        assert not again.index.table.paths.flags.owndata  # mapped, so that processes share it
        assert pickle.loads(pickle.dumps(again)).samples == first.samples
        assert len(pickle.dumps(again)) < 2048

    def test_is_another_with_another_root_or_other_columns(self, path):
        assert self.open(path).samples == lines_of(3000)
        assert self.open(path, root="other").samples[5][0].startswith("other")
        if path.suffix == ".tsv":
            turned = ImageList(path, columns=(1, 0))
            assert turned.samples[8] == ("1", sorted(name for name, _ in lines_of(3000)).index(lines_of(9)[8][0]))

    def test_changes_are_seen(self, path):
        before = os.stat(path)
        assert self.open(path).samples == lines_of(3000)
        path.write_text(text_of(lines_of(3000, 1000), self.separator))  # of the same size, at another time
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
        assert self.open(path).samples == lines_of(3000, 1000)
        with open(path, "a") as file:
            file.write(text_of(lines_of(5), self.separator))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
        assert self.open(path).samples == lines_of(3000, 1000) + lines_of(5)

    def test_a_file_that_was_just_written_is_parsed_again(self, path, monkeypatch):
        monkeypatch.setattr(pieces, "SETTLED_NS", 10**18)
        assert self.open(path).samples == lines_of(3000)
        parsed = []
        monkeypatch.setattr(list_source, "read_list", lambda *given: parsed.append(1) or read_list.read_list(*given))
        assert self.open(path).samples == lines_of(3000)
        assert parsed

    def test_what_settles_while_it_is_read_holds(self, path, monkeypatch):
        """Where the file system's times are finer than what reading takes."""
        monkeypatch.setattr(pieces, "SETTLED_NS", 10**18)
        read = read_list.read_list

        def reading(*given):
            monkeypatch.setattr(pieces, "SETTLED_NS", -(10**18))
            return read(*given)

        monkeypatch.setattr(list_source, "read_list", reading)
        monkeypatch.setattr(list_source, "_MS", 10**9 + 7)  # whatever this disk's times are
        assert self.open(path).samples == lines_of(3000)
        monkeypatch.setattr(list_source, "read_list", None)
        assert self.open(path).samples == lines_of(3000)

    def test_damage_is_noticed(self, path):
        index = self.open(path).index
        file = index.location / f"{index.generation}.index"
        file.write_bytes(file.read_bytes()[:-1])
        assert self.open(path).samples == lines_of(3000)

    def test_absolute_paths(self, path, tmp_path):
        other = str(tmp_path / "other.jpg")
        with open(path, "a") as file:
            file.write(f"{other}{self.separator}1\n")
        expected = [(os.path.join("photos", *name.split("/")), label) for name, label in lines_of(3000)]
        for _ in range(2):
            images = self.open(path, root="photos")
            assert images.samples == [*expected, (other, 1)]
            assert pickle.loads(pickle.dumps(images)).samples == images.samples

    def test_where_nothing_can_be_kept(self, path, monkeypatch, tmp_path):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("FASTPIPE_CACHE", str(tmp_path / "file"))
        with pytest.warns(fastpipe.errors.FastpipeWarning, match="can't be kept"):
            assert self.open(path).samples == lines_of(3000)


class TestPieces:
    """Files are parsed a piece at a time."""

    @given(
        st.lists(
            st.tuples(st.text("ab/ \t\u3000é😀", max_size=9), st.sampled_from([" ", "\t ", "\x0b"]), st.text("7x"))
        )
    )
    def test_any_text(self, tmp_path_factory, rows):
        """Equal to the whole text split into lines, wherever pieces end."""
        text = "".join(f"{path}{space}{label}\n" for path, space, label in rows)
        file = tmp_path_factory.mktemp("lists") / "list.txt"
        file.write_bytes(text.encode())
        expected = [line.rsplit(None, 1) for line in text.split("\n") if line.strip()]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(read_list, "_PIECE", 5)
            patch.setattr(read_list, "_ROWS", 2)
            whole = [parts if len(parts) == 2 else None for parts in expected]
            labels = [parts[1] for parts in whole if parts]
            if expected and not labels:
                with pytest.raises(DatasetError, match=r"list\.txt, line \d+ is not a path and a label"):
                    ImageList(file)
            elif len({label.isdigit() for label in labels}) > 1:
                with pytest.raises(DatasetError, match="the labels are mixed"):
                    ImageList(file)
            elif not any(os.path.isabs(parts[0].strip()) for parts in expected):
                images = ImageList(file)
                names = {value: name for name, value in images.class_to_idx.items()}
                for (path, target), parts in zip(images.samples, whole, strict=True):
                    if parts is None:
                        with pytest.raises(FileNotFoundError, match="no path, or no label"):
                            read_file(path)
                    else:
                        assert path == parts[0].strip().replace("/", os.sep)
                        assert names[target] in (parts[1], str(int(parts[1])) if parts[1].isdigit() else "")

    @pytest.mark.slow
    @pytest.mark.parametrize("ending", ["txt", "csv"])
    def test_memory(self, tmp_path, ending):
        """Beside what the index itself takes, a list of any length needs a few MB."""
        path = tmp_path / f"list.{ending}"
        path.write_text(text_of(lines_of(200_000), " " if ending == "txt" else ","))
        tracemalloc.start()
        try:
            table = read_list.table_of(*read_list.read_list(path, (0, 1)), "").table
            assert tracemalloc.get_traced_memory()[1] < table.nbytes * 1.4 + 40e6
        finally:
            tracemalloc.stop()
        assert len(table) == 200_000

    @pytest.mark.parametrize("place", [0, 4, 9])
    def test_errors_name_the_row_in_any_block(self, monkeypatch, tmp_path, place):
        monkeypatch.setattr(read_list, "_ROWS", 4)
        monkeypatch.setattr(read_list, "_PIECE", 20)
        paths, labels = [f"{i}.jpg" for i in range(10)], [*range(10)]
        paths[place] = "\0.jpg"
        with pytest.raises(DatasetError, match=rf"item {place}: the path .* has a NUL"):
            ImageList((paths, labels))
        (tmp_path / "list.txt").write_text("".join(f"{path} 1\n" for path in paths))
        with pytest.raises(DatasetError, match=rf"line {place + 1}: the path .* has a NUL"):
            ImageList(tmp_path / "list.txt")
        paths[place], labels[place] = "x.jpg", 2**31
        with pytest.raises(DatasetError, match=rf"item {place}: the label 2147483648 is outside"):
            ImageList((paths, labels))


class TestSequences:
    def test_kinds_of_paths_and_labels(self):
        paths = ["a.jpg", Path("b.jpg"), b"c.jpg"]
        for labels in ([0, 5, 2], np.array([0, 5, 2]), torch.tensor([0, 5, 2]), (np.int8(0), 5, 2)):
            images = ImageList((paths, labels))
            assert images.samples == [("a.jpg", 0), ("b.jpg", 5), ("c.jpg", 2)]
            assert type(images.samples[0][1]) is int
        assert ImageList((paths, ["2", "10", "2"])).targets == [1, 0, 1]

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ((["a"], [1, 2]), "1 path and 2 labels"),
            ((["a", "b"], [1, "x"]), "item 1: the label 'x' is of another type"),
            (([3, 4], [1, 2]), "item 0 is not a path and a label, and neither is any other row"),
            (["a.jpg", "b.jpg"], r"not two paths.*\(paths, \[0\]"),
            ([("a.jpg", 0), ("b.jpg", 1)], r"two pairs\. Of pairs give tuple\(zip"),
            ([("a.jpg", 0), ("b.jpg", 1), ("c.jpg", 1)], r"not list\. Of pairs give tuple\(zip"),
            ({"a.jpg": 0}, "not dict"),
            (([""], [1]), "item 0 is not a path and a label"),
            ((["a"], [None]), "item 0 is not a path and a label"),
            ((["a", "b"], [1, [2]]), r"item 1: the label \[2\] is neither"),
            ((["a", "b"], [0.5, 2]), "item 1: the label 2 is of another type"),
            ((["a"], [1 << 40]), "item 0: the label 1099511627776 is outside"),
            (7, "not int"),
        ],
    )
    def test_errors(self, source, message):
        with pytest.raises(DatasetError, match=message):
            ImageList(source)

    def test_samples_are_read(self, tmp_path):
        Image.new("RGB", (6, 5), (9, 8, 7)).save(tmp_path / "x.png")
        images = ImageList((["x.png"], ["cat"]), T.Compose([T.CenterCrop(2), T.PILToTensor()]), abs, root=tmp_path)
        image, target = images[0]
        assert image[:, 0, 0].tolist() == [9, 8, 7]
        assert target == 0
        assert "Root location" in repr(images)

    def test_large_lists_are_mapped_and_pickle_small(self):
        images = ImageList(([f"folder/{i}.jpg" for i in range(5000)], [i % 7 for i in range(5000)]))
        assert images.index.location is not None
        assert len(pickle.dumps(images)) < 2048
        assert pickle.loads(pickle.dumps(images)).samples == images.samples
        again = ImageList(([f"folder/{i}.jpg" for i in range(5000)], [i % 7 for i in range(5000)]))
        assert again.index.generation == images.index.generation
        half = images.subset(slice(None, None, 2))
        assert half.samples == images.samples[::2]
        assert len(pickle.dumps(half)) < 2048


@pytest.fixture
def images() -> ImageList:
    return ImageList(
        ([f"é{i}" * (i % 5) + ".jpg" for i in range(101)], [f"c{i % 3 if i < 90 else 3}" for i in range(101)])
    )


class TestSubset:
    def test_positions(self, images):
        known = list(images.samples)
        for indices in (
            [5, 0, 5, -1],
            np.array([3, 2]),
            torch.tensor([7, 9]),
            range(4),
            slice(90, None),
            slice(9, 2, -3),
        ):
            expected = known[indices] if isinstance(indices, slice) else [known[int(i)] for i in indices]
            assert images.subset(indices).samples == expected
        mask = np.arange(101) % 7 == 0
        assert images.subset(mask).samples == known[::7]
        assert len(images.subset([])) == 0
        assert images.subset([1]).classes == images.classes

    def test_errors(self, images):
        for indices in ([101], [-102], [True, False]):
            with pytest.raises(IndexError):
                images.subset(indices)
        with pytest.raises(TypeError, match="positions are"):
            images.subset([0.5])

    def test_the_rest_stays(self, images):
        images.transform, images.loader = T.ToTensor(), Image.open
        assert images.subset([0]).transform is images.transform
        assert images.subset([0]).loader is Image.open

    def test_of_assigned_samples(self, images):
        images.samples = [("x", 2), ("y", 0)]
        assert images.subset([1]).samples == [("y", 0)]
        assert copy.copy(images).samples == images.samples


class TestSplit:
    @given(
        shares=st.lists(st.integers(0, 9), min_size=1, max_size=5).filter(any),
        seed=st.integers(0, 3),
        stratified=st.booleans(),
    )
    def test_disjoint_complete_in_order_and_in_proportion(self, shares, seed, stratified):
        images = ImageList(([f"{i}.jpg" for i in range(97)], [i * i % 11 for i in range(97)]))
        fractions = [share / sum(shares) for share in shares]
        parts = images.split(fractions, seed, stratified)
        positions = [[int(path[:-4]) for path, _ in part.samples] for part in parts]
        assert sorted(itertools.chain(*positions)) == list(range(97))
        assert all(part == sorted(part) for part in positions)
        for part, fraction in zip(parts, fractions, strict=True):
            assert abs(len(part) - fraction * 97) <= (1 if not stratified else 12)
            if stratified:
                for target, count in Counter(images.targets).items():
                    assert abs(part.targets.count(target) - fraction * count) <= 2
        again = images.split(fractions, seed, stratified)
        assert all(a.samples == b.samples for a, b in zip(parts, again, strict=True))

    def test_stratified_parts_have_their_size_with_many_small_classes(self):
        images = ImageList(([f"{i}.jpg" for i in range(4000)], [i // 4 for i in range(4000)]))
        _, test = images.split((0.9, 0.1), stratified=True)
        assert abs(len(test) - 400) <= 4
        assert max(Counter(test.targets).values()) == 1

    def test_seeds_differ_and_global_generators_stay(self, images):
        state = torch.get_rng_state()
        first, second = (images.split((0.5, 0.5), seed)[0].samples[:] for seed in (0, 1))
        assert first != second
        assert torch.equal(torch.get_rng_state(), state)

    @pytest.mark.parametrize("fractions", [(0.5, 0.4), (1.5, -0.5), (), 0.5])
    def test_errors(self, images, fractions):
        with pytest.raises(ValueError, match="sum to 1"):
            images.split(fractions)


def test_from_folder_lists_what_image_folder_lists(tmp_path):
    for name in ("b/1.jpg", "a/x/2.png", "a/3.webp"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    images, folder = ImageList.from_folder(tmp_path, seed=3), fastpipe.ImageFolder(tmp_path)
    assert images.samples == folder.samples
    assert images.classes == folder.classes
    assert images.subset([2, 0]).samples == [folder.samples[2], folder.samples[0]]
    (tmp_path / "c").mkdir()
    with pytest.raises(FileNotFoundError, match="classes c"):
        ImageList.from_folder(tmp_path)


class TestFloats:
    def test_are_the_targets(self, tmp_path):
        paths = [tmp_path / f"{number}.jpg" for number in range(4)]
        for path in paths:
            path.write_bytes(corpus.jpeg(8, 9))
        given = [0.5, -1.25, 1e300, float("inf")]
        for labels in (given, np.array(given), np.array([0.5, 1.5, -3, 2], np.float32)):
            dataset = ImageList((paths, labels), T.ToTensor())
            expected = [float(label) for label in labels]
            assert dataset.targets == expected
            assert [label for _, label in dataset.samples] == expected
            assert [type(dataset[number][1]) for number in range(4)] == [float] * 4
            assert np.asarray(dataset.targets).dtype == np.float64
            assert dataset.classes == []
            batches = [labels for _, labels in fastpipe.DataLoader(dataset, 3)]
            assert torch.equal(torch.cat(batches), torch.tensor(expected, dtype=torch.float64))
            assert batches[0].dtype == torch.utils.data.default_collate(expected).dtype
            assert dataset.subset([2, 0]).targets == [expected[2], expected[0]]
            assert pickle.loads(pickle.dumps(dataset)).targets == expected
            assert sum(map(len, dataset.split((0.5, 0.5)))) == 4

    def test_many_are_mapped(self):
        labels = np.random.RandomState(0).rand(5000)
        dataset = ImageList(([f"folder/{i}.jpg" for i in range(5000)], torch.from_numpy(labels)))
        assert dataset.index.location is not None
        again = pickle.loads(pickle.dumps(dataset))
        assert again.targets == labels.tolist()
        assert [target for _, target in again.samples_at(range(50))] == labels[:50].tolist()
