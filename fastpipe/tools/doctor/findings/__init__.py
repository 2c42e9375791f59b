"""Findings: each is a pure function of measured values, and says what is wrong and what cures it."""

from fastpipe.tools.doctor.findings.files import bad_files, page_cache, reencoding, reencoding_gain
from fastpipe.tools.doctor.findings.finding import Finding, Severity
from fastpipe.tools.doctor.findings.pipeline import (
    broken_plan,
    missing_reader,
    object_copies,
    own_loader,
    slow_reader,
    slow_transform,
    stale_config,
)
from fastpipe.tools.doctor.findings.workers import (
    busy_machine,
    is_busy,
    not_sendable,
    oversubscription,
    shared_bytes,
    shared_memory,
    slow_machine,
    too_few_workers,
    too_many_workers,
)

__all__ = [
    "Finding",
    "Severity",
    "bad_files",
    "broken_plan",
    "busy_machine",
    "is_busy",
    "missing_reader",
    "not_sendable",
    "object_copies",
    "oversubscription",
    "own_loader",
    "page_cache",
    "reencoding",
    "reencoding_gain",
    "shared_bytes",
    "shared_memory",
    "slow_machine",
    "slow_reader",
    "slow_transform",
    "stale_config",
    "too_few_workers",
    "too_many_workers",
]
