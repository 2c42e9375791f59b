"""`doctor`: finds where the time of a training's input goes, what limits it, and what would help.

`examine` runs the measurements (disk, stages, reencoding, workers), derives the findings from them by pure functions,
and puts everything into a `Diagnosis`, which prints and draws itself.
"""

from fastpipe.tools.doctor.diagnosis import Diagnosis
from fastpipe.tools.doctor.examine import doctor
from fastpipe.tools.doctor.findings import Finding

__all__ = ["Diagnosis", "Finding", "doctor"]
