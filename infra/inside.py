# A pass in a job of Glue, or a stream that a job follows: the command stands behind --dmscdc.
import shlex
import sys

from dmscdc.cli.main import inside

words = sys.argv[sys.argv.index("--dmscdc") + 1]
code = inside(*shlex.split(words))
if code in (1, 2):  # failed, and wrong use. 3, a person must look, is told by an alarm
    raise SystemExit(code)
