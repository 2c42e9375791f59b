"""torchvision, importable beside a CPU-only torch, before a test imports it by its own name."""

import tv  # noqa: F401
