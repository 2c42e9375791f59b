"""`doctor`: where the time of a training's input goes, what limits it, and what cures that.

subject → disk, probe (stages, files, traps), scaling → findings → report, plot. Each module measures one thing, each
finding is a pure function of what was measured, and `examine` strings them together.
"""

from fastpipe._rich import load_rich

load_rich()  # before the report imports rich

from fastpipe.tools.doctor.diagnosis import Diagnosis  # noqa: E402
from fastpipe.tools.doctor.examine import doctor  # noqa: E402
from fastpipe.tools.doctor.findings import Finding  # noqa: E402

__all__ = ["Diagnosis", "Finding", "doctor"]
