"The wheel, built once for all that install or read it."

from pathlib import Path

import pytest

from wheels import build_wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))
