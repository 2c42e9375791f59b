"""A config that names a reader which doesn't load here: the same pixels, one warning, only slower."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
from PIL import Image

import fastpipe
from fastpipe import config, readers
from fastpipe.cli.configure import _show
from fastpipe.config import MachineConfig
from fastpipe.errors import FastpipeWarning, UnknownReaderError
from fastpipe.readers import _decode, registry

_SCRIPT = """
import sys
import numpy as np
import torch
from PIL import Image
import fastpipe
from fastpipe import core, readers

def whole(image):
    return torch.from_numpy(np.array(image))

if __name__ == "__main__":
    assert not core.available()
    first = sys.argv[1] + "/a/0.jpg"
    assert np.array_equal(readers.read_image(first), np.asarray(Image.open(first)))
    train = fastpipe.ImageFolder(sys.argv[1], whole)
    loader = fastpipe.DataLoader(train, batch_size=1, num_workers=2, multiprocessing_context="spawn")
    for (path, _), (image, _) in zip(train.samples, loader, strict=True):
        assert np.array_equal(image[0], np.asarray(Image.open(path).convert("RGB"))), path
"""


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number, name in enumerate(["jpeg-420", "jpeg-444", "png-rgb", "jpeg-progressive"]):
        file = tmp_path / "photos" / "a" / f"{number}{'.png' if 'png' in name else '.jpg'}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(corpus.files()[name])
    return tmp_path / "photos"


@pytest.mark.slow
@pytest.mark.parametrize("way", ["file", "variable"])
def test_without_the_core_every_config_gives_the_same_pixels(photos: Path, tmp_path: Path, way: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT, encoding="utf-8")
    environment = {**os.environ, "FASTPIPE_CORE": "off", "FASTPIPE_CONFIG": str(tmp_path)}
    environment.pop("FASTPIPE_READER", None)
    if way == "file":
        MachineConfig(readers={"jpeg": "core", "png": "core"}).save(tmp_path / "config.toml")
    else:
        environment["FASTPIPE_READER"] = "core"
    command = [sys.executable, str(script), str(photos)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("FastpipeWarning") == 1, done.stderr
    assert "'core'" in done.stderr
    assert "FASTPIPE_CORE=off; unset it" in done.stderr
    assert "only slower" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", ["check", "explain", "verify", "preview", "configure --show"])
def test_commands_go_on_as_well(photos: Path, tmp_path: Path, command: str) -> None:
    MachineConfig(readers={"jpeg": "core", "*": "core"}).save(tmp_path / "config.toml")
    environment = {
        **os.environ,
        "FASTPIPE_CORE": "off",
        "FASTPIPE_CONFIG": str(tmp_path),
        "FASTPIPE_CACHE": str(tmp_path),
    }
    environment.pop("FASTPIPE_READER", None)
    more = {"preview": ["--out", str(tmp_path / "grid.png")], "verify": ["--images", "2"]}.get(command, [])
    paths = [] if "--show" in command else [str(photos)]
    line = [sys.executable, "-m", "fastpipe", *command.split(), *paths, *more]
    done = subprocess.run(line, capture_output=True, text=True, env=environment, timeout=300, check=False)
    if command == "verify" and "torchvision" in done.stderr and "doesn't load" in done.stderr:
        pytest.skip("torchvision doesn't load beside this torch")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count("FastpipeWarning") <= 1, done.stderr
    assert "warns" not in done.stdout  # nothing that a file is to blame for
    assert ("--show" in command) == ("jpeg = core  (doesn't load here" in done.stdout)


def test_an_argument_is_no_config_and_an_unknown_name_no_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._BUILT_IN, "absent", ("no_such_module_at_all:Reader", "pip install absent"))
    monkeypatch.setattr(registry, "_failed", {})
    data = corpus.files()["jpeg-420"]
    with pytest.warns(FastpipeWarning, match="'absent'.*pip install absent"):
        pixels = readers.read_image(data, config=MachineConfig(readers={"jpeg": "absent"}))
    np.testing.assert_array_equal(pixels, corpus.reference("jpeg-420"))
    with pytest.raises(readers.registry.ReaderUnavailableError):
        readers.read_image(data, reader="absent")
    with pytest.raises(UnknownReaderError):
        readers.read_image(data, config=MachineConfig(readers={"jpeg": "nobody"}))


_KINDS = {
    "unknown": '[readers]\njpeg = "somebodys_plugin"\n',
    "unknown for all": '[readers]\n"*" = "somebodys_plugin"\npng = "core"\n',
    "not for the format": '[readers]\npng = "turbojpeg"\n',
    "unknown format": '[readers]\njpog = "pil"\n',
    "no TOML": "][",
    "other keys": "[decoders]\njpeg = 1\n",
    "other types": "readers = 5\n",
    "a number": "[readers]\njpeg = 3\n",
    "no text": b"\xff\xfe\x00",
    "empty": "",
}


@pytest.mark.parametrize("kind", [*_KINDS, "a folder", "unreadable"])
def test_a_file_that_can_not_be_followed_warns_once(
    kind: str, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.toml"
    if kind == "a folder":
        file.mkdir()
    else:
        text = _KINDS.get(kind, "")
        file.write_bytes(text.encode() if isinstance(text, str) else text)
    if kind == "unreadable":
        monkeypatch.setattr(config, "open_regular", lambda path: (_ for _ in ()).throw(PermissionError(13, "denied")))
    monkeypatch.setenv("FASTPIPE_CONFIG", str(file))
    monkeypatch.delenv("FASTPIPE_READER", raising=False)
    monkeypatch.setattr(config, "_said", set())
    monkeypatch.setattr(_decode, "_followed", None)
    config._current.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            path, _target = fastpipe.ImageFolder(photos).samples[0]
            assert np.array_equal(readers.read_image(path), np.asarray(Image.open(path).convert("RGB")))
            image, _target = fastpipe.ImageFolder(photos, np.asarray)[0]
            assert np.array_equal(image, np.asarray(Image.open(path).convert("RGB")))
    told = [str(one.message) for one in caught if str(file) in str(one.message)]
    assert len(told) == (kind != "empty")
    _show(None, quiet=False)
    assert kind == "empty" or str(file) in capsys.readouterr().out.replace("\n", "")
    config._current.cache_clear()


def test_a_reader_that_is_registered_later_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.toml").write_text('[readers]\njpeg = "late"\n')
    monkeypatch.setenv("FASTPIPE_CONFIG", str(tmp_path))
    monkeypatch.setattr(config, "_said", set())
    config._current.cache_clear()
    with pytest.warns(FastpipeWarning, match="'late'"):
        assert readers.machine_config().readers == {}
    late = type("Late", (type(readers.get_reader("pil")),), {"name": "late"})()
    monkeypatch.setitem(registry._loaded, "late", late)
    assert readers.configured_reader("JPEG") == "late"
    config._current.cache_clear()


def test_what_formats_there_are_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    data = corpus.files()["jpeg-420"]
    given: list[dict[str, Any]] = [{"reader": {"jpg": "core", "bmp": "pil"}}, {"config": MachineConfig({"bmp": "pil"})}]
    expected = [readers.read_image(data, **one) for one in given]
    monkeypatch.setattr(_decode, "registered_formats", lambda: pytest.fail("asked again"))
    for one, pixels in zip(given, expected, strict=True):
        assert np.array_equal(readers.read_image(data, **one), pixels)
