"""A pass in an application that spark-submit starts: inside.py OPTIONS OF dmscdc pass"""
import sys

from dmscdc.cli.main import pass_inside

raise SystemExit(pass_inside(*sys.argv[1:]))
