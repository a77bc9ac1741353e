"""What a table of the lake is, and one commit to it."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _lazily

if TYPE_CHECKING:
    from .table import Commit as Commit, LakeTable as LakeTable, Transaction as Transaction, open_table as open_table
else:
    __getattr__ = _lazily(__name__, {
        "Commit": "table",
        "LakeTable": "table",
        "Transaction": "table",
        "open_table": "table",
    })

__all__ = ["Commit", "LakeTable", "Transaction", "open_table"]
