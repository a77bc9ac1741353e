# In the network of the sample's database: types a script, as the client `mysql` does, or a single statement.
import os
import ssl
from pathlib import Path

import pymysql

FILLED = "SELECT 1 FROM information_schema.routines WHERE routine_schema = 'sampledb' AND routine_name = 'loadorders'"


def statements(script):
    "The statements of a script, each without its delimiter."
    end, lines = ";", []
    for line in script.splitlines():
        if line.startswith("DELIMITER "):
            end = line.split()[1]
            continue
        lines.append(line)
        if line.endswith(end):
            yield "\n".join(lines).removesuffix(end)
            lines = []


def typed(cursor, name):
    "How many rows a script beside this file changed."
    script = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return sum(cursor.execute(statement) for statement in statements(script))


def filled(cursor):
    "The shop, once. Its procedure comes last: where it lacks, an earlier try has ended before."
    cursor.execute("CALL mysql.rds_set_configuration('binlog retention hours', 24)")
    before = cursor.execute(FILLED)
    if not before:
        cursor.execute("DROP DATABASE IF EXISTS sampledb")
        typed(cursor, "shop.sql")
    counted = []
    for table in ("store", "product", "productorder"):
        cursor.execute(f"SELECT count(*) FROM sampledb.{table}")
        counted.append(f"{cursor.fetchone()[0]} in {table}")
    return f"{'filled before' if before else 'filled'}: {', '.join(counted)}"


def handler(event, context):
    encrypted = ssl.create_default_context()  # not verified, as with --ssl-mode=REQUIRED
    encrypted.check_hostname, encrypted.verify_mode = False, ssl.CERT_NONE
    given = {"user": event["user"], "password": event["password"], "ssl": encrypted, "autocommit": True}
    try:
        db = pymysql.connect(host=os.environ["HOST"], port=int(os.environ["PORT"]), connect_timeout=20, **given)
    except pymysql.OperationalError as error:
        if error.args[0] != 2003:
            raise
        raise RuntimeError(f"{error}: do the security groups let themselves in at that port?") from None
    with db, db.cursor() as cursor:
        if event["do"] == "fill":
            return filled(cursor)
        if event["do"] == "change":
            return f"{typed(cursor, 'changes.sql')} rows changed"
        cursor.execute("USE sampledb")
        return f"{cursor.execute(event['sql'])} rows"
