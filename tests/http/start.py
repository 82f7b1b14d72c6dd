"""Runs a server that waits less than Layby does elsewhere: start.py TIMING NAME=VALUE…, with TIMING as JSON."""

import json
import sys

from api.server.process import run
from eventstore.settings import load_settings
from eventstore.support.timing import Timing

settings = load_settings(dict(item.split("=", 1) for item in sys.argv[2:]))
sys.exit(run(settings, Timing(**json.loads(sys.argv[1]))))
