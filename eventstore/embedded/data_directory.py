"""The data directory: who holds it, and where its engine listens.

server.lock      held by the Layby process that owns the directory; its pid inside
engine.lock      held by the engine itself, through a descriptor it inherits; its pid inside
engine.address   the path of the engine's socket, while it runs
engine.sock      that socket, where the path is short enough
engine.log       what the engine says
appendonlydir/   the data
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from eventstore.embedded.errors import EngineError

SOCKET_PATH_BYTES = 100  # the kernel's limit is 104 on macOS, 108 on Linux
TEMPORARY = "layby-engine-"
LOG_BYTES = 16 * 1024 * 1024


class Lock:
    """A lock on a file, for as long as its descriptor is open here or in a child that inherited it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = -1

    def acquire(self) -> bool:
        """Take the lock if it is free; never waits."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except BaseException:
            os.close(descriptor)
            raise
        self.descriptor = descriptor
        return True

    def name_holder(self, pid: int) -> None:
        """Write the pid down, in the place of the last one: a full disk has room for that."""
        text = b"%d\n" % pid
        os.pwrite(self.descriptor, text, 0)
        os.ftruncate(self.descriptor, len(text))

    def holder(self) -> str:
        """The pid of the last process that took the lock, or `unknown`."""
        try:
            return self.path.read_text(encoding="ascii").strip() or "unknown"
        except (OSError, ValueError):
            return "unknown"

    def close(self) -> None:
        """Let go of this end. A child that inherited the descriptor keeps the lock."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class DataDirectory:
    """One data directory and the files in it that are not the data."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.log = self.path / "engine.log"
        self.server_lock = Lock(self.path / "server.lock")
        self.engine_lock = Lock(self.path / "engine.lock")
        self._address = self.path / "engine.address"

    def create(self) -> None:
        """Make the directory, for its owner alone. One that exists keeps the mode it was given."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise EngineError(f"the data directory {self.path} cannot be made: {error.strerror}") from error

    def has_data(self) -> bool:
        return (self.path / "appendonlydir").is_dir() or self.server_lock.path.exists()

    def place_socket(self) -> Path:
        """Choose the socket's path and record it. What an earlier engine left behind is cleared away."""
        self.clear_address()
        socket = self.path / "engine.sock"
        if not _fits(socket):
            socket = Path(tempfile.mkdtemp(prefix=TEMPORARY)) / "engine.sock"
        if not _fits(socket):  # TMPDIR itself is too deep
            socket.parent.rmdir()
            socket = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir="/tmp")) / "engine.sock"
        self._record(socket)
        return socket

    def _record(self, socket: Path) -> None:
        draft = self._address.with_suffix(".new")
        draft.touch(mode=0o600)
        draft.write_bytes(os.fsencode(socket))
        draft.replace(self._address)  # at once, for a command that looks just now

    def socket(self) -> Path | None:
        """Where the running engine listens, if one was recorded."""
        try:
            return Path(os.fsdecode(self._address.read_bytes()))
        except FileNotFoundError:
            return None

    def clear_address(self) -> None:
        """Forget the recorded socket, and its temporary directory if it had one."""
        socket = self.socket()
        self._address.unlink(missing_ok=True)
        if socket is None:
            return
        if socket.parent == self.path:
            socket.unlink(missing_ok=True)
        elif socket.parent.name.startswith(TEMPORARY):
            shutil.rmtree(socket.parent, ignore_errors=True)

    def open_log(self) -> int:
        """A descriptor that appends to the log. A long log is first put aside, in place of the one before."""
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.old"))
        return os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _fits(socket: Path) -> bool:
    return len(os.fsencode(socket)) <= SOCKET_PATH_BYTES
