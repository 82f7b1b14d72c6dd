"""A process that holds an embedded engine until it is killed or its stdin closes. Run by test_embedded.py.

    python engine_holder.py <data directory> [watcher]

Prints the engine's URL once it runs. With `watcher`, the engine is tied to this process as on macOS.
"""

import asyncio
import signal
import sys
from pathlib import Path

from eventstore.embedded import process
from eventstore.embedded.engine import EmbeddedEngine, EngineError


async def hold(data_dir: Path) -> None:
    engine = EmbeddedEngine(data_dir)
    sys.stdout.write(await engine.start() + "\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await engine.stop()


if __name__ == "__main__":
    # Signals to the whole group are the engine's test, not this process's.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    process.NEEDS_WATCHER = process.NEEDS_WATCHER or "watcher" in sys.argv
    try:
        asyncio.run(hold(Path(sys.argv[1])))
    except EngineError as error:
        sys.exit(str(error))
