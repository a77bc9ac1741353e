"""All tables, by the clock."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _lazily

if TYPE_CHECKING:
    from .config import Config as Config, read_config as read_config, write_config as write_config
    from .passes import PassResult as PassResult, run_pass as run_pass
    from .schedule import run_proofs as run_proofs, run_schedule as run_schedule
else:
    __getattr__ = _lazily(__name__, {
        "Config": "config",
        "PassResult": "passes",
        "read_config": "config",
        "run_pass": "passes",
        "run_proofs": "schedule",
        "run_schedule": "schedule",
        "write_config": "config",
    })

__all__ = ["Config", "PassResult", "read_config", "run_pass", "run_proofs", "run_schedule", "write_config"]
