"""Runs a script as ``__main__``, and writes what its model saw and the state of its process.

    python _watched.py RESULT SCRIPT [ARGUMENTS]

RESULT gets JSON: digests of all images that a model saw, of its losses and of its last weights; the process's state
behind the second step of the optimizer and at the end; the order of the functions that ran at exit; and the processor
time from the model's first batch on, that of workers that have ended included.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib
import json
import logging
import os
import random
import resource
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TESTS = str(Path(__file__).resolve().parents[2] / "tests")


class Watch:
    """A script's batches, losses and models, as seen from within its process."""

    def __init__(self, path: str) -> None:
        self.path, self.owner = path, os.getpid()
        self.batches, self.losses, self.count = hashlib.sha256(), hashlib.sha256(), 0
        self.optimizers: dict[int, Any] = {}
        self.steps = 0
        self.states: dict[str, Any] = {}
        self.ran: list[str] = []
        self.begun: float | None = None
        sys.path.insert(0, TESTS)
        self.manners: Callable[[], dict[str, Any]] = importlib.import_module("process_manners").manners
        sys.path.remove(TESTS)

    def start(self) -> None:
        """Begins to watch; the result is written by the last function that runs at exit."""
        atexit.register(self.write)
        self.wrap_exit_functions()
        torch = importlib.import_module("torch")
        torch.set_num_threads(1)
        torch.manual_seed(1)  # for the scripts that seed nothing themselves
        random.seed(2)
        importlib.import_module("numpy").random.seed(3)
        convolve, backward = torch.nn.Conv2d.forward, torch.Tensor.backward

        @functools.wraps(convolve)
        def forward(module: Any, images: Any) -> Any:
            if module.in_channels == 3:
                self.see(images.detach())
            return convolve(module, images)

        @functools.wraps(backward)
        def of_loss(loss: Any, *arguments: Any, **named: Any) -> Any:
            self.losses.update(loss.detach().numpy().tobytes())
            return backward(loss, *arguments, **named)

        torch.nn.Conv2d.forward, torch.Tensor.backward = forward, of_loss
        importlib.import_module("torch.optim.optimizer").register_optimizer_step_post_hook(self.step)

    def see(self, images: Any) -> None:
        if len(images) == 1:  # memory that nobody has written, by which trainers count a model's operations
            return
        if self.begun is None:
            self.begun = processor_time()
        self.count += len(images)
        self.batches.update(repr((tuple(images.shape), images.dtype, images.stride())).encode())
        self.batches.update(images.contiguous().numpy().tobytes())

    def step(self, optimizer: Any, *_: Any) -> None:
        self.optimizers[id(optimizer)] = optimizer
        self.steps += 1
        if self.steps == 2:
            self.states["while training"] = self.state()

    def state(self) -> dict[str, Any]:
        """The process's state, but for what `fastpipe run` has more: a finder of modules, and open files."""
        torch, numpy = importlib.import_module("torch"), importlib.import_module("numpy")
        found = self.manners()
        found.pop("open files", None)
        found["finders"] = [name for name in found["finders"] if not name.startswith("fastpipe.")]
        found["loggers"] = {
            name: [logger.level, logger.propagate, logger.disabled, [type(one).__name__ for one in logger.handlers]]
            for name, logger in sorted(logging.root.manager.loggerDict.items())
            if isinstance(logger, logging.Logger) and not name.startswith("fastpipe") and is_set_up(logger)
        }
        found["torch"] = [
            torch.get_num_threads(), torch.multiprocessing.get_sharing_strategy(), str(torch.get_default_dtype()),
            torch.are_deterministic_algorithms_enabled(), torch.is_grad_enabled(),
        ]  # fmt: skip
        found["generators"] = [
            digest(repr(one).encode())
            for one in (torch.get_rng_state().tolist(), random.getstate(), numpy.random.get_state()[1].tolist())
        ]
        if (cv2 := sys.modules.get("cv2")) is not None:
            found["cv2"] = [cv2.getNumThreads(), cv2.ocl.useOpenCL()]
        pillow, files = importlib.import_module("PIL.Image"), importlib.import_module("PIL.ImageFile")
        found["Pillow"] = [pillow.MAX_IMAGE_PIXELS, files.LOAD_TRUNCATED_IMAGES]
        return found

    def wrap_exit_functions(self) -> None:
        """Notes the names of the functions that run at exit, in their order."""
        register, unregister = atexit.register, atexit.unregister
        wrapped: dict[Any, list[Any]] = {}

        def registered(function: Any, *arguments: Any, **named: Any) -> Any:
            @functools.wraps(function)
            def noted(*arguments: Any, **named: Any) -> None:
                if os.getpid() == self.owner and not str(function.__module__).startswith("fastpipe"):
                    self.ran.append(f"{function.__module__}.{getattr(function, '__qualname__', type(function))}")
                function(*arguments, **named)

            wrapped.setdefault(function, []).append(noted)
            register(noted, *arguments, **named)
            return function

        def unregistered(function: Any) -> None:
            for one in wrapped.pop(function, [function]):
                unregister(one)

        atexit.register, atexit.unregister = registered, unregistered

    def write(self) -> None:
        if os.getpid() != self.owner:
            return
        seconds = 0.0 if self.begun is None else processor_time() - self.begun
        self.states["at exit"] = self.state()
        weights = hashlib.sha256()
        for optimizer in self.optimizers.values():
            for group in optimizer.param_groups:
                for weight in group["params"]:
                    weights.update(weight.detach().numpy().tobytes())
        found = {
            "equal": [self.batches.hexdigest(), self.losses.hexdigest(), weights.hexdigest(), self.count, self.steps],
            "states": {**self.states, "exit functions": {"order": self.ran}},
            "seconds": seconds,
        }
        Path(self.path).write_text(json.dumps(found))


def is_set_up(logger: logging.Logger) -> bool:
    """True if somebody has changed a logger, and not only its module was imported."""
    return bool(logger.level or logger.handlers or logger.filters or logger.disabled or not logger.propagate)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def processor_time() -> float:
    """Seconds of processor time of this process, and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


if __name__ == "__main__":
    result, script = sys.argv[1:3]
    if (shim := os.environ.get("TORCHVISION_FIRST")) is not None:
        importlib.import_module(shim)
    Watch(result).start()
    sys.argv[:] = sys.argv[2:]
    sys.path[0] = str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")
