"""A source, and its files as DMS writes them."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _lazily

if TYPE_CHECKING:
    from .settings import DmsSettings as DmsSettings
    from .sqlite import SqliteSource as SqliteSource, open_source as open_source
    from .writer import write_changes as write_changes, write_load as write_load
else:
    __getattr__ = _lazily(__name__, {
        "DmsSettings": "settings",
        "SqliteSource": "sqlite",
        "open_source": "sqlite",
        "write_changes": "writer",
        "write_load": "writer",
    })

__all__ = ["DmsSettings", "SqliteSource", "open_source", "write_changes", "write_load"]
