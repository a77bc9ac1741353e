"""Sources of each kind, started once a process."""

import databases
import pytest


@pytest.fixture(scope="session")
def mariadb():
    with databases.mariadb() as db:
        yield db


@pytest.fixture(scope="session")
def postgresql():
    with databases.postgresql() as db:
        yield db


@pytest.fixture(scope="session")
def sqlite(tmp_path_factory):
    return databases.sqlite(tmp_path_factory.mktemp("source") / "shop.db")
