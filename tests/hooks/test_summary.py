"""The report of what was accelerated, as somebody reads it."""

from __future__ import annotations

import io
import threading
import time
from typing import Any

import corpus
import pytest
import torch
from PIL import Image
from torchvision_here import module

import fastpipe
from fastpipe.clock import Stopwatch
from fastpipe.hooks import checking
from fastpipe.hooks.ledger import LEDGER, Site
from fastpipe.hooks.summary import Report, before_ms, gain

T = module("torchvision.transforms")


def text_of(*sites: Site) -> str:
    """The report in one line."""
    return " ".join(str(Report(sites, ())).split())


def site(name: str, images: int, plain_seconds: float, **more: Any) -> Site:
    """A transform of which two images were checked, whose images take a millisecond."""
    timed = {"timed": images, "seconds": images / 1e3, "fast_seconds": 1e-3, "checked": 2}
    return Site("transform", name, images, **timed, plain_seconds=plain_seconds, **more)


def test_what_gains_little_stands_first() -> None:
    found = text_of(site("Fast", 900, 4e-3), site("Slow", 30, 1.2e-3), site("Faster", 1000, 9e-3))
    assert found.index("Slow") < found.index("Faster") < found.index("Fast ")
    assert "Slow 30 1.20 1.00 1.2 2: the same" in found


def test_what_has_no_time_of_its_own_has_no_row() -> None:
    found = text_of(Site("function", "PIL.Image.open", 1234), site("Compose", 1234, 4e-3))
    assert "PIL.Image.open: 1,234 images accelerated, not timed by itself." in found
    assert "–" not in found


def test_a_loader_says_for_how_long_it_was_waited_for() -> None:
    found = text_of(Site("loader", "DataLoader(Photos)", 448, waited=3, running=4), site("Compose", 448, 4e-3))
    assert "DataLoader(Photos): 448 images; the script waited for their batches 75% of 4.0 s." in found


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.needs_core
def test_the_time_before_has_the_decode_in_it(fresh_ledger: None, monkeypatch: pytest.MonkeyPatch, alone: bool) -> None:
    def slowly(image: Any) -> Any:
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass
        return Image.open(io.BytesIO(data)).convert("RGB")

    data = corpus.jpeg(60, 80, seed=1)
    monkeypatch.setattr("fastpipe.pillow.lazy_image.shadow_of", slowly)
    transform = T.ToTensor() if alone else T.Compose([T.Resize(32), T.ToTensor()])
    with fastpipe.install(check=3):
        for _ in range(4):
            assert isinstance(transform(Image.open(io.BytesIO(data)).convert("RGB")), torch.Tensor)
    (found,) = [one for one in fastpipe.report().sites if one.checked and "open" not in one.name]
    assert found.plain_seconds >= 0.04
    assert checking.plain_image(Image.new("RGB", (1, 1)))[1] >= 0.02
    assert gain(found) is not None
    assert before_ms(found) is not None


# -- the run as a whole


def numbers_of(*sites: Site) -> dict[str, Any]:
    run: dict[str, Any] = Report(sites, ()).to_dict()["run"]
    return run


def test_the_last_line_says_what_the_run_gained_by_what_was_timed_both_ways() -> None:
    fast = site("Fast", 30_000, 2e-3)  # 30 s, twice as fast
    slow = site("Slow", 6_000, 1.5e-3)  # 6 s, 1.5 times as fast: 9 s before
    unmeasured = Site("function", "cv2.imread", 50, timed=50, seconds=4.0)
    loader = Site("loader", "DataLoader(Photos)", 36_000, waited=3, running=40)
    sites = (fast, unmeasured, loader, slow)
    assert numbers_of(*sites) == {
        "now_s": pytest.approx(36),
        "before_s": pytest.approx(69),
        "left_out": ("cv2.imread",),
        "wall_ratio": pytest.approx(1),
        "was_busy": False,
    }
    assert text_of(*sites).endswith(
        "This run's images took 36 s of processor time; without fastpipe about 69 s. Not in these times, as no plain "
        "time was measured: cv2.imread."
    )
    page = Report(sites, ())._repr_html_()
    assert "without fastpipe about 69 s" in " ".join(page.split())


def test_without_a_plain_time_nothing_is_said_of_the_run() -> None:
    unmeasured = Site("function", "cv2.imread", 50, timed=50, seconds=4.0)
    assert numbers_of(unmeasured)["before_s"] is None
    assert "This run" not in text_of(unmeasured)
    assert "This run" not in text_of()


@pytest.mark.parametrize(("stalled", "is_busy"), [(0.0, False), (0.3e-3, False), (4e-3, True)])
def test_a_busy_machine_is_named(stalled: float, is_busy: bool) -> None:
    one = site("One", 900, 2e-3, stalled=stalled)
    assert numbers_of(one)["was_busy"] == is_busy
    text = text_of(one)
    assert (
        "The machine was busy, or its disk slow: by the wall clock, checked images took 3.0 times" in text
    ) == is_busy


def test_a_run_that_made_nothing_says_so_and_names_where_images_come_from() -> None:
    assert text_of().startswith(
        "fastpipe: nothing was accelerated. No image was opened by PIL.Image.open, by cv2.imread"
    )
    left = Site("function", "PIL.Image.open", left={"a TIFF": 3})
    assert "No image" not in text_of(left)
    assert "left as it was: PIL.Image.open, 3 images: a TIFF." in text_of(left)


def test_times_are_of_the_thread_and_not_of_the_wall_clock(fresh_ledger: None) -> None:
    """A plain way that sleeps, as beside a busy program, isn't slower for that."""
    one = LEDGER.site("function", "one")

    def slept() -> int:
        time.sleep(0.05)
        return 1

    for _ in range(2):  # the first isn't timed
        assert checking.check_value(one, 1, 1e-3, slept, "") == 1
        assert checking.check_call(one, slept, slept, "one") == 1
    assert one.compared == 3
    assert one.plain_seconds < 0.05
    assert one.fast_seconds < 0.05
    assert one.stalled > 0.1


@pytest.mark.parametrize("threads", [0, 2])
def test_a_stopwatch_counts_the_work_of_a_pool(threads: int) -> None:
    def work() -> None:
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass

    watch = Stopwatch(threads)
    work()
    pool = [threading.Thread(target=work) for _ in range(threads)]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()
    time.sleep(0.02)
    seconds, wall = watch.taken()
    assert 0.05 * (1 + threads) <= seconds
    assert seconds < wall if threads == 0 else seconds <= 2 * wall
