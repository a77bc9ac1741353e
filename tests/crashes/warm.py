"""A warm Spark server whose tasks are watched, and a house of worlds around it."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager

import house as rooms
from dmscdc.spark.server import serve


@contextmanager
def a_server(folder, control, places=()):
    "A server whose tasks are watched; which, and what happens to them, stands in the file `control`."
    mine = {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(rooms.HERE / "inside"), os.environ.get("PYTHONPATH", "")])),
        "DMSCDC_CRASHES": str(rooms.HERE),
        "DMSCDC_CONTROL": str(control),
    }
    before = {name: os.environ.get(name) for name in mine}
    os.environ.update(mine)
    try:
        with serve(master="local[2]", memory="1g", log=folder / "server.log", places=places) as server:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
            yield server
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


@contextmanager
def a_house(folder, places=(), **how):
    "A runner, a warm server, and worlds."
    runner, control = rooms.a_runner(), folder / "control.json"
    control.write_text('{"root": "/nowhere"}')
    with a_server(folder, control, places) as server:
        house = rooms.House(folder, server, runner, **how)
        try:
            assert house.ask() == "ready"
            yield house
        finally:
            house.close()
            os.kill(server.pid, signal.SIGKILL)  # it would take its time to say goodbye to every session
