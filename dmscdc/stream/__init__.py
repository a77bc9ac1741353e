"""A table of DynamoDB, followed through Kinesis, and the change files of any other source. The function of the room follow has a longer name here."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _lazily

if TYPE_CHECKING:
    from .follow import follow as follow_stream, stage_next as stage_next
    from .source import ChangeSource as ChangeSource, Records as Records, stage_changes as stage_changes
    from .stage import Manifest as Manifest
else:
    __getattr__ = _lazily(__name__, {
        "ChangeSource": "source",
        "Manifest": "stage",
        "Records": "source",
        "follow_stream": "follow.follow",
        "stage_changes": "source",
        "stage_next": "follow",
    })

__all__ = ["ChangeSource", "Manifest", "Records", "follow_stream", "stage_changes", "stage_next"]
