"What the tests of asking share."
import pytest

PLAIN = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@pytest.fixture(autouse=True, scope="package")
def interpreted(request):
    "Rows are few and plans are large here: to compile them costs more than all else."
    if not any("spark" in item.fixturenames for item in request.session.items):
        yield
        return
    spark = request.getfixturevalue("spark")
    before = {name: spark.conf.get(name, None) for name in PLAIN}
    for name, value in PLAIN.items(): spark.conf.set(name, value)
    yield
    for name, value in before.items(): spark.conf.set(name, value) if value is not None else spark.conf.unset(name)
