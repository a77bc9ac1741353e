"""One Spark session for laptop, server and cluster."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _lazily

if TYPE_CHECKING:
    from .server import SparkServer as SparkServer, serve as serve
    from .session import open_session as open_session
else:
    __getattr__ = _lazily(__name__, {"SparkServer": "server", "open_session": "session", "serve": "server"})

__all__ = ["SparkServer", "open_session", "serve"]
