"Keys of floating point beside their source: both zeros are one key, and so is every NaN; what is in flight, and what differs, is found under them."

from __future__ import annotations

from math import isnan, nan

import pytest

from dmscdc.reconcile.explain import Proof, ProofRequest, prove
from world import World

pytestmark = pytest.mark.torture

KINDS = {
    "double": {"sqlite": "double", "mysql": "double", "postgresql": "double precision"},
    "float": {"sqlite": "float", "mysql": "float", "postgresql": "real"},
}


@pytest.fixture(params=["sqlite", "mysql", "postgresql"])
def db(request):
    return request.getfixturevalue({"mysql": "mariadb"}.get(request.param, request.param))


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_such_keys_is_equal_and_each_difference_is_found_under_its_key(spark, db, tmp_path, monkeypatch, kind):
    for name, value in db.env.items():
        monkeypatch.setenv(name, value)
    keys = [-0.0, 1.5, -2.25, *([nan] if db.kind == "postgresql" else [])]  # the others know no NaN
    w = World(tmp_path, spark, {"k": kind, "name": "string"}, f"shop.by_{kind}").set(key="k").load([(k, "load") for k in keys])
    w.changes(1, [("U", k if isnan(k) else -k if not k else k, "changed") for k in keys])  # 0.0 where the load has -0.0
    assert w.go().verdict == "ok" and len(w.lake("name")) == len(keys)
    name = f"{'shop.' * (db.kind == 'postgresql')}by_{kind}"
    rows = [{"k": k + 0.0, "name": "changed"} for k in keys]
    db.run(f"create table {name} (k {KINDS[kind][db.kind]}, name varchar(20))", f"insert into {name} values (:k, :name)", many=rows)

    def proof() -> Proof:
        return prove(ProofRequest(w.ref, str(w.landing), str(tmp_path / "lake"), w.places[3], db.source), lambda: spark)

    done = proof()
    assert (done.verdict, done.done.lake.rows, {rule.name for rule in done.done.rules if not rule.why}) == ("ok", len(keys), {"k", "name"}), (
        done.words
    )
    db.run(f"update {name} set name = 'newer' where k <> 1.5", f"update {name} set name = 'other' where k = 1.5")
    w.changes(2, [("U", k, "newer") for k in keys if k != 1.5])  # -0.0 again
    done = proof()
    assert (dict(done.done.in_flight), dict(done.done.counts)) == ({"different": len(keys) - 1}, {"different": 1}), done.words
    assert [(float(f.key["k"]), f.columns) for f in done.done.findings if not f.in_flight] == [(1.5, {"name": ("other", "changed")})]
