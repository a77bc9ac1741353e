"""Settings, positions and leases of all tables."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _lazily

if TYPE_CHECKING:
    from .items import State as State, TableItem as TableItem
    from .position import Position as Position
    from .registry import open_state as open_state
else:
    __getattr__ = _lazily(__name__, {
        "Position": "position",
        "State": "items",
        "TableItem": "items",
        "open_state": "registry",
    })

__all__ = ["Position", "State", "TableItem", "open_state"]
