"""fastpipe's build backend: scikit-build-core, with a compiler for machines that have none, and a way without one.

pip calls this (`build-system` in pyproject.toml). What it adds to scikit-build-core:

- Where no C compiler works, the build requires the ``ziglang`` package, a whole clang, and compiles with that.
- Where compiling fails, the wheel is made without the core: fastpipe gives the same pixels by slower ways then.
- An editable installation compiles the core into the checkout, ``fastpipe/core/``, where git ignores it.

``FASTPIPE_BUILD_CORE`` chooses by hand: ``auto`` (as above), ``zig`` (its compiler, whatever else there is),
``require`` (what there is; a failure is an error) and ``0`` (no core).
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from scikit_build_core import build as _backend

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]

Settings = "dict[str, Any] | None"  # a text: Python 3.9 imports this, too, and pip then says which Python it takes

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "fastpipe" / "core"
LIBRARIES = ("libfastpipe_core.so", "libfastpipe_core.dylib", "fastpipe_core.dll")
WORDS = ("auto", "zig", "require", "0")
_PROBE = "#include <stdlib.h>\n#include <math.h>\nint probe(double x) { return abs((int)sin(x)); }\n"


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    return _backend.get_requires_for_build_sdist(config_settings)


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    return _backend.build_sdist(sdist_directory, config_settings)


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Lists what scikit-build-core needs, and a compiler where there is none."""
    word = _word()
    if word == "0":
        return []
    zig = word == "zig" or not _compiler_works()
    if zig and word != "zig" and not _obtainable("ziglang"):
        _say(
            "no C compiler works here, and the package ziglang isn't to be had: fastpipe is installed without its core"
        )
        return []
    needed = _backend.get_requires_for_build_wheel(config_settings)
    if zig:
        needed += ["ziglang"]
        if not (shutil.which("ninja") or any(one.startswith("ninja") for one in needed)):
            needed += ["ninja"]
    return needed


get_requires_for_build_editable = get_requires_for_build_wheel


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """A wheel for this platform with the core in it, or, where that fails, one of Python alone."""
    word = _word()
    if word != "0":
        try:
            defines = {f"cmake.define.{name}": value for name, value in _prepare(word).items()}
            return _backend.build_wheel(wheel_directory, {**(config_settings or {}), **defines}, metadata_directory)
        except (Exception, SystemExit) as error:
            _failed(word, error)
    return _backend.build_wheel(wheel_directory, _without_core(config_settings), metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """A wheel that points to the checkout, with the core compiled into it."""
    word = _word()
    for name in LIBRARIES:
        (CORE / name).unlink(missing_ok=True)
    if word != "0":
        try:
            compile_in_place(_prepare(word))
        except (Exception, SystemExit) as error:
            _failed(word, error)
    settings = {**_without_core(config_settings), "editable.mode": "inplace"}
    name = _backend.build_editable(wheel_directory, settings, metadata_directory)
    _with_path_alone(Path(wheel_directory, name))
    return name


def _with_path_alone(wheel: Path) -> None:
    """Leave of scikit-build-core's import hook the checkout's path.

    The hook comes before ``sys.path``: it would import this checkout also where Python was started in another one.
    """
    with zipfile.ZipFile(wheel) as archive:
        files = {one.filename: archive.read(one) for one in archive.infolist()}
    record = next(name for name in files if name.endswith(".dist-info/RECORD"))
    files = {name: data for name, data in files.items() if not name.startswith("_editable_") and name != record}
    files["fastpipe.pth"] = f"{ROOT}\n".encode()
    rows = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(data)}\n")
    files[record] = "".join([*rows, f"{record},,\n"]).encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)


def compile_in_place(defines: dict[str, str]) -> None:
    """The library beside the Python files of the checkout."""
    cmake = os.environ.get("CMAKE_EXECUTABLE") or shutil.which("cmake")
    if cmake is None:
        raise FileNotFoundError("cmake isn't on PATH")
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    with tempfile.TemporaryDirectory() as folder:
        settings = [f"-D{name}={value}" for name, value in {"CMAKE_BUILD_TYPE": "Release", **defines}.items()]
        subprocess.run([cmake, "-S", str(CORE), "-B", folder, *generator, *settings], check=True)
        subprocess.run([cmake, "--build", folder, "--parallel"], check=True)
        subprocess.run([cmake, "--install", folder, "--prefix", str(ROOT)], check=True)


def _word() -> str:
    given = os.environ.get("FASTPIPE_BUILD_CORE", "").strip().lower() or "auto"
    if given not in WORDS:
        raise SystemExit(f"FASTPIPE_BUILD_CORE={given!r} isn't known; it can be {', '.join(WORDS)}")
    return given


def _without_core(config_settings: Settings) -> dict[str, Any]:
    return {**(config_settings or {}), "wheel.cmake": "false"}


def _prepare(word: str) -> dict[str, str]:
    """Makes the options by which CMake finds the compiler that is meant."""
    if word != "zig" and _compiler_works():
        return {}
    found = importlib.util.find_spec("ziglang")
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError("no C compiler works here, and the package ziglang isn't installed")
    zig = Path(found.submodule_search_locations[0]) / ("zig.exe" if os.name == "nt" else "zig")
    os.environ["CMAKE_GENERATOR"] = "Ninja"
    # Without a target zig compiles for this very processor and this machine's C library.
    compiler = [zig.as_posix(), "cc", *_zig_target()]
    return {"CMAKE_C_COMPILER": ";".join(compiler)}


def _zig_target() -> list[str]:
    machine = platform.machine().lower()
    machine = {"amd64": "x86_64", "arm64": "aarch64", "i686": "x86"}.get(machine, machine)
    if sys.platform == "win32":
        return ["-target", f"{machine}-windows-gnu"]
    if sys.platform == "darwin":
        return ["-target", f"{machine}-macos.{'11.0' if machine == 'aarch64' else '10.15'}"]
    if sys.platform == "linux" and machine in ("x86_64", "aarch64"):
        return ["-target", f"{machine}-linux-{'gnu.2.17' if platform.libc_ver()[0] == 'glibc' else 'musl'}"]
    return ["-mcpu=baseline"]


def _compiler_works() -> bool:
    """Whether the C compiler that CMake would take makes a library; an installed one may lack the headers."""
    given = os.environ.get("CC")
    names = [shlex.split(given)] if given else [[name] for name in ("cc", "gcc", "clang") if shutil.which(name)]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.c"
        source.write_text(_PROBE, encoding="ascii")
        for name in names[:1]:  # CMake takes the first
            command = [*name, "-std=c11", "-shared", "-fPIC", str(source), "-o", str(source.with_suffix(".so")), "-lm"]
            try:
                done = subprocess.run(command, capture_output=True, cwd=folder)
            except OSError:
                return False
            return done.returncode == 0
    return False


def _obtainable(package: str) -> bool:
    """Whether pip finds a wheel of the package for this machine; where pip isn't there to be asked, yes."""
    if importlib.util.find_spec(package) is not None:
        return True
    if importlib.util.find_spec("pip") is None:
        return True
    command = [sys.executable, "-m", "pip", "index", "versions", package, "--only-binary", ":all:"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode == 0


def _failed(word: str, error: BaseException) -> None:
    if word == "require":
        raise error
    _say(f"the core didn't compile ({error}): fastpipe is installed without it, with the same pixels by slower ways")


def _say(text: str) -> None:
    print(f"*** {text}", file=sys.stderr, flush=True)
