"""A pass in an application that spark-submit starts: inside.py OPTIONS OF dmscdc pass"""

import sys

from dmscdc.cli.main import inside

raise SystemExit(inside("pass", *sys.argv[1:]))
