# A pass in a job of Glue, or a stream that a job follows: the command stands behind --dmscdc.
import shlex
import sys

from dmscdc.cli.main import inside

words = sys.argv[sys.argv.index("--dmscdc") + 1]
code = inside(*shlex.split(words))
if code not in (0, 3, 4):  # 3, something needs attention, raises an alarm; 4: another run is at work
    raise SystemExit(code)
