"""Names that sources may have: of columns, of schemas and tables, and the few column names that are refused in words."""
from __future__ import annotations

COLUMNS = (  # every one may stand beside every other in one table
    "Name", "größe", "straße", "naïve 名前", "😀", "e\u0301", "é",
    "a", "a.b", "a.b.c", ".", "..", ".hidden", "x`y", "`", "``", 'say "hi"', '"', "it's", "'", "back\\slash", "\\",
    "unit price", " leading", "trailing ", " ", "two  blanks", "tab\there", "line\nbreak", "a/b", "/", "//", "a=b", "=", "50%", "%2F", "%", "%s", "{}", "{0}",
    "a,b", "a;b", "a:b", "(x)", "[0]", "element[0]", "<t>", "*", "?", "a|b", "#1", "$x", "@y", "a&b", "a+b", "~", "^", "!", "-", "-1", "0", "1e3",
    "_", "_id", "__", "_1", "_metadata", "_c0", "cdc_file", "cdc_", "_cdc", "_CDCX",
    "file_name", "row_index", "file_path", "value", "count", "n", "key", "place", "file", "row", "group", "kind", "done", "id2",
    "select", "from", "order", "group by", "user", "table", "null", "None", "true", "timestamp", "date", "default", "interval '1' day", "cast(a as int)",
    "c0", "k0", "x" * 255, "ü" * 120, "Op ", " Op", "Op1",
)
KEYS = ("Id", "a.b", "x`y", "_metadata", "größe", "unit price", "select", "50%", "a=b", "a/b", 'say "hi"', "it's", "😀", "%2F")  # together a table's key
PARTITIONS = ("Day", "a.b", "x`y", "_metadata", "größe", "unit price", "select", "50%", "a=b", "a/b", 'say "hi"', "_x", ".x", "😀", "%2F")  # together the layout of a lake

REFUSED = (  # of a column; what the words must say
    "_cdc_file", "_cdc_row", "_cdc_name", "_cdc_write", "_cdc_", "_CDC_FILE", "_Cdc_order", "_cdc_anything",
    "_tmp_metadata_row_index",  # Spark's own
)
TWICE = ("Op", "name", "größe", "a.b")  # refused where a file has two columns of this name

TABLES = (  # schema, table: folders that DMS may make
    ("public", "_prisma_migrations"), ("public", ".x"), ("_private", "t"), (".schema", "t"), ("x.y", "z"), ("x", "y.z"), ("x.y", "z.w"), ("Shop", "Item"), ("shop", "ITEM"), ("shop", "item"),
    ("my shop", "line items"), ("größe", "straße"), ("shop", "😀"), ("shop", "50%"), ("shop", "%2F"), ("shop", "a%2Fb"), ("shop", "#1"), ("shop", "a#b"), ("shop", "a+b"), ("shop", "a=b"), ("shop", "x=1"),
    ("shop", "it's"), ("shop", 'say "hi"'), ("shop", "x`y"), ("shop", "a*b?"), ("shop", "[0]"), ("shop", "{x}"), ("shop", "back\\slash"), ("shop", "$x"), ("shop", "a;b"), ("shop", "a,b"), ("shop", "-t"),
    ("shop", "a:b"), ("shop", "select"), ("shop", "table"), ("shop", "_"), ("shop", "__"), ("shop", "t" * 120), ("0", "1"), ("true", "null"), ("shop", "LOAD00000001"), ("shop", "20181215-100000000"),
    ("_dmscdc_", "t"), ("shop", "aside"), ("shop", "journal"),
)
