"""MachineConfig: the file, the variables, and what makes a file untrusted."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest
from PIL import Image

from fastpipe import config as config_module
from fastpipe.config import (
    MachineConfig,
    current_config,
    format_key,
    parse_reader_override,
)
from fastpipe.environment import library_versions, machine_fingerprint
from fastpipe.errors import ConfigError, FastpipeWarning


def measured_here() -> MachineConfig:
    return MachineConfig(
        readers={"jpeg": "turbojpeg", "png": "cv2"},
        measured={"jpeg": {"turbojpeg": 801.5, "cv2": 1500.25, "pil": 2000.0}, "png": {"cv2": 90.0}},
        versions=dict(library_versions()),
        machine=dict(machine_fingerprint()),
        created="2026-01-02T03:04:05+00:00",
    )


def test_without_a_file_nothing_is_chosen() -> None:
    assert current_config() == MachineConfig()
    assert current_config().reader_for("JPEG") is None


def test_round_trip() -> None:
    config = measured_here()
    written = config.save()
    assert written == MachineConfig.path()
    assert MachineConfig.load() == config
    assert current_config() == config
    assert "# Which reader fastpipe uses" in written.read_text(encoding="utf-8")


def test_save_makes_the_folder_and_leaves_only_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "mine.toml"
    measured_here().save(file)
    MachineConfig(readers={"jpeg": "pil"}).save(file)
    assert [entry.name for entry in file.parent.iterdir()] == ["mine.toml"]
    assert MachineConfig.load(file).readers == {"jpeg": "pil"}


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps other permissions, and lets few make links")
def test_a_link_stays_a_link(tmp_path: Path) -> None:
    kept = MachineConfig(readers={"jpeg": "pil"}).save(tmp_path / "kept.toml")
    kept.chmod(0o640)
    (tmp_path / "config.toml").symlink_to(kept)
    MachineConfig(readers={"jpeg": "cv2"}).save(tmp_path / "config.toml")
    assert (tmp_path / "config.toml").is_symlink()
    assert MachineConfig.load(kept).readers == {"jpeg": "cv2"}
    assert kept.stat().st_mode & 0o777 == 0o640


def test_a_failed_save_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = measured_here().save(tmp_path / "config.toml")
    before = file.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ConfigError, match="No space left"):
        MachineConfig().save(file)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_it_is_a_value() -> None:
    config = measured_here()
    assert pickle.loads(pickle.dumps(config)) == config
    with pytest.raises(FrozenInstanceError):
        config.created = "now"
    assert replace(config, readers={"JPG": "pil"}).readers == {"jpeg": "pil"}


def test_it_travels_to_another_process() -> None:
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).reader_for('PNG'))"
    data = pickle.dumps(measured_here())
    ran = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True, timeout=120)
    assert ran.stdout.split() == [b"cv2"]


@pytest.mark.parametrize("name", ["JPEG", "MPO", "jpg", "jpeg", " Jpeg "])
def test_formats_are_named_as_pillow_or_the_file_names_them(name: str) -> None:
    assert format_key(name) == "jpeg"
    assert measured_here().reader_for(name) == "turbojpeg"


def test_the_star_serves_the_rest() -> None:
    config = MachineConfig(readers={"*": "cv2", "png": "pil"})
    assert [config.reader_for(name) for name in ("PNG", "WEBP", "JPEG")] == ["pil", "cv2", "cv2"]


def test_the_path_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTPIPE_CONFIG", str(tmp_path))
    assert MachineConfig.path() == tmp_path / "config.toml"
    monkeypatch.setenv("FASTPIPE_CONFIG", str(tmp_path / "other.toml"))
    assert MachineConfig.path() == tmp_path / "other.toml"
    monkeypatch.delenv("FASTPIPE_CONFIG")
    assert MachineConfig.path().parts[-2:] == ("fastpipe", "config.toml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {"jpeg": "turbojpeg", "png": "cv2"}),
        ("pil", {"*": "pil"}),
        ("jpeg=pil", {"jpeg": "pil", "png": "cv2"}),
        (" JPG = pil , webp=cv2,", {"jpeg": "pil", "png": "cv2", "webp": "cv2"}),
        ("cv2,png=pil", {"*": "cv2", "png": "pil"}),
    ],
)
def test_the_reader_variable_beats_the_file(
    text: str, expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured_here().save()
    monkeypatch.setenv("FASTPIPE_READER", text)
    assert current_config().readers == expected


@pytest.mark.parametrize("text", ["jpeg=", "=cv2", "jpeg=cv2=pil", "cv2,pil", "jpeg=cv2,jpg=pil"])
def test_a_malformed_reader_variable_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="FASTPIPE_READER"):
        parse_reader_override(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[readers]\njpeg = "cv2"\npng = cv2\n', "not TOML.*line 3"),
        ('[readers]\njpeg = "cv2', "not TOML"),
        ('created = "x"\n\n[raeders]\njpeg = "cv2"\n', "unknown key 'raeders'"),
        ('[readers]\njpeg = "cv2"\n# jpeg\npng = 3\n', "readers.png must be the name of a reader, not 3"),
        ('[machine]\ncpus = 2\n[readers]\njpeg = ""\n', "readers.jpeg must be the name of a reader, not ''"),
        ("created = 1\n", "created must be a string"),
        ("\nreaders = 5\n", "readers must be a table"),
        ('[measured.jpeg]\npil = 1.5\n[measured.png]\npil = "slow"\n', "measured.png must be a table of numbers"),
        ("\n[measured]\njpeg = 3\n", "measured.jpeg must be a table of numbers"),
        ('[readers]\n\njpeg = "\xff"\n', "UTF-8"),
    ],
)
def test_an_unusable_file_is_an_error_that_says_what(text: str, reason: str) -> None:
    file = MachineConfig.path()
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=reason) as caught:
        MachineConfig.load()
    assert f"{file}: " in str(caught.value)
    config_module._said.clear()
    with pytest.warns(FastpipeWarning, match=reason) as warned:  # a training goes on
        assert current_config() == MachineConfig()
    assert f"{file}: " in str(warned[0].message)


def test_odd_names_and_texts_survive_the_file(tmp_path: Path) -> None:
    odd = 'a "b"\\ \n\t\x7f é 🖼'
    config = MachineConfig({"*": odd, "jpeg 2000": "pil"}, {odd: {odd: 1e-7}}, {odd: odd}, {odd: 3, "é": odd}, odd)
    assert MachineConfig.load(config.save(tmp_path / "odd.toml"), check=False) == config


def test_a_folder_in_the_file_s_place_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't read the config file"):
        MachineConfig.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "phrase"),
    [
        ({"machine": {"processor": "Another 9000", "cpus": 2}}, "was 'Another 9000'"),
        ({"versions": {"pillow": "1.0"}}, "was 1.0"),
    ],
)
def test_a_foreign_file_is_said_once_and_not_used(change: dict[str, dict[str, str | int]], phrase: str) -> None:
    foreign = replace(measured_here(), **change)
    file = foreign.save()
    with pytest.warns(FastpipeWarning, match=phrase):
        assert MachineConfig.load() == MachineConfig()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert current_config() == MachineConfig()
        assert MachineConfig.load() == MachineConfig()
        assert MachineConfig.load(check=False) == foreign
    assert file.exists()


@pytest.mark.slow
def test_of_several_workers_one_says_it(tmp_path: Path) -> None:
    replace(measured_here(), machine={"cpus": -1}).save()
    program = tmp_path / "program.py"
    program.write_text(
        "from torch.utils.data import DataLoader\n"
        "from fastpipe.config import current_config\n"
        "class Readers:\n"
        "    def __len__(self): return 12\n"
        "    def __getitem__(self, index): return str(current_config().reader_for('PNG'))\n"
        "if __name__ == '__main__':\n"
        "    print(*DataLoader(Readers(), batch_size=None, num_workers=3))\n"
    )
    ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["None"] * 12
    assert ran.stderr.count("is not used") == 1


def test_a_file_written_by_hand_is_used() -> None:
    MachineConfig.path().write_text('readers = {jpg = "cv2"}\n[versions]\nmine = "3"\n', encoding="utf-8")
    assert current_config().reader_for("JPEG") == "cv2"


def test_a_removed_library_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    config = measured_here()
    monkeypatch.setattr(config_module, "library_versions", dict)
    assert any("pillow is not installed" in phrase for phrase in config.mismatches())


def test_import_reads_nothing(tmp_path: Path) -> None:
    broken = tmp_path / "config.toml"
    broken.write_text("][", encoding="utf-8")
    code = (
        "import fastpipe.config as c\ntry: c.MachineConfig.load()\nexcept c.ConfigError as e: print('line 1' in str(e))"
    )
    environment = {**os.environ, "FASTPIPE_CONFIG": str(broken)}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "True"


HOMELESS = """
import os, pwd, sys, warnings

def nobody(uid):
    raise KeyError(uid)

pwd.getpwuid = nobody
import fastpipe
from fastpipe import transforms as T
from fastpipe.environment import library_versions, machine_fingerprint
from fastpipe.errors import ConfigError, FastpipeWarning
from fastpipe.readers import read_image

warnings.simplefilter("ignore", FastpipeWarning)
assert read_image("photos/a/0.jpg").shape == (50, 60, 3)
transform = T.Compose([T.RandomResizedCrop(24), T.ToTensor()])
many = ["photos/a/0.jpg"] * 9000
for dataset in fastpipe.ImageFolder("photos", transform), fastpipe.ImageList((many, [0] * 9000), transform):
    assert dataset.index.location is None
    next(iter(fastpipe.DataLoader(dataset, num_workers=1)))
try:
    fastpipe.MachineConfig().save()
except ConfigError as error:
    assert "set FASTPIPE_CONFIG" in str(error)
else:
    raise SystemExit("saved")
print(*os.listdir())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="a user id without an entry, as containers have")
def test_without_a_home_everything_works(tmp_path: Path) -> None:
    folder = tmp_path / "photos" / "a"
    folder.mkdir(parents=True)
    Image.new("RGB", (60, 50), (200, 30, 9)).save(folder / "0.jpg")
    gone = ("HOME", "FASTPIPE_CACHE", "FASTPIPE_CONFIG", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
    environment = {key: value for key, value in os.environ.items() if key not in gone}
    environment["PYTHONPATH"] = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", HOMELESS]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["photos"]
