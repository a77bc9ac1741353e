"""One executed notebook, kept."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _lazily

if TYPE_CHECKING:
    from .log import Ledger as Ledger, Run as Run, record as record, records as records
    from .run import run_notebook as run_notebook
else:
    __getattr__ = _lazily(__name__, {
        "Ledger": "log",
        "Run": "log",
        "record": "log",
        "records": "log",
        "run_notebook": "run",
    })

__all__ = ["Ledger", "Run", "record", "records", "run_notebook"]
