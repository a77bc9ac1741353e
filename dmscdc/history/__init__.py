"""What happened. The functions of the rooms as_of and feed have longer names here."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _lazily

if TYPE_CHECKING:
    from .as_of import AsOf as AsOf, as_of as table_as_of
    from .audit import RowAudit as RowAudit, audit_row as audit_row
    from .changelog import Changelog as Changelog, open_changelog as open_changelog
    from .feed import feed as table_feed
    from .parts import Cursor as Cursor, deliver_next as deliver_next
else:
    __getattr__ = _lazily(__name__, {
        "AsOf": "as_of",
        "Changelog": "changelog",
        "Cursor": "parts",
        "RowAudit": "audit",
        "audit_row": "audit",
        "deliver_next": "parts",
        "open_changelog": "changelog",
        "table_as_of": "as_of.as_of",
        "table_feed": "feed.feed",
    })

__all__ = ["AsOf", "Changelog", "Cursor", "RowAudit", "audit_row", "deliver_next", "open_changelog", "table_as_of", "table_feed"]
