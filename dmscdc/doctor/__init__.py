"""What will hurt, said before the first load."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _lazily

if TYPE_CHECKING:
    from .diagnosis import doctor as doctor
    from .evidence import Finding as Finding
else:
    __getattr__ = _lazily(__name__, {
        "Finding": "evidence",
        "doctor": "diagnosis",
    })

__all__ = ["Finding", "doctor"]
