"""Record-batch bytes ⇄ records: pure functions over bytes, no file, socket or clock."""

from kafkapy.records.scanner import scan_is_compiled

__all__ = ["scan_is_compiled"]
