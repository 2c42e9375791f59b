"""The C library: decodes JPEGs, PNGs and packed images, runs operations on pixels, and writes to given memory.

``src/fastpipe_core.h`` is its interface; this package loads the library at first use and calls it through ctypes, which
releases the GIL during a call. Without the library, `available` is False and `why_not` says what to do; fastpipe then
gives the same pixels, only slower.

    job = Job()
    job.read(data)                      # the file's bytes; or read_pixels
    job.box(top, left, height, width)   # the part of the file to decode; without it the whole image
    job.resize((height, width), (0, 0), (224, 224), (0, 0, 224, 224), Filter.BILINEAR, PassOrder.FEWER_ROWS_FIRST)
    job.flip()
    job.write_tensor(tensor, MEAN, STD) # or write_array, write
    status = run(job)                   # Status.OK, or why the core refused; then another reader decides about the file

The package stands below the readers: it imports the modules `types`, `errors` and `clock` of fastpipe alone.
"""

from __future__ import annotations

from fastpipe.core.arrays import ArrayForm, ArrayPart, read_arrays
from fastpipe.core.files import Files, jpeg_end, read_header
from fastpipe.core.image_jobs import run_from_image, run_to_new_image
from fastpipe.core.job_pool import (
    check,
    check_or_unsure,
    give_back,
    refused,
    run_prepared,
    run_thread_job,
    run_thread_series,
    thread_job,
)
from fastpipe.core.jobs import BatchSink, Job, PreparedJob
from fastpipe.core.library import available, build, done, isa, status_text, why_not
from fastpipe.core.operations import MAX_OPERATIONS, EncodedOps
from fastpipe.core.pillow import PillowMemory, image_of, memory_of, new_image
from fastpipe.core.pool import Context, JobArray, Pool, Run, run, thread_context
from fastpipe.core.structs import LOOK_UP_RGBX_PAD, DType, Filter, Kind, Padding, PassOrder, Status, TensorRounding
from fastpipe.core.thread_resources import ThreadResources, end_threads, thread_resources
from fastpipe.core.uint16 import decode_uint16, read_uint16
