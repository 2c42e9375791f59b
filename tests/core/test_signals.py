"""Signal handlers that raise or decode wherever Python runs them: nothing is freed that the core's threads use."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import corpus
import numpy as np
import pytest

from fastpipe import core
from fastpipe.core import pool as pool_module

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers of signals here")

_ALARMS = """
import gc, random, signal, sys, time, weakref
sys.path.insert(0, "tests")
import core_jobs, corpus, numpy as np, torch
import fastpipe
from fastpipe import core

class Alarm(Exception):
    pass

fired = False

def on_alarm(*_):
    global fired
    fired = True
    raise Alarm

signal.signal(signal.SIGALRM, on_alarm)
sys.unraisablehook = lambda _: None  # an alarm in a destructor
random.seed(0)

def interrupted(use, most_us=200):
    # Runs it with an alarm somewhere within, or right behind.
    global fired
    fired = False
    try:
        signal.setitimer(signal.ITIMER_REAL, random.randint(5, most_us) * 1e-6)
        use()
        while not fired:
            pass
    except Alarm:
        pass
"""


def _run(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _ALARMS + code], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:] or f"ended with {done.returncode}"


@pytest.mark.slow
@pytest.mark.needs_core
def test_memory_of_a_run_outlives_its_jobs() -> None:
    """The kept object is still there, or no job is running any more: whether it is waited for, or dropped."""
    _run("""if True:
        data = corpus.save(corpus.photo(300, 400, 1), "JPEG", quality=95)
        pool = core.Pool(2)
        kept = []

        class Keep:
            pass

        def made():
            batch, outs = core.JobArray(6), [np.empty((300, 400, 3), np.uint8) for _ in range(6)]
            for job, out in zip(batch, outs):
                job.read(data)
                job.write_array(out)
                job.raw.status = -1
            return batch, outs

        def use(batch, outs, number):
            keep = Keep()
            keep.outs = outs
            kept.append(weakref.ref(keep))
            run = pool.start(batch, keep=keep)
            del keep
            if number % 2:
                run.wait()

        freed_early = 0
        for number in range(250):
            batch, outs = made()  # they stay, so that a mistake is counted and doesn't end the process
            before = len(kept)
            interrupted(lambda: use(batch, outs, number))
            gone = len(kept) == before or kept[-1]() is None
            statuses = batch.statuses(len(batch))
            if gone and -1 in statuses:  # has it been started?
                time.sleep(0.02)
                freed_early += batch.statuses(len(batch)) != statuses
        assert not freed_early, f"{freed_early} times threads went on in memory that nobody kept"
        batch, outs = made()
        assert pool.start(batch, keep=outs).wait() == [core.Status.OK] * 6
        gc.collect()
        assert not any(ref() for ref in kept), "what was kept is never let go"
        pool.close()
    """)


@pytest.mark.needs_core
def test_pools_and_files(tmp_path: Path) -> None:
    """They work on behind an alarm, or raise no other error."""
    path = tmp_path / "photo.jpg"
    _run(f"""if True:
        path, data = {str(path)!r}, corpus.save(corpus.photo(60, 80, 1), "JPEG")
        open(path, "wb").write(data)
        header = core.read_header(data)
        files = core.Files(2)

        def use(count):
            pool = core.Pool(3)
            files.load([path] * count, 0, pool)
            assert core_jobs.headers(files) == [header] * count
            pool.close()

        for number in range(400):
            interrupted(lambda: use(1 + number % 30), 1500)
            # Those of the last time, or none: never memory of another list.
            assert core_jobs.headers(files) == [header] * len(files)
        use(9)
    """)


@pytest.mark.needs_core
def test_batches_behind_an_alarm(tmp_path: Path) -> None:
    """Made in the thread that is interrupted, or by the loader's: those that come behind are right."""
    _run(f"""if True:
        from pathlib import Path
        from fastpipe import transforms
        root = Path({str(tmp_path)!r})
        (root / "a").mkdir()
        items = [corpus.save(corpus.photo(200, 240, number), "JPEG") for number in range(8)]
        for number, item in enumerate(items):
            (root / "a" / f"{{number}}.jpg").write_bytes(item)
        chain = transforms.Compose([transforms.RandomResizedCrop(96), transforms.ToTensor()])
        dataset = fastpipe.ImageFolder(root, chain, seed=0)

        def here():
            return [fastpipe.load_batch(items, chain, threads=2, generator=torch.Generator().manual_seed(0))]

        def by_loader():
            return [images.clone() for images, _ in fastpipe.DataLoader(dataset, batch_size=4, threads=2)]

        for made, rounds, most_us in ((here, 40, 4000), (by_loader, 8, 20000)):
            expected = made()
            for _ in range(rounds):
                interrupted(made, most_us)
            for one, other in zip(made(), expected, strict=True):
                assert torch.equal(one, other)
    """)


@pytest.mark.needs_core
def test_a_handler_that_decodes(tmp_path: Path) -> None:
    """An image whose decode is interrupted by another one's is as it should be, and so is its header."""
    _run("""if True:
        from fastpipe import readers
        data = [corpus.save(corpus.photo(40 + n, 50, n), "JPEG") for n in range(2)]
        expected = [readers.read_image(one) for one in data]

        def on_alarm(*_):
            assert np.array_equal(readers.read_image(data[1]), expected[1])
            signal.setitimer(signal.ITIMER_REAL, random.randint(5, 100) * 1e-6)

        signal.signal(signal.SIGALRM, on_alarm)
        signal.setitimer(signal.ITIMER_REAL, 1e-4)
        wrong = 0
        for _ in range(3000):
            made = readers.read_image(data[0])
            wrong += made.shape != expected[0].shape or not np.array_equal(made, expected[0])
        signal.signal(signal.SIGALRM, signal.SIG_IGN)  # first: a handler that is due would set the timer again
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert not wrong, f"{wrong} images are another one's"
    """)


@pytest.mark.needs_core
def test_faulthandler_speaks_of_a_thread_of_the_pools() -> None:
    """A pixel that goes to memory that isn't there, in a thread that no Python runs in."""
    code = """if True:
        import faulthandler, time
        from fastpipe import core
        faulthandler.enable()
        image = __import__("numpy").zeros((4, 4, 3), "uint8")
        batch = core.JobArray(1)
        batch[0].read_pixels(image)
        batch[0].write(8, (4, 4, 3), (12, 3, 1), core.DType.UINT8)
        run = core.Pool(1).start(batch, keep=image); time.sleep(30)
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode in (-signal.SIGSEGV, -signal.SIGBUS)
    assert "Fatal Python error" in done.stderr
    assert 'File "<string>", line 9' in done.stderr  # where the other thread was


@pytest.mark.slow
@pytest.mark.parametrize("held", ["del run", "kept = [run]; kept.append(kept)"])
@pytest.mark.needs_core
def test_the_process_ends_while_jobs_run(held: str) -> None:
    """Without a crash, whoever still holds the run; in a child of fork, too, where nothing of it goes on."""
    _run(f"""if True:
        import os
        data = corpus.save(corpus.photo(600, 800, 1), "JPEG", quality=95)
        batch = core.JobArray(8)
        outs = [np.empty((600, 800, 3), np.uint8) for _ in batch]
        for job, out in zip(batch, outs):
            job.read(data)
            job.write_array(out)
        run = core.Pool(2).start(batch, keep=outs)
        {held}
        if hasattr(os, "fork"):
            child = os.fork()
            if not child:
                raise SystemExit
            assert os.waitpid(child, 0)[1] == 0
    """)


def test_what_threads_write_to_outlives_the_interpreter() -> None:
    """Else the memory of a run goes away with the modules, while the core's threads are at it."""
    mortal = SimpleNamespace(runs={})
    at_fork = hasattr(os, "register_at_fork")  # its hook refers to them, too
    assert sys.getrefcount(pool_module._in_flight) == sys.getrefcount(mortal.runs) + 1 + at_fork


@pytest.mark.needs_core
def test_no_line_of_pythons_runs_as_memory_of_the_core_goes() -> None:
    """An exception there, as Ctrl-C's, would be ignored."""
    data = corpus.save(corpus.photo(30, 40, 1), "JPEG")

    def started(wait: bool) -> core.Run:
        batch, outs = core.JobArray(3), [np.empty((30, 40, 3), np.uint8) for _ in range(3)]
        for job, out in zip(batch, outs, strict=True):
            job.read(data)
            job.write_array(out)
        run = core.Pool(2).start(batch, keep=outs)
        if wait:
            run.wait()
        return run

    pool, files = core.Pool(2), core.Files()
    pool.run(core.JobArray(1))
    files.load([data])
    made: list[list[object]] = [[pool], [files], [started(True)], [started(False)], [core.Context()]]
    del pool, files
    gc.collect()
    running = len(pool_module._in_flight)
    events: list[str] = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: events.append(f"{event} {frame.f_code.co_name}"))
    try:
        for one in made:
            one.clear()
    finally:
        sys.setprofile(before)
    assert running - len(pool_module._in_flight) == 1, "nothing of the run that nobody waited for is kept"
    assert not [event for event in events if event.startswith("call")]
