"""Nothing in fastpipe changes what belongs to the whole process: its uses run in a few processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import global_state
import pytest

PROCESSES = [("import", "readers", "datasets"), ("loaders", "tools"), ("commands", "measuring")]
"""Groups of uses by process: an earlier use in a process may hide the change that a later one makes."""


def test_every_group_runs() -> None:
    assert sorted(group for groups in PROCESSES for group in groups) == sorted(global_state.GROUPS)


@pytest.mark.slow
@pytest.mark.parametrize("groups", PROCESSES, ids=" ".join)
def test_nothing_is_left_behind(groups: tuple[str, ...], tmp_path: Path) -> None:
    variables = {"FASTPIPE_CONFIG": str(tmp_path / "config.toml"), "FASTPIPE_CACHE": str(tmp_path / "cache")}
    ran = subprocess.run(
        [sys.executable, global_state.__file__, tmp_path, *groups],
        capture_output=True,
        env={**os.environ, **variables},
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    changed = json.loads(ran.stdout.splitlines()[-1])
    assert all(changed[group] for group in groups)
    assert {use: what for group in groups for use, what in changed[group].items() if what} == {}


def test_a_change_is_noticed(tmp_path: Path) -> None:
    """The snapshot sees what it is there for."""
    code = """if True:
        import gc, os, random, signal, sys, threading, warnings
        import cv2, numpy, torch
        from PIL import Image, ImageFile
        import process_state

        def change():
            cv2.setNumThreads(2); cv2.setUseOptimized(False)
            torch.set_num_threads(2); torch.rand(1); torch.set_default_dtype(torch.float64)
            Image.MAX_IMAGE_PIXELS = 5; ImageFile.LOAD_TRUNCATED_IMAGES = True; Image.init()
            random.random(); numpy.random.rand(); numpy.seterr(all="ignore")
            warnings.simplefilter("ignore"); signal.signal(signal.SIGTERM, lambda *_: None)
            os.environ["CHANGED"] = "1"; os.chdir(".."); sys.excepthook = print; gc.set_threshold(5)
            import logging; logging.basicConfig()
            threading.Thread(target=threading.Event().wait, daemon=True, name="left").start()

        process_state.PATIENCE_S = 0
        torch.set_num_threads(1); cv2.setNumThreads(1)
        print("\\n".join(process_state.outcome_of(iter([("change", change)]))["change"]))
        """
    ran = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.path.dirname(global_state.__file__)},
        cwd=tmp_path,
        text=True,
        check=True,
    )
    expected = {
        *("cv2: threads", "cv2: optimized", "torch: threads", "torch: generator", "torch: default dtype"),
        *("Pillow: limit of pixels", "Pillow: truncated images", "Pillow: formats in order", "Pillow: plugins"),
        *("Pillow: extensions", "random: python", "random: numpy", "numpy: errors", "Python: warnings' filters"),
        *("process: signal handlers", "process: environment", "process: working directory", "Python: hooks"),
        *("Python: gc", "logging: root", "left running: threads"),
    }
    assert expected <= set(ran.stdout.splitlines())
