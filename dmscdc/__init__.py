"""AWS DMS change files into lake tables that equal the source. What each package offers stands in its `__init__`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .analyst.lake import open_folder as open

__version__ = "1.0.0"
__all__ = ["__version__", "open"]


def _lazily(package: str, homes: dict[str, str]) -> Callable[[str], Any]:
    "A package's `__getattr__`: a name is imported when it is first asked for, from its room, or from room.name there."

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        room, _, real = homes[name].partition(".")
        return getattr(import_module(f"{package}.{room}"), real or name)

    return find


if not TYPE_CHECKING:
    __getattr__ = _lazily(__name__, {"open": "analyst.open_folder"})
