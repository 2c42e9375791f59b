"""Adds ``fastpipe run`` to the commands with which a launcher that it runs starts ranks as Python processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType

from fastpipe.hooks.patches import Function, Patches

_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "LOCAL_RANK")
"""Variables by which torchrun, srun, Open MPI, other MPIs and Lightning tell a process its rank."""


@dataclass
class Launch:
    """The command of ``fastpipe run`` in this process, and whether the process starts ranks.

    Attributes:
        command: Python's arguments before the script's; empty without ``fastpipe run``.
        is_launcher: this process only starts ranks, which report instead of it.
    """

    command: tuple[str, ...] = ()
    is_launcher: bool = False


LAUNCH = Launch()


def rank() -> str:
    """The rank of this process in a distributed run; ``"0"`` outside of one."""
    return next((value for value in map(os.environ.get, _VARIABLES) if value and value != "0"), "0")


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces the functions of torchrun and Lightning that make, or take, the command line of a rank."""
    for name, make in _MAKERS.items():
        if hasattr(module, name):
            patches.hook(module, name, make)


def _of_torchrun(plain: Function) -> Function:
    def launch_agent(config: object, entrypoint: object, args: list[str], *others: object, **options: object) -> object:
        if entrypoint == sys.executable and args[:1] == ["-u"] and LAUNCH.command:
            LAUNCH.is_launcher = True
            args = _by_fastpipe(args)
        return plain(config, entrypoint, args, *others, **options)

    return launch_agent


def _of_lightning(plain: Function) -> Function:
    def basic_subprocess_cmd() -> Sequence[str]:
        program, *arguments = plain()
        return [program, *_by_fastpipe(arguments)]

    return basic_subprocess_cmd


def _of_lightning_with_hydra(plain: Function) -> Function:
    def hydra_subprocess_cmd(*args: object, **kwargs: object) -> object:
        (program, *arguments), folder = plain(*args, **kwargs)
        return [program, *_by_fastpipe(arguments)], folder

    return hydra_subprocess_cmd


def _by_fastpipe(arguments: Sequence[str]) -> list[str]:
    """Adds ``-m fastpipe run`` to Python's arguments, unless they have it, or this process wasn't started by it."""
    first = 1 if arguments[0] == "-u" else 0
    if [*arguments[first : first + 2]] == ["-m", "fastpipe"]:
        return [*arguments]
    return [*arguments[:first], *LAUNCH.command, *arguments[first:]]


_MAKERS: dict[str, Callable[[Function], Function]] = {
    "launch_agent": _of_torchrun,
    "_basic_subprocess_cmd": _of_lightning,
    "_hydra_subprocess_cmd": _of_lightning_with_hydra,
}
"""Makes the replacement for a launcher's function, by the function's name."""
