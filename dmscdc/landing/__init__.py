"""What DMS has written."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _lazily

if TYPE_CHECKING:
    from .files import FolderLanding as FolderLanding, RawFile as RawFile, TableRef as TableRef
    from .s3 import BucketLanding as BucketLanding, open_landing as open_landing
else:
    __getattr__ = _lazily(__name__, {
        "BucketLanding": "s3",
        "FolderLanding": "files",
        "RawFile": "files",
        "TableRef": "files",
        "open_landing": "s3",
    })

__all__ = ["BucketLanding", "FolderLanding", "RawFile", "TableRef", "open_landing"]
