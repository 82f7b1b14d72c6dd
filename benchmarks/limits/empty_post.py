"""The same uvicorn with an empty POST route: reads the body, answers 201, and does nothing else.

python -m benchmarks.limits.empty_post PORT
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import urllib.request
from collections.abc import Generator

from proofs.engines import eventually, free_port

PATH = "/v1/sessions/s/events"


@contextlib.contextmanager
def running() -> Generator[int]:
    """Its port, for as long as the block lasts."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.limits.empty_post", str(port)])
    try:
        eventually(lambda: _answers(port), f"the empty route answers on port {port}")
        yield port
    finally:
        process.terminate()
        process.wait(10)


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2):
        return True
    return False


def main(port: int) -> None:
    import uvicorn
    import uvloop
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def empty(request: Request) -> Response:
        await request.body()
        return Response(b"", 201)

    async def alive(_: Request) -> Response:
        return Response(b"")

    routes = [Route("/v1/sessions/{session_id}/events", empty, methods=["POST"]), Route("/", alive)]
    config = uvicorn.Config(
        Starlette(routes=routes), port=port, http="httptools", ws="none", lifespan="off", access_log=False,
        log_level="critical", server_header=False, proxy_headers=False,
    )  # fmt: skip
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(uvicorn.Server(config).serve())


if __name__ == "__main__":
    main(int(sys.argv[1]))
