"""Become the engine: this runs first in the engine's process, which then turns into the server binary.

    python -I -S launcher.py <server's pid> <lifeline> <binary> [argument…]

`lifeline` is the read end of a pipe whose other end only the Layby server holds, or -1 where the kernel can
tell a child that its parent is gone (Linux). Standard library only: nothing else can be imported here.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
HIGHEST_FD = 1024


def main() -> None:
    server, lifeline, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    os.umask(0o077)
    # A Ctrl-C, or a service manager's SIGTERM, reaches the whole process group. The server answers it, and
    # still needs the engine to finish what is in flight. A blocked signal stays blocked in the binary.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    if lifeline < 0:
        die_with_parent()
    else:
        watch(lifeline)
    if os.getppid() != server:  # it died before the arrangement stood
        sys.exit("the server is gone")
    os.execv(command[0], command)


def die_with_parent() -> None:
    """Let the kernel kill this process when the thread that started it ends. Survives exec."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")


def watch(lifeline: int) -> None:
    """Leave a child behind that kills this process once the server's end of the pipe closes."""
    engine = os.getpid()
    if os.fork():
        os.close(lifeline)
        return
    # The engine's lock must go with the engine, not with its watcher.
    os.closerange(3, lifeline)
    os.closerange(lifeline + 1, HIGHEST_FD)
    os.read(lifeline, 1)
    if os.getppid() == engine:  # else it is gone already, and its pid may be somebody else's
        os.kill(engine, signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    main()
