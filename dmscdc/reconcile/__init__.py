"""Is a table equal to its source?"""
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _lazily

if TYPE_CHECKING:
    from .explain import Proof as Proof, ProofRequest as ProofRequest, prove as prove
else:
    __getattr__ = _lazily(__name__, {"Proof": "explain", "ProofRequest": "explain", "prove": "explain"})

__all__ = ["Proof", "ProofRequest", "prove"]
