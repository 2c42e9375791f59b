"""The core's library: whether it loads, what is said where it doesn't, and that Python's structs are C's."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from struct import Struct, calcsize

import core_jobs
import corpus
import numpy as np
import pytest

from fastpipe import core
from fastpipe.core import library, operations, planes, structs
from fastpipe.errors import ConfigError, FastpipeError, ReaderUnavailableError

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "fastpipe/core/src"


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})


def test_importing_loads_nothing() -> None:
    done = python(
        "import sys, fastpipe.core, fastpipe.core.library as l\n"
        "assert l._loaded is None\n"
        "assert not {'numpy', 'torch'} & set(sys.modules)",
        FASTPIPE_CORE="nonsense",  # isn't read either
    )
    assert done.returncode == 0, done.stderr


def test_off() -> None:
    code = "from fastpipe import core; print(core.available(), core.isa() == '', core.why_not()); core.run(core.Job())"
    done = python(code, FASTPIPE_CORE="off")
    assert done.stdout.startswith("False True the core is switched off by FASTPIPE_CORE=off; unset it")
    assert "ReaderUnavailableError: the core is switched off" in done.stderr


@pytest.mark.parametrize("word", ["portable", " PORTABLE ", "auto", ""])
@pytest.mark.needs_core
def test_words(word: str) -> None:
    done = python("from fastpipe import core; print(core.available(), core.isa())", FASTPIPE_CORE=word)
    best = library.Isa(library.native().fpc_best_isa()).name.lower()
    assert done.stdout.split() == ["True", "portable" if "portable" in word.lower() else best]


def test_an_unknown_word() -> None:
    with pytest.raises(ConfigError, match="'sse9' isn't known; it can be auto, portable, avx2, avx512, neon, off"):
        library.load("sse9")
    done = python("from fastpipe import core; core.available()", FASTPIPE_CORE="sse9")
    assert "ConfigError: FASTPIPE_CORE='sse9' isn't known" in done.stderr
    assert issubclass(ConfigError, FastpipeError)


@pytest.mark.needs_core
def test_the_other_machines_instructions() -> None:
    other = "avx2" if core.isa() == "neon" else "neon"
    found = library.load(other)
    assert found.functions is None
    assert f"lacks what FASTPIPE_CORE={other} asks for" in found.reason


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="nobody else tells what the processor has")
@pytest.mark.needs_core
def test_the_best_instructions_are_found() -> None:
    flags = set(Path("/proc/cpuinfo").read_text().split())
    wide = {"avx2", "fma", "bmi1", "bmi2", "f16c"} <= flags
    widest = wide and {"avx512f", "avx512bw", "avx512vl", "avx512_vnni"} <= flags
    arm = platform.machine() == "aarch64"
    best = "avx512" if widest else "avx2" if wide else "neon" if arm else "portable"
    assert library.native().fpc_best_isa() == library.Isa[best.upper()]


def test_no_library(tmp_path: Path) -> None:
    found = library.load("", tmp_path / library.LIBRARY.name)
    assert found.functions is None
    assert found.reason.startswith(f"the core wasn't compiled ({library.LIBRARY.name} isn't there)")
    assert "install torch-fastpipe again (pip install . in its checkout)" in found.reason
    (tmp_path / library.LIBRARY.name).write_bytes(b"no library")
    assert "the core doesn't load" in library.load("", tmp_path / library.LIBRARY.name).reason


def test_what_is_used_without_one_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_loaded", library.Loaded(None, reason="there is none: do this"))
    assert not core.available()
    assert core.why_not() == "there is none: do this"
    for use in (core.Context, lambda: core.Pool(2), lambda: core.status_text(0)):
        with pytest.raises(ReaderUnavailableError, match="there is none: do this"):
            use()


@pytest.mark.needs_core
def test_another_abi(monkeypatch: pytest.MonkeyPatch) -> None:
    before = library.ABI
    monkeypatch.setattr(library, "ABI", 99)
    assert f"another version of fastpipe (ABI {before}, not 99)" in library.load("").reason


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler to ask")
def test_structs_are_those_of_the_header(tmp_path: Path) -> None:
    program = tmp_path / "layout"
    source = Path(__file__).with_name("layout.c")
    subprocess.run(["cc", "-std=c11", f"-I{SOURCES}", str(source), "-o", str(program)], check=True)
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    expected = {name: int(number) for name, number in map(str.split, printed.splitlines())}
    found = {
        "FPC_ABI": structs.ABI,
        "FPC_STATUS_COUNT": len(structs.Status),
        "FPC_OP_COUNT": len(structs.Kind) + 1,
        "FPC_UNKNOWN_FORMAT": structs.Status.UNKNOWN_FORMAT,
        "FPC_TOO_LARGE": structs.Status.TOO_LARGE,
        "FPC_BAD_OPERATION": structs.Status.BAD_OPERATION,
        "FPC_IO_ERROR": structs.Status.IO_ERROR,
        "FPC_UNSURE": structs.Status.UNSURE,
        "FPC_ISA_AVX512": structs.Isa.AVX512,
        "FPC_YCCK": 5,
        "FPC_LANCZOS": structs.Filter.LANCZOS,
        "FPC_SYMMETRIC": structs.Padding.SYMMETRIC,
        "FPC_TORCH_PASSES": structs.PassOrder.TORCH_PASSES,
        "FPC_OP_TENSOR_SAMPLE": structs.Kind.TENSOR_SAMPLE,
        "FPC_OP_TORCH_BLUR": structs.Kind.TORCH_BLUR,
        "FPC_OP_PERMUTE": structs.Kind.PERMUTE,
        "FPC_OP_FLOAT_RESIZE": structs.Kind.FLOAT_RESIZE,
        "FPC_OP_CV_RESIZE": structs.Kind.CV_RESIZE,
        "FPC_RESIZE_FUSED_REST": planes.FloatRounding.FUSED_REST,
        "FPC_RESIZE_TO_BYTES": planes.FloatResize.TO_BYTES,
        "FPC_RESIZE_MULTIPLY": planes.FloatResize.MULTIPLY,
        "FPC_HUE_TO_PIXELS": planes.Hue.TO_PIXELS,
        "FPC_V1": structs.TensorRounding.V1,
        "FPC_MULTIPLY": structs.Arithmetic.MULTIPLY,
        "FPC_OP_RESIZE": structs.Kind.RESIZE,
        "FPC_OP_GRAY": structs.Kind.GRAY,
        "FPC_OP_PERSPECTIVE": structs.Kind.PERSPECTIVE,
        "FPC_BFLOAT16": structs.DType.BFLOAT16,
    }
    for name, struct in (
        ("fpc_header", structs.RawHeader),
        ("fpc_file", structs.RawFile),
        ("fpc_array", structs.RawArray),
        ("fpc_box", structs.RawBox),
        ("fpc_sink", structs.RawSink),
        ("fpc_pixels", structs.RawPixels),
        ("fpc_job", structs.RawJob),
    ):
        found[name] = ctypes.sizeof(struct)
        fields = [field[0] for field in struct._fields_]
        found |= {f"{name}.{field}": getattr(struct, field).offset for field in fields}
    packed = {name: expected.pop(name) for name in [*expected] if name.startswith("fpc_op")}
    assert found == expected
    for name, packer in PACKERS.items():
        assert packer.size == packed["fpc_operation.crop"] + packed.pop(name)
        items = item_offsets(packer)
        for field in [field for field in packed if field.startswith(f"{name}.")]:
            assert packed["fpc_operation.crop"] + packed.pop(field) in items, field
    assert packed.pop("fpc_operation") == operations._SIZE == max(packer.size for packer in PACKERS.values())
    assert packed.pop("fpc_operation.kind") == 0
    assert packed.pop("fpc_operation.flags") == 4
    assert set(packed.values()) == {8}


PACKERS = {
    "fpc_op_resize": operations._RESIZE,
    "fpc_op_pad": operations._PAD,
    "fpc_op_lut": operations._LUT,
    "fpc_op_gray": operations._GRAY,
    "fpc_op_blend": operations._BLEND,
    "fpc_op_hue": operations._HUE,
    "fpc_op_warp": operations._WARP,
    "fpc_op_blur": operations._BLUR,
    "fpc_op_torch_blur": operations._TORCH_BLUR,
    "fpc_op_tensor_hue": operations._TENSOR_HUE,
    "fpc_op_sample": operations._SAMPLE,
    "fpc_op_cv_resize": operations._CV_RESIZE,
}


def item_offsets(packer: Struct) -> set[int]:
    """Where each of a struct's items begins."""
    items = [item for count, item in re.findall(r"(\d*)([a-zA-Z])", packer.format) for _ in range(int(count or 1))]
    return {calcsize(f"@{''.join(items[:number])}0{item}") for number, item in enumerate(items)}


def test_a_crop_and_a_permutation_are_packed_as_the_header_has_them() -> None:
    assert operations._CROP.size == 8 + ctypes.sizeof(structs.RawBox)
    assert operations._PERMUTE.size == 8 + ctypes.sizeof(ctypes.c_int32 * 3)


@pytest.mark.needs_core
def test_every_status_has_a_sentence() -> None:
    texts = [core.status_text(status) for status in core.Status]
    assert len(set(texts)) == len(texts)
    assert core.status_text(99) == core.status_text(-1) == "unknown status"


def test_a_job_of_too_many_operations() -> None:
    job = core.Job()
    for _ in range(16):
        job.flip()
    with pytest.raises(ValueError, match="at most 16 operations"):
        job.flip()


def test_what_is_no_source_and_no_sink() -> None:
    job = core.Job()
    with pytest.raises(TypeError, match=r"uint8 arrays .* not float32"):
        job.read_pixels(np.zeros((2, 2, 3), np.float32))
    with pytest.raises(TypeError, match=r"writeable arrays"):
        job.write_array(np.zeros((2, 2, 3), np.int64))
    readonly = np.zeros((2, 2, 3), np.uint8)
    readonly.flags.writeable = False
    with pytest.raises(TypeError, match=r"writeable arrays"):
        job.write_array(readonly)


@pytest.mark.needs_core
def test_threads() -> None:
    """Each with the context that it gets by itself; all decode at once, and the contexts go away with the threads."""
    data, expected = corpus.files()["jpeg-420"], corpus.reference("jpeg-420")
    assert expected is not None
    wrong: list[int] = []

    def work() -> None:
        for _ in range(50):
            job, out = core.Job(), np.empty_like(expected)
            job.read(data)
            job.write_array(out)
            status = core.run(job)
            if status or not np.array_equal(out, expected):
                wrong.append(status)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def filled(names: list[str]) -> tuple[core.JobArray, list[np.ndarray]]:
    batch = core.JobArray(len(names))
    outs = [np.empty_like(corpus.reference(name)) for name in names]
    for job, name, out in zip(batch, names, outs, strict=True):
        job.read(corpus.files()[name])
        job.write_array(out)
    return batch, outs


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.needs_core
def test_a_pool(threads: int) -> None:
    names = [*(name for name in core_jobs.JPEGS if name.startswith("jpeg-4") and name in corpus.sound_files())]
    with core.Pool(threads) as pool:
        for _ in range(3):
            batch, outs = filled(names)
            statuses = pool.run(batch)
            for name, status, out in zip(names, statuses, outs, strict=True):
                if status == core.Status.OK:
                    np.testing.assert_array_equal(out, corpus.reference(name), err_msg=name)
            assert statuses.count(core.Status.OK) > len(names) // 2
        assert pool.run(batch, 0) == []
        assert len(pool.run(batch, 2)) == 2
        with pytest.raises(ValueError, match="the batch has"):
            pool.run(batch, len(names) + 1)
    assert pool.run(batch) == statuses  # closed, it starts again
    with pytest.raises(ValueError, match="at least 1 thread"):
        core.Pool(0)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.needs_core
def test_runs_that_were_started(threads: int, tmp_path: Path) -> None:
    """Several at a time, files read among them, from several callers; waited for in any order, or not at all."""
    name = "jpeg-420"
    path = tmp_path / "photo.jpg"
    path.write_bytes(corpus.files()[name])
    expected = corpus.reference(name)
    pool = core.Pool(threads)

    def rounds() -> bool:
        right = True
        for _ in range(10):
            made = [filled([name] * count) for count in (1, 7, 3)]
            runs = [pool.start(batch, keep=outs) for batch, outs in made]
            files = core.Files()
            right &= (
                core_jobs.read_files(files, [str(path)] * 5, pool=pool) == [core.read_header(path.read_bytes())] * 5
            )
            for run, (batch, outs) in [*zip(runs, made, strict=True)][::-1]:
                right &= run.wait() == [core.Status.OK] * len(batch) == run.wait()
                right &= all(np.array_equal(out, expected) for out in outs)
            batch, outs = filled([name])
            pool.start(batch, keep=outs)  # let go of at once
            del batch, outs
            right &= pool.start(made[1][0], 0).wait() == []
        return right

    with ThreadPoolExecutor(3) as callers:
        assert all(callers.map(lambda _: rounds(), range(3)))
    batch, outs = filled([name] * 20)
    run = pool.start(batch, keep=outs)
    pool.close()  # behind what it is at
    assert run.wait() == [core.Status.OK] * 20


@pytest.mark.needs_fork
@pytest.mark.needs_core
def test_a_child_after_fork() -> None:
    """With its own context and its own pool, while another thread of the parent decodes."""
    code = """if True:
        import os, sys, threading
        sys.path.insert(0, "tests")
        import corpus, numpy as np
        from fastpipe import core
        data, expected = corpus.files()["jpeg-420"], corpus.reference("jpeg-420")
        pool = core.Pool(3)
        def right(run):
            batch = core.JobArray(4)
            outs = [np.empty_like(expected) for _ in batch]
            for job, out in zip(batch, outs):
                job.read(data)
                job.write_array(out)
            run(batch)
            return all(np.array_equal(out, expected) for out in outs)
        one = lambda batch: [core.run(job) for job in batch]
        assert right(one) and right(pool.run)
        stop = threading.Event()
        def busy():
            while not stop.is_set():
                right(one) and right(pool.run)
        thread = threading.Thread(target=busy)
        thread.start()
        for _ in range(5):
            child = os.fork()
            if not child:
                good = right(one) and right(pool.run) and right(core.Pool(2).run)
                pool.close()
                os._exit(0 if good else 1)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        thread.join()
        assert right(pool.run)
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.needs_fork
@pytest.mark.needs_core
def test_pools_of_threads_that_a_child_of_fork_does_not_have() -> None:
    """They go away with their threads, before anything else runs in the child, and their threads aren't waited for."""
    code = """if True:
        import os, sys, threading
        sys.path.insert(0, "tests")
        import corpus, numpy as np
        from fastpipe import core
        data, expected = corpus.files()["jpeg-420"], corpus.reference("jpeg-420")
        mine, ready, stop = threading.local(), threading.Event(), threading.Event()
        def run():
            mine.pool = pool = core.Pool(3)
            del pool
            batch = core.JobArray(8)
            outs = [np.empty_like(expected) for _ in batch]
            for job, out in zip(batch, outs):
                job.read(data)
                job.write_array(out)
            mine.pool.run(batch)
            ready.set()
            stop.wait()
        thread = threading.Thread(target=run)
        thread.start()
        ready.wait()
        for _ in range(5):
            child = os.fork()
            if not child:
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        thread.join()
    """
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kept", ["pool.Pool(2)._threads()", "pool.Context(Isa.PORTABLE)"])
@pytest.mark.needs_core
def test_what_outlives_the_modules_goes_without_a_word(kept: str) -> None:
    imports = "import builtins\nfrom fastpipe.core import pool\nfrom fastpipe.core.structs import Isa\n"
    done = python(f"{imports}builtins.kept = {kept}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.needs_core
def test_where_all_is_well_why_not_says_so() -> None:
    assert core.why_not() == f"nothing is wrong: the core is available ({core.build()}; {core.isa()})"
