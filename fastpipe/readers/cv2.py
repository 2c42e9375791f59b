"""OpenCV's decoders, which are its own builds of libjpeg-turbo and libwebp. Whole images only."""

from __future__ import annotations

import re
from collections.abc import Mapping

import cv2
import numpy as np

from fastpipe.readers.base import Pixels, Reader

# Since 4.11 OpenCV decodes straight to RGB.
_FLAGS = getattr(cv2, "IMREAD_COLOR_RGB", 0) | cv2.IMREAD_IGNORE_ORIENTATION


class OpenCvReader(Reader):
    """`cv2.imdecode`, as RGB and with the EXIF orientation ignored."""

    name = "cv2"
    formats = frozenset({"JPEG", "MPO", "WEBP"})
    refusals = (cv2.error, ValueError)

    def __init__(self) -> None:
        if tuple(map(int, re.findall(r"\d+", self.version)[:2])) < (4, 12):
            raise ImportError(
                f"OpenCV {self.version}: of a damaged JPEG it writes to memory that isn't its own, and shows the image "
                "decoded before (CVE-2025-53644); install 4.12 or later"
            )

    @property
    def version(self) -> str:
        return cv2.__version__

    def libraries(self) -> Mapping[str, str]:
        versions = {"opencv": self.version}
        for line in cv2.getBuildInformation().splitlines():
            name, _, text = line.strip().partition(":")
            version = re.search(r"ver (?:\d+ - )?(\d+(?:\.\d+)+)", text)
            if version and name == "JPEG":
                versions["libjpeg-turbo" if "turbo" in text else "libjpeg"] = version[1]
        return versions

    def decode(self, data: bytes) -> Pixels:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), _FLAGS)
        if pixels is None:
            raise ValueError("cv2.imdecode gives no image")
        result: Pixels = pixels
        return result
