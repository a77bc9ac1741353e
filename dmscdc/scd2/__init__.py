"""Versions beside the mirror."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _lazily

if TYPE_CHECKING:
    from .update import Increment as Increment, read_versions as read_versions, update_versions as update_versions, valid_at as valid_at
else:
    __getattr__ = _lazily(__name__, {
        "Increment": "update",
        "read_versions": "update",
        "update_versions": "update",
        "valid_at": "update",
    })

__all__ = ["Increment", "read_versions", "update_versions", "valid_at"]
