"""`fastpipe.check`: its verdicts against Pillow's and the datasets', its notes, and what it takes."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import corpus
import numpy as np
import pytest
from packed_copies import damaged
from PIL import Image

import fastpipe
from fastpipe import core, readers
from fastpipe import transforms as T
from fastpipe.errors import ConfigError, DatasetError
from fastpipe.tools.check.findings import BAD, KINDS, bits_of, names_of
from fastpipe.tools.check.run import CheckResult
from fastpipe.types import Box

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL", "ignore::PIL.Image.DecompressionBombWarning")

EXTRA = {
    "class_0/page.jpg": b"\n<!DOCTYPE html><html><body>404 Not Found</body></html>",
    "class_0/drawing.png": b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>',
    "class_0/heif.jpg": b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(40),
    "class_0/pointer.jpg": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n",
    "class_0/zeros.jpg": bytes(5000),
    "class_1/photo.gif.png": corpus.files()["gif-animated"],
}


def check(source: object, **options: object) -> CheckResult:
    return fastpipe.check(source, **{"jobs": 1, "progress": False, **options})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("check") / "root"
    corpus.write_folder(root)
    for name, data in EXTRA.items():
        (root / name).write_bytes(data)
    return root


@pytest.fixture(scope="module")
def result(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> CheckResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FASTPIPE_CACHE", str(tmp_path_factory.mktemp("cache")))
        return fastpipe.check(folder, jobs=2, progress=False)


def kinds_of(result: CheckResult) -> dict[str, set[str]]:
    return {Path(row.path).stem: set(row.kinds) for row in result.rows}


def test_a_file_is_bad_where_pillow_refuses_it(result: CheckResult, folder: Path) -> None:
    refused = set()
    for number in range(result.files):
        path = result.index.path(number)
        if corpus.pillow_pixels(Path(path).read_bytes()) is None:
            refused.add(path)
    bad = [row for row in result.rows if row.bad]
    assert {str(folder / row.path) for row in bad} == refused
    assert len(bad) == result.bad == len(refused) > 40
    assert all(row.reason and BAD & set(row.kinds) for row in bad)
    assert not result.ok


def test_a_file_is_bad_where_image_folder_raises(result: CheckResult, folder: Path) -> None:
    dataset = fastpipe.ImageFolder(folder, T.Compose([T.RandomResizedCrop(8), T.ToTensor()]), bad_files_log=None)
    bad = {row.number for row in result.rows if row.bad}
    assert set(result.good.tolist()) == set(range(len(dataset))) - bad
    for number in range(len(dataset)):
        try:
            dataset[number]
        except OSError:
            assert number in bad, dataset.samples[number]
        else:
            assert number not in bad, dataset.samples[number]


def test_damaged_in_any_way_a_file_is_bad_where_pillow_refuses_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    seeds = [data for name, data in sorted(corpus.sound_files().items()) if len(data) < 20_000]
    expected = {}
    (tmp_path / "a").mkdir()
    for number in range(250):
        data = bytearray(seeds[rng.integers(len(seeds))])
        start, length = int(rng.integers(len(data))), int(rng.integers(1, 200))
        if number % 3 == 0:
            data[start] ^= 1 << rng.integers(8)
        elif number % 3 == 1:
            del data[start : start + length]
        else:
            data[start : start + length] = rng.bytes(length)
        expected[os.path.join("a", f"{number}.png")] = corpus.pillow_pixels(bytes(data)) is None
        (tmp_path / "a" / f"{number}.png").write_bytes(data)
    bad = {row.path for row in check(tmp_path).rows if row.bad}
    assert {path: path in bad for path in expected} == expected


def test_a_png_that_is_damaged_below_a_crop(tmp_path: Path) -> None:
    """Its chunks have their right checksums, so that the core gives the crop; Pillow refuses the file: it is bad."""
    image = corpus.photo(120, 90, 3)
    data = corpus.save(image, "PNG")
    at = data.index(b"IDAT") + 4
    length = int.from_bytes(data[at - 8 : at - 4], "big")
    stream = bytearray(data[at : at + length])
    stream[-2000] ^= 0xFF
    data = data[: at - 8] + corpus.chunk(b"IDAT", bytes(stream)) + data[at + length + 4 :]
    assert corpus.pillow_pixels(data) is None
    box = Box(0, 0, 10, 90)
    if core.available():
        pixels = readers.decode(data, box, header=readers.parse_header(data))
        np.testing.assert_array_equal(pixels, image[:10])
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "damaged.png").write_bytes(data)
    (tmp_path / "a" / "sound.png").write_bytes(corpus.save(image, "PNG"))
    (row,) = check(tmp_path).rows
    assert (row.path, row.bad, set(row.kinds)) == (os.path.join("a", "damaged.png"), True, {"unreadable"})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("empty", {"empty"}),
        ("jpeg-420-cut-half", {"truncated"}),
        ("jpeg-420-cut-header", {"truncated"}),
        ("png-rgb-cut-third", {"truncated"}),
        ("webp-cut-half", {"truncated"}),
        ("bmp-cut-half", {"truncated"}),
        ("png-bad-checksum", {"unreadable"}),
        ("jpeg-420-marker-inside", {"unreadable"}),
        ("text", {"not-an-image"}),
        ("page", {"not-an-image"}),
        ("png-claims-huge", {"over-limit"}),
        ("jpeg-claims-huge", {"over-limit"}),
        ("jpeg-420-misnamed", {"mislabelled"}),
        ("png-rgb-misnamed", {"mislabelled"}),
        ("photo.gif", {"mislabelled", "animated", "palette"}),
        ("jpeg-claims-large", {"large", "damaged"}),
        ("jpeg-420-end-inside", {"damaged"}),
        ("png-too-few-rows", {"damaged"}),
        ("jpeg-cmyk", {"cmyk"}),
        ("jpeg-ycck", {"cmyk"}),
        ("png-16-bit-gray", {"16-bit"}),
        ("png-rgba", {"alpha"}),
        ("png-rgb-trns", {"alpha"}),
        ("png-palette-trns", {"alpha", "palette"}),
        ("bmp-palette", {"palette"}),
        ("webp-animated", {"animated"}),
        ("png-animated", {"animated"}),
        ("mpo", {"multi-page"}),
        ("jpeg-progressive", {"progressive"}),
        ("png-interlaced", {"progressive"}),
        ("jpeg-exif-6", {"rotated"}),
        ("jpeg-420-1x1", {"unusual"}),
        ("tiff-float", {"16-bit", "unusual"}),
        ("jpeg-rgb", {"unusual"}),
        ("jpeg-exif-absurd", {"warns"}),
    ],
)
@pytest.mark.needs_core
def test_kinds(result: CheckResult, name: str, expected: set[str]) -> None:
    assert kinds_of(result)[name] == expected


@pytest.mark.parametrize("name", ["jpeg-420", "jpeg-444", "jpeg-gray", "png-rgb", "webp", "tiff-lzw", "jpeg-trailing"])
def test_ordinary_files_have_no_row(result: CheckResult, name: str) -> None:
    assert name not in kinds_of(result)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("page", "a web page"),
        ("drawing", "SVG"),
        ("heif", "pillow-heif"),
        ("pointer", "git lfs pull"),
        ("zeros", "zero bytes"),
        ("jpeg-420-misnamed", "the content is JPEG, the extension .png"),
        ("jpeg-exif-6", "EXIF orientation 6"),
        ("jpeg-claims-large", "1500×2000 pixels"),
        ("jpeg-420-1x1", "only 1×1 pixels"),
        ("jpeg-420-end-inside", "core: its data ends early"),
    ],
)
def test_reasons(result: CheckResult, name: str, said: str) -> None:
    if said.startswith("core: ") and "core" not in fastpipe.readers.available_readers():
        pytest.skip("another reader has other words for it")
    (row,) = (row for row in result.rows if Path(row.path).stem == name)
    assert said in row.reason


def test_rows_are_small_values_that_name_a_files_format_and_size(result: CheckResult, folder: Path) -> None:
    (row,) = (row for row in result.rows if Path(row.path).name == "jpeg-420-misnamed.png")
    assert (row.format, row.height, row.width) == ("JPEG", 97, 131)
    assert row.bytes == (folder / row.path).stat().st_size
    assert result.index.path(row.number) == str(folder / row.path)
    with pytest.raises(AttributeError):
        row.path = "other"
    assert pickle.loads(pickle.dumps(row)) == row


def test_counts_add_up(result: CheckResult) -> None:
    rows = list(result.rows)
    assert len(rows) == len(result.rows) == result.bad + result.noted
    assert result.files == result.bad + result.noted + result.fine == len(result.index)
    assert [row.bad for row in rows] == sorted((row.bad for row in rows), reverse=True)
    for name, count in result.counts.items():
        assert sum(name in row.kinds for row in rows) == count
    assert result.rows[3] == rows[3]
    assert result.rows[-1] == rows[-1]
    assert result.rows[2:4] == rows[2:4]
    text = str(result)
    assert "bad, would fail in training" in text
    assert "more bad files" in text


def test_good_files_make_a_list_to_train_on(result: CheckResult) -> None:
    good = fastpipe.ImageList(result.index, T.Resize(8)).subset(result.good)
    assert len(good) == result.files - result.bad
    for number in range(len(good)):
        good[number]


def test_every_kind_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "check.md").read_text(encoding="utf-8")
    rows = {line.split("|")[1].strip(" `"): line for line in text.splitlines() if line.startswith("| `")}
    for kind in KINDS:
        assert ("bad" in rows[kind.name].split("|")[2]) == kind.bad, kind.name


def test_kinds_as_a_number() -> None:
    names = [kind.name for kind in KINDS]
    assert len(set(names)) == len(names) <= 32
    for name in names:
        assert names_of(bits_of([name, "palette"])) == tuple(one for one in names if one in (name, "palette"))


def test_headers_alone_find_what_headers_show(folder: Path) -> None:
    kinds = kinds_of(check(folder, decode="header"))
    assert kinds["empty"] == {"empty"}
    assert kinds["jpeg-claims-huge"] == {"over-limit"}
    assert kinds["page"] == {"not-an-image"}
    assert kinds["jpeg-cmyk"] == {"cmyk"}
    assert kinds["jpeg-420-misnamed"] == {"mislabelled"}
    assert "jpeg-420-cut-half" not in kinds
    assert "jpeg-420-end-inside" not in kinds


@pytest.mark.needs_core
def test_packed_under_their_own_names(tmp_path: Path) -> None:
    make_photos(tmp_path / "root", ("ant/1.jpg", "ant/2.jpg", "bee/3.jpeg"))
    fastpipe.pack(tmp_path / "root", tmp_path / "packed", keep_names=True, progress=False)
    packed = {name: {"packed"} for name in ("1", "2", "3")}
    assert kinds_of(check(tmp_path / "packed")) == packed
    data = (tmp_path / "packed" / "ant" / "2.jpg").read_bytes()
    (tmp_path / "packed" / "ant" / "2.jpg").write_bytes(damaged(data)["last byte"])
    (tmp_path / "packed" / "bee" / "3.jpeg").write_bytes(damaged(data)["cut off"])
    broken = kinds_of(check(tmp_path / "packed"))
    assert broken["1"] == {"packed"}
    assert not {"packed"} & (broken["2"] | broken["3"])
    assert check(tmp_path / "packed").counts["packed"] == 1


def make_photos(root: Path, names: tuple[str, ...]) -> Path:
    for number, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(corpus.jpeg(30, 40, seed=number))
    return root


def test_folders_lists_indexes_datasets_and_single_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_photos(tmp_path / "root", ("ant/0.jpg", "ant/sub/1.jpg", "bee/2.jpg"))
    (root / "bee/2.jpg").write_bytes(b"")
    (root / "loose.jpg").write_bytes(b"no dataset reads it")
    (root / "notes.txt").write_text("nor this")
    (root / "cat").mkdir()
    bad = str(Path("bee/2.jpg"))
    index = fastpipe.ImageIndex.from_folder(root, location=tmp_path / "index")
    lines = tmp_path / "list.txt"
    lines.write_text("".join(f"{name} 0\n" for name in ("ant/0.jpg", "bee/2.jpg")))
    monkeypatch.chdir(root)
    for source, files in (
        (root, 3),
        (str(root), 3),
        (index, 3),
        (tmp_path / "index", 3),
        (fastpipe.ImageFolder(root, allow_empty=True), 3),
        (lines, 2),
    ):
        result = check(source)
        assert (result.files, [row.path for row in result.rows if row.bad]) == (files, [bad]), source
    result = check(root)
    assert result.empty_classes == ("bee", "cat")
    assert result.loose == 1


def test_a_folder_of_images_without_classes(tmp_path: Path) -> None:
    make_photos(tmp_path, ("0.jpg", "1.JPG"))
    (tmp_path / "2.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "cache").mkdir()
    result = check(tmp_path)
    assert result.files == 3
    assert [row.path for row in result.rows if row.bad] == ["2.png"]
    assert (result.loose, result.empty_classes) == (0, ())


def test_one_file_and_a_dataset_whose_samples_are_a_list(tmp_path: Path) -> None:
    make_photos(tmp_path, ("a/0.jpg", "a/1.jpg"))
    assert check(tmp_path / "a/0.jpg").files == 1
    dataset = fastpipe.ImageFolder(tmp_path)
    dataset.samples = list(dataset.samples)[1:]
    assert check(dataset).files == 1


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        ("nowhere", {}, "there is no"),
        (".", {}, "there is no image"),
        (3, {}, "takes a folder"),
        (".", {"decode": "half"}, "decode='half'"),
        (".", {"jobs": 0}, "jobs=0"),
        (".", {"timeout": 0}, "timeout=0"),
        (".", {"report": "findings.doc"}, ".csv, .json, .txt"),
        (".", {"report": "no/such/folder/findings.csv"}, "can't write"),
    ],
)
def test_what_it_doesn_t_take(
    source: object, options: dict[str, object], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ConfigError, DatasetError), match=said):
        check(source, **options)


@pytest.mark.skipif(os.name == "nt", reason="links and pipes as POSIX has them")
def test_what_can_t_be_opened_is_told_and_never_waited_for(tmp_path: Path) -> None:
    make_photos(tmp_path, ("a/0.jpg",))
    os.mkfifo(tmp_path / "a/pipe.jpg")
    (tmp_path / "a/dead.jpg").symlink_to(tmp_path / "gone.jpg")
    (tmp_path / "a/device.jpg").symlink_to("/dev/zero")
    (tmp_path / "a/secret.jpg").write_bytes(corpus.jpeg(8, 8))
    (tmp_path / "a/secret.jpg").chmod(0)
    result = check(tmp_path)
    reasons = {row.path: row.reason for row in result.rows if row.kinds == ("unreachable",)}
    assert "FIFO" in reasons["a/pipe.jpg"]
    assert "a link to a file that isn't there" in reasons["a/dead.jpg"]
    assert "device" in reasons["a/device.jpg"]
    if os.geteuid():  # root may read everything
        assert "Permission denied" in reasons["a/secret.jpg"]


def test_the_pixel_limit_is_the_callers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_photos(tmp_path, ("a/0.jpg",))  # 1,200 pixels

    def kinds(**options: object) -> tuple[str, ...]:
        return next((row.kinds for row in check(tmp_path, **options).rows), ())

    assert kinds(max_pixels=1300) == ()
    assert kinds(max_pixels=1000) == ("near-limit",)
    assert kinds(max_pixels=500, decode="header") == kinds(max_pixels=500) == ("over-limit",)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 500)
    assert kinds() == ("over-limit",)
    assert kinds(size=4) == ("over-limit",)
    assert kinds(size=4, max_pixels=None) == ("large",)


@pytest.mark.slow
def test_a_script_without_a_main_guard_and_a_main_process_left_alone(tmp_path: Path) -> None:
    """Processes don't import the caller's script again, and nothing changes in the caller's own."""
    make_photos(tmp_path / "root", ("a/0.jpg", "a/1.jpg"))
    script = tmp_path / "script.py"
    script.write_text(
        "import random, sys, warnings\n"
        "import cv2, numpy, torch, PIL.Image, PIL.ImageFile, fastpipe\n"
        "from fastpipe.readers import available_readers\n"
        "def state():\n"
        "    return (cv2.getNumThreads(), torch.get_num_threads(), torch.get_rng_state().tolist(), random.getstate(),\n"
        "            PIL.Image.MAX_IMAGE_PIXELS, PIL.ImageFile.LOAD_TRUNCATED_IMAGES, available_readers())\n"
        "cv2.setNumThreads(3); before = state()\n"
        f"print(fastpipe.check({str(tmp_path / 'root')!r}, jobs=2).files)\n"
        "assert state() == before\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")


@pytest.mark.skipif(sys.platform != "linux", reason="names that are no UTF-8 need such a file system")
def test_names_that_are_no_utf_8(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    name = os.fsdecode(b"caf\xe9 \xff.jpg")
    (tmp_path / "a" / name).write_bytes(b"")
    for ending in ("csv", "json", "txt"):
        check(tmp_path, report=tmp_path / f"report.{ending}")
    assert b"caf\xe9 \xff.jpg" in (tmp_path / "report.csv").read_bytes()
    assert b"caf\xe9 \xff.jpg" in (tmp_path / "report.txt").read_bytes()
    assert b"caf\\udce9 \\udcff.jpg" in (tmp_path / "report.json").read_bytes()


def test_good_positions_are_an_array(result: CheckResult) -> None:
    assert result.good.dtype == np.int64
