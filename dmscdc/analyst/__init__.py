"""A lake asked in Python: what `dmscdc.open` gives."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _lazily

if TYPE_CHECKING:
    from .answer import Answer as Answer
    from .lake import Lake as Lake, open_folder as open_folder
    from .table import History as History, Table as Table
else:
    __getattr__ = _lazily(__name__, {"Answer": "answer", "History": "table", "Lake": "lake", "Table": "table", "open_folder": "lake"})

__all__ = ["Answer", "History", "Lake", "Table", "open_folder"]
