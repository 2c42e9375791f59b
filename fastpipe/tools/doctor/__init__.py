"""`doctor`: where the time of a training's input goes, what limits it, and what cures that.

`examine` measures one thing after the other (disk, stages, reencoding, workers), has each finding made, a
pure function of measurements, and puts all of it into a `Diagnosis`, which prints and draws itself.
"""

from fastpipe.tools.doctor.diagnosis import Diagnosis
from fastpipe.tools.doctor.examine import doctor
from fastpipe.tools.doctor.findings import Finding

__all__ = ["Diagnosis", "Finding", "doctor"]
