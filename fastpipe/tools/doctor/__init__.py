"""`doctor`: where the time of a training's input goes, what limits it, and what cures that.

subject → disk, probe (stages, files, traps), scaling → findings → report. Each module measures one thing, each
finding is a pure function of what was measured, and `examine` strings them together.
"""

from fastpipe.tools.doctor.diagnosis import Diagnosis
from fastpipe.tools.doctor.examine import doctor
from fastpipe.tools.doctor.findings import Finding

__all__ = ["Diagnosis", "Finding", "doctor"]
