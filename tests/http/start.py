"""Runs a server with a heartbeat that tests need not wait for: start.py HEARTBEAT_S NAME=VALUE…"""

import sys

from api.server.process import run
from eventstore.settings import load_settings

sys.exit(run(load_settings(dict(item.split("=", 1) for item in sys.argv[2:])), heartbeat_s=float(sys.argv[1])))
