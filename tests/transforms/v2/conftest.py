"""torchvision, importable beside a CPU-only torch, before a test imports it by its own name."""

import torchvision_here  # noqa: F401
