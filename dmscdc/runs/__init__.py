"""One executed notebook, kept."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _lazily

if TYPE_CHECKING:
    from .log import RunLog as RunLog, Run as Run, record as record, records as records
    from .run import run_notebook as run_notebook
else:
    __getattr__ = _lazily(__name__, {
        "RunLog": "log",
        "Run": "log",
        "record": "log",
        "records": "log",
        "run_notebook": "run",
    })

__all__ = ["RunLog", "Run", "record", "records", "run_notebook"]
