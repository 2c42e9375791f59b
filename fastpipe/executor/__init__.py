"""Makes samples and batches: reads, draws, lowers, runs in the core and, for the rest, in Python, and collects."""

from fastpipe.executor.batch import (
    BatchSlots,
    BatchSpec,
    CollatedBatch,
    ImageBatch,
    ImageSlots,
    batch_bytes,
    batch_memory,
)
from fastpipe.executor.batch_executor import BatchExecutor, PendingBatch
from fastpipe.executor.epochs import SharedEpoch, in_epochs
from fastpipe.executor.image_stages import DecodeOptions, ImageStages, StageOptions, upright
from fastpipe.executor.pixel_stages import PixelArray, PixelStages
from fastpipe.executor.stage_times import Row, Stage, StageTimes
from fastpipe.executor.tasks import CoreTasks, SampleTask
