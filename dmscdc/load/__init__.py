"""What a table needs, and doing it."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _lazily

if TYPE_CHECKING:
    from .process import process_table as process_table
    from .results import Processed as Processed
else:
    __getattr__ = _lazily(__name__, {"Processed": "results", "process_table": "process"})

__all__ = ["Processed", "process_table"]
