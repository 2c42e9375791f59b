"""Updates the outputs of commands that the documentation shows.

    python benchmarks/outputs.py [WORD]      # runs the commands again that contain WORD; all by default

An output follows a comment with its command, `<!-- output of: fastpipe verify train (fastpipe 0.1.0, 2026-11-22) -->`.
The commands run in a folder with synthetic photos in `train/` and a `recipe.py`, in 80 columns. The tests fail for
outputs of another version.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

import fastpipe
from fastpipe.tools.bench.samples import make_folder

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

OUTPUT = re.compile(
    r"<!-- output of: (?P<command>.+?) \(fastpipe (?P<version>\S+), (?P<date>[\d-]+)(?:; (?P<note>[^)]+))?\) -->\n"
    r"```text\n(?P<text>.*?)```\n",
    re.DOTALL,
)
RECIPE = """\
from PIL import ImageOps

from fastpipe import transforms as T

transform = T.Compose([
    T.RandomResizedCrop(224),
    T.RandomHorizontalFlip(),
    T.ColorJitter(0.4, 0.4, 0.4),
    T.RandomRotation(15),
    T.ToTensor(),
])
broken = T.Compose([
    T.RandomResizedCrop(224),
    T.Lambda(ImageOps.autocontrast),
    T.RandomHorizontalFlip(),
    T.ToTensor(),
])
"""


@dataclass(frozen=True)
class Output:
    """The output of a command, as a page shows it."""

    command: str
    version: str  # fastpipe's version
    date: str
    text: str
    note: str = ""

    @property
    def block(self) -> str:
        """The comment, and the block of text after it."""
        note = f"; {self.note}" if self.note else ""
        made = f"<!-- output of: {self.command} (fastpipe {self.version}, {self.date}{note}) -->"
        return f"{made}\n```text\n{self.text}```\n"


def shown(text: str) -> Iterator[Output]:
    """Yields the outputs in a page's text."""
    for found in OUTPUT.finditer(text):
        yield Output(found["command"], found["version"], found["date"], found["text"], found["note"] or "")


def make_project(folder: Path) -> None:
    """Makes the folder that the commands run in."""
    make_folder(folder / "train", 5, 50)
    (folder / "recipe.py").write_text(RECIPE, encoding="utf-8")


def run(command: str, project: Path) -> str:
    """Runs a command; returns "$ command" and its output.

    A picture that it writes is moved to the documentation's images.
    """
    own = {"FASTPIPE_CACHE": ".cache", "FASTPIPE_CONFIG": ".config", "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}
    program, *arguments = shlex.split(command)
    if program != "fastpipe":
        raise ValueError(f"{command}: only fastpipe's commands are run")
    done = subprocess.run(
        [sys.executable, "-m", "fastpipe", *arguments],
        cwd=project,
        env={**os.environ, **own},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if not done.stdout:
        raise RuntimeError(f"{command} printed nothing: {done.stderr}")
    lines = "\n".join(line.rstrip() for line in done.stdout.splitlines())
    for made in project.glob("*.png"):
        (DOCS / "images" / made.name).write_bytes(made.read_bytes())
    return f"$ {command}\n{lines}\n"


def run_again(part: str, note: str) -> None:
    """Runs the commands that contain `part` again, and writes their outputs into the pages."""
    today = datetime.now(timezone.utc).date().isoformat()
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        make_project(project)
        for path in sorted([ROOT / "README.md", *DOCS.glob("*.md")]):
            text = path.read_text(encoding="utf-8")
            for old in shown(text):
                if part in old.command:
                    printed = run(old.command, project)
                    new = replace(old, version=fastpipe.__version__, date=today, text=printed, note=note)
                    text = text.replace(old.block, new.block)
                    print(f"{path.name}: {old.command}")
            path.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("word", nargs="?", default="", metavar="WORD", help="run only commands that contain it")
    parser.add_argument("--note", default="", metavar="TEXT", help="a sentence about this machine")
    asked = parser.parse_args()
    run_again(asked.word, asked.note)


if __name__ == "__main__":
    main()
