"""A table of DynamoDB, followed through Kinesis. The function of the room follow has a longer name here."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _lazily

if TYPE_CHECKING:
    from .follow import follow as follow_stream, stage_next as stage_next
    from .stage import Manifest as Manifest
else:
    __getattr__ = _lazily(__name__, {
        "Manifest": "stage",
        "follow_stream": "follow.follow",
        "stage_next": "follow",
    })

__all__ = ["Manifest", "follow_stream", "stage_next"]
