"""The embedded engine: durable, alone on its directory, and never longer alive than its server."""

import asyncio
import contextlib
import errno
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TypeVar

import pytest
from redis import Redis
from redis.exceptions import RedisError

from eventstore.embedded.data_directory import DataDirectory, Lock
from eventstore.embedded.engine import DataDirectoryInUse, EmbeddedEngine, EngineError, engine_url
from eventstore.embedded.process import last_words
from tests.integration.stores import chosen

HOLDER = Path(__file__).with_name("engine_holder.py")
PATIENCE_S = 20

T = TypeVar("T")


class Holder:
    """A process with an engine, leader of a process group of its own."""

    def __init__(self, data_dir: Path, *options: str) -> None:
        self.data_dir = data_dir
        self.process = subprocess.Popen(
            [sys.executable, HOLDER, data_dir, *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, start_new_session=True,
        )  # fmt: skip
        assert self.process.stdout
        self.url = self.process.stdout.readline().strip()

    @property
    def engine_pid(self) -> int:
        return int(Lock(self.data_dir / "engine.lock").holder())

    def kill(self) -> None:
        """End this process alone, as the out-of-memory killer would."""
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def hold() -> Generator[Callable[..., Holder], None, None]:
    holders: list[Holder] = []

    def start(data_dir: Path, *options: str) -> Holder:
        holders.append(Holder(data_dir, *options))
        assert holders[-1].url, holders[-1].process.communicate()[1]
        return holders[-1]

    yield start
    for holder in holders:
        holder.end()


def eventually(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def engine_gone(data_dir: Path) -> bool:
    """Judged by its lock: a pid may linger until somebody collects it."""
    lock = Lock(data_dir / "engine.lock")
    free = lock.acquire()
    lock.close()
    return free


def answers(url: str) -> bool:
    try:
        with Redis.from_url(url) as redis:
            return bool(redis.ping())
    except RedisError:
        return False


def with_engine(data_dir: Path, use: Callable[[Redis], T]) -> T:
    async def run() -> T:
        engine = EmbeddedEngine(data_dir)
        url = await engine.start()
        try:
            with Redis.from_url(url, decode_responses=True) as redis:
                return use(redis)
        finally:
            await engine.stop()

    return asyncio.run(run())


def test_what_was_written_is_there_after_a_restart(tmp_path: Path) -> None:
    with_engine(tmp_path / "data", lambda redis: redis.set("word", "kept"))
    assert with_engine(tmp_path / "data", lambda redis: redis.get("word")) == "kept"


def test_it_is_set_up_to_lose_nothing_and_to_be_reached_by_its_owner_alone(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"

    def look(redis: Redis) -> None:
        config = redis.config_get("*")
        assert (config["appendonly"], config["appendfsync"], config["save"]) == ("yes", "always", "")
        assert (config["hash-max-listpack-entries"], config["hash-max-listpack-value"]) == ("16", "2048")
        assert config["maxmemory-policy"] == "noeviction"
        assert config["port"] == "0"
        assert set(config["notify-keyspace-events"] or "") == set("Ex")
        assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in data_dir.rglob("*"))

    with_engine(data_dir, look)
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700


def test_a_stopped_engine_leaves_no_process_and_no_address(tmp_path: Path) -> None:
    with_engine(tmp_path, lambda redis: redis.ping())
    assert engine_gone(tmp_path)
    assert not (tmp_path / "engine.address").exists()
    assert not (tmp_path / "engine.sock").exists()


@pytest.mark.parametrize("name", ["with space", "hash # and ?", "ümlaut", "quote \" and '"])
def test_any_directory_name_will_do(tmp_path: Path, name: str) -> None:
    assert with_engine(tmp_path / name, lambda redis: redis.ping())


def test_a_path_too_long_for_a_socket_gets_one_elsewhere(tmp_path: Path, hold: Callable[..., Holder]) -> None:
    data_dir = tmp_path / ("d" * 60) / ("e" * 60)
    holder = hold(data_dir)
    socket = Path((data_dir / "engine.address").read_text())
    assert not socket.is_relative_to(data_dir)
    assert len(os.fsencode(socket)) < 104
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
    assert answers(holder.url)
    holder.process.communicate()
    assert not socket.parent.exists()


def test_a_second_server_is_refused_and_told_who_has_the_directory(tmp_path: Path, hold: Callable[..., Holder]) -> None:
    holder = hold(tmp_path)
    began = time.monotonic()
    with pytest.raises(DataDirectoryInUse, match=rf"in use by process {holder.process.pid}\b"):
        with_engine(tmp_path, lambda redis: redis.ping())
    assert time.monotonic() - began < 5
    assert answers(holder.url)


@pytest.mark.parametrize("options", [(), ("watcher",)], ids=["this system's way", "with a watcher"])
def test_the_engine_dies_when_its_server_alone_is_killed(
    tmp_path: Path, hold: Callable[..., Holder], options: tuple[str, ...]
) -> None:
    holder = hold(tmp_path, *options)
    assert os.getpgid(holder.engine_pid) == holder.process.pid
    holder.kill()
    eventually(lambda: engine_gone(tmp_path))


@pytest.mark.parametrize("options", [(), ("watcher",)], ids=["this system's way", "with a watcher"])
def test_a_server_may_start_right_after_the_last_one_was_killed(
    tmp_path: Path, hold: Callable[..., Holder], options: tuple[str, ...]
) -> None:
    for count in range(1, 5):
        holder = hold(tmp_path, *options)
        with Redis.from_url(holder.url) as redis:
            assert redis.incr("starts") == count
        holder.process.kill()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_whole_group_leaves_the_engine_to_its_server(
    tmp_path: Path, hold: Callable[..., Holder], sent: signal.Signals
) -> None:
    holder = hold(tmp_path)
    engine = holder.engine_pid
    with Redis.from_url(holder.url) as redis:
        os.killpg(holder.process.pid, sent)
        # The engine would act on a signal at its next tick: let it tick a few times.
        redis.blpop(["nothing"], timeout=0.5)
        assert redis.info("server")["process_id"] == engine
    holder.process.communicate()
    assert holder.process.returncode == 0
    assert engine_gone(tmp_path)


@pytest.mark.parametrize("options", [(), ("watcher",)], ids=["this system's way", "with a watcher"])
def test_an_engine_that_dies_is_started_again_with_its_data(
    tmp_path: Path, hold: Callable[..., Holder], options: tuple[str, ...]
) -> None:
    holder = hold(tmp_path, *options)
    with Redis.from_url(holder.url, decode_responses=True) as redis:
        redis.set("word", "kept")
    for _ in range(2):
        dead = holder.engine_pid
        os.kill(dead, signal.SIGKILL)
        eventually(lambda dead=dead: holder.engine_pid != dead and answers(holder.url))
    with Redis.from_url(holder.url, decode_responses=True) as redis:
        assert redis.get("word") == "kept"


def newest_log(data_dir: Path) -> Path:
    return next((data_dir / "appendonlydir").glob("*.incr.aof"))


def test_a_commit_cut_off_in_the_middle_is_dropped_and_the_rest_loads(tmp_path: Path) -> None:
    with_engine(tmp_path, lambda redis: (redis.set("first", "whole"), redis.set("second", "cut")))
    log = newest_log(tmp_path)
    os.truncate(log, log.stat().st_size - 3)
    assert with_engine(tmp_path, lambda redis: redis.mget("first", "second")) == ["whole", None]


def test_data_that_cannot_be_read_are_one_clear_sentence(tmp_path: Path) -> None:
    with_engine(tmp_path, lambda redis: [redis.set(f"key-{n}", "value") for n in range(10)])
    log = newest_log(tmp_path)
    whole = log.read_bytes()
    log.write_bytes(whole[:100] + b"scribble" + whole[108:])
    with pytest.raises(EngineError, match=r"cannot load its data.*valkey-check-aof --fix.*engine\.log") as error:
        with_engine(tmp_path, lambda redis: redis.ping())
    assert "\n" not in str(error.value)
    log.write_bytes(whole)
    assert with_engine(tmp_path, lambda redis: redis.dbsize()) == 10


def test_a_data_directory_that_is_a_file_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(EngineError, match="cannot be made"):
        with_engine(tmp_path / "file", lambda redis: redis.ping())
    assert (tmp_path / "file").read_text() == "mine"


def test_a_command_shares_the_engine_of_a_running_server(tmp_path: Path, hold: Callable[..., Holder]) -> None:
    holder = hold(tmp_path)

    async def run() -> str:
        async with engine_url(chosen(data_dir=tmp_path, redis_url=None), share=True) as url:
            return url

    assert asyncio.run(run()) == holder.url
    assert answers(holder.url)


def test_a_command_alone_has_an_engine_for_as_long_as_it_runs(tmp_path: Path) -> None:
    with_engine(tmp_path, lambda redis: redis.set("word", "kept"))

    async def run() -> object:
        async with engine_url(chosen(data_dir=tmp_path, redis_url=None), share=True) as url:
            with Redis.from_url(url, decode_responses=True) as redis:
                return redis.get("word")

    assert asyncio.run(run()) == "kept"
    assert engine_gone(tmp_path)


def test_a_command_makes_no_data_directory(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine_url(chosen(data_dir=tmp_path / "typo", redis_url=None), share=True):
            pass

    with pytest.raises(EngineError, match=r"no Layby data in .*typo"):
        asyncio.run(run())
    assert not (tmp_path / "typo").exists()


def test_a_named_redis_is_used_as_it_is(tmp_path: Path) -> None:
    async def run() -> str:
        settings = chosen(data_dir=tmp_path / "data", redis_url="redis://there:1/2")
        async with engine_url(settings) as url:
            return url

    assert asyncio.run(run()) == "redis://there:1/2"
    assert not (tmp_path / "data").exists()


def test_other_work_is_done_while_the_engine_starts(tmp_path: Path) -> None:
    runs: list[bool] = []

    async def run() -> None:
        settings = chosen(data_dir=tmp_path, redis_url=None)
        async with engine_url(settings, meanwhile=lambda: runs.append(not engine_gone(tmp_path))):
            assert runs == [True]

    asyncio.run(run())
    assert engine_gone(tmp_path)


def test_other_work_that_fails_leaves_no_engine_behind(tmp_path: Path) -> None:
    def fail() -> None:
        raise ImportError("half installed")

    async def run() -> None:
        async with engine_url(chosen(data_dir=tmp_path, redis_url=None), meanwhile=fail):
            pass

    with pytest.raises(ImportError, match="half installed"):
        asyncio.run(run())
    assert engine_gone(tmp_path)


def test_other_work_is_done_where_a_redis_is_named(tmp_path: Path) -> None:
    done: list[str] = []

    async def run() -> None:
        async with engine_url(chosen(redis_url="redis://there:1/2"), meanwhile=lambda: done.append("")):
            assert done

    asyncio.run(run())


def test_an_engine_that_hangs_is_ended_at_once(tmp_path: Path) -> None:
    async def run() -> float:
        engine = EmbeddedEngine(tmp_path)
        await engine.start()
        os.kill(int(Lock(tmp_path / "engine.lock").holder()), signal.SIGSTOP)
        began = time.monotonic()
        await engine.stop()
        return time.monotonic() - began

    assert asyncio.run(run()) < 2
    assert engine_gone(tmp_path)


def test_a_command_does_not_wait_for_ever_for_an_engine_that_hangs(
    tmp_path: Path, hold: Callable[..., Holder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventstore.embedded.engine.UNANSWERED_S", 1.5)
    holder = hold(tmp_path)
    os.kill(holder.engine_pid, signal.SIGSTOP)

    async def run() -> None:
        async with engine_url(chosen(data_dir=tmp_path, redis_url=None), share=True):
            pass

    with pytest.raises(EngineError, match=rf"process {holder.process.pid}, has .*its engine does not answer"):
        asyncio.run(run())


def test_a_command_waits_for_an_engine_that_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventstore.embedded.engine.UNANSWERED_S", 0.3)
    answers_left = ["-LOADING Valkey is loading the dataset in memory"] * 10

    async def loading(socket: Path, command: str) -> str:
        return answers_left.pop() if answers_left else "+PONG"

    monkeypatch.setattr("eventstore.embedded.engine.ask", loading)
    directory = DataDirectory(tmp_path)
    assert directory.server_lock.acquire()
    socket = directory.place_socket()

    async def run() -> str:
        async with engine_url(chosen(data_dir=tmp_path, redis_url=None), share=True) as url:
            return url

    assert asyncio.run(run()).endswith(socket.name)
    directory.server_lock.close()


def test_a_start_that_fails_half_way_leaves_no_engine_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = Lock.name_holder

    def no_room(lock: Lock, pid: int) -> None:
        if lock.path.name == "engine.lock":
            raise OSError(errno.ENOSPC, "No space left on device")
        named(lock, pid)

    async def start_twice() -> None:
        engine = EmbeddedEngine(tmp_path)
        with monkeypatch.context() as full, pytest.raises(EngineError, match="No space left on device"):
            full.setattr(Lock, "name_holder", no_room)
            await engine.start()
        await engine.start()
        await engine.stop()

    asyncio.run(start_twice())


def test_a_shorter_pid_replaces_a_longer_one(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "engine.lock")
    assert lock.acquire()
    for pid in (1234567, 89):
        lock.name_holder(pid)
        assert lock.holder() == str(pid)
    lock.close()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("1:M 1 Jan 2026 00:00:00.000 # Short write while writing to the AOF file: (nwritten=1, expected=2)", True),
        ("1:M 1 Jan 2026 00:00:00.000 # Can't recover from AOF write error when the policy is always", True),
        ("1:M 1 Jan 2026 00:00:00.000 * Ready to accept connections unix", False),
        ("", False),
    ],
)
def test_an_operator_hears_of_a_disk_without_room(tmp_path: Path, said: str, told: bool) -> None:
    directory = DataDirectory(tmp_path)
    directory.log.write_text(f"{'.' * 2_000}\n{said}\n")
    assert ("has room" in last_words(directory)) is told


def test_an_engine_whose_log_is_gone_says_nothing(tmp_path: Path) -> None:
    assert last_words(DataDirectory(tmp_path)) == ""
