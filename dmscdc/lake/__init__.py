"""What a table of the lake is, and one commit to it."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _lazily

if TYPE_CHECKING:
    from .open import FormatCommit as FormatCommit, Newest as Newest, OpenTable as OpenTable
    from .table import Commit as Commit, LakeTable as LakeTable, Transaction as Transaction, open_table as open_table
else:
    __getattr__ = _lazily(__name__, {
        "Commit": "table",
        "FormatCommit": "open",
        "LakeTable": "table",
        "Newest": "open",
        "OpenTable": "open",
        "Transaction": "table",
        "open_table": "table",
    })

__all__ = ["Commit", "FormatCommit", "LakeTable", "Newest", "OpenTable", "Transaction", "open_table"]
