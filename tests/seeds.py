"""Seeds of what is drawn at random. They are fixed, so that a commit is as green tomorrow as today; by hand another number, or `today`, tries others."""

import os
from datetime import date

FIXED = 20181215


def seed_of(variable: str) -> int:
    "The fixed seed, or what an environment variable says."
    said = os.environ.get(variable) or str(FIXED)
    return int(f"{date.today():%Y%m%d}" if said == "today" else said)


IS_FIXED = not any(name in os.environ for name in ("HISTORY_SEED", "CRASH_SEED", "ADVERSARY_SEED"))
