"""Which reader is fastest here: the measurement of ``fastpipe bench``, as a script.

    python benchmarks/readers.py [PATH] [--readers pil,cv2] [--format jpeg] [--workers N] [--json FILE]

Every reader × format × request (whole image, a region such as RandomResizedCrop draws), in one process
and inside DataLoader workers; rounds interleaved; pixels compared with Pillow's before a time counts.
"""

from __future__ import annotations

import sys

from fastpipe.cli import main

if __name__ == "__main__":
    main(["bench", *sys.argv[1:]])
