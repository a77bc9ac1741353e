"""What a table needs, and doing it."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _lazily

if TYPE_CHECKING:
    from .process import Processed as Processed, process_table as process_table
else:
    __getattr__ = _lazily(__name__, {"Processed": "process", "process_table": "process"})

__all__ = ["Processed", "process_table"]
