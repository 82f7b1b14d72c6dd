"""`layby demo` as a person meets it: it parks, prints commands that work as they are, and goes on."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

QUICK = "from cli.main import main; from eventstore.support.timing import Timing; main(Timing({}))"
LAYBY = [sys.executable, "-c", QUICK.format("demo_step_s=0.02, demo_decision_s=0.02")]
COMMAND = re.compile(r"^  ((?=curl|layby|env|/)(?:.*\\\n)*.*)", re.MULTILINE)
WIDTH = 80


class Demo:
    """A demo that was started, and what it has printed so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.told = ""

    def until(self, words: str) -> str:
        """Read on to the line that begins with these words; gives what came before it."""
        assert self.process.stdout
        told = ""
        for line in self.process.stdout:
            told += line
            if line.startswith(words):
                self.told += told
                return told
        raise AssertionError(f"never said {words!r}:\n{self.told}{told}")

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(20)


@contextmanager
def demo(*options: str) -> Iterator[Demo]:
    command = [*LAYBY, "demo", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with process:
        try:
            yield Demo(process)
        finally:
            process.terminate()


@pytest.fixture(autouse=True)
def whoever_runs_the_tests_may_be_hung_up() -> Iterator[None]:
    """What is ignored here, as under nohup or in a shell's background, would be ignored by every demo too."""
    heeded = {signal.SIGHUP: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    before = {each: signal.signal(each, handler) for each, handler in heeded.items()}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


def layby(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*LAYBY, *arguments], capture_output=True, text=True, timeout=60)


def shell(command: str) -> str:
    """What a printed command gives, run as it stands."""
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def printed(told: str) -> list[str]:
    """The commands that a person may copy."""
    return COMMAND.findall(told)


def test_auto_ends_with_a_completed_and_verified_session(tmp_path: Path) -> None:
    done = layby("demo", "--auto", "--data-dir", str(tmp_path / "data"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"input\.completed +approve, by demo\n", done.stdout)
    assert re.search(r"session\.completed\n", done.stdout)
    session_id = re.search(r"^  layby verify (demo-\w+) ", done.stdout, re.MULTILINE)
    assert session_id, done.stdout
    again = layby("verify", session_id[1], "--data-dir", str(tmp_path / "data"))
    assert (again.returncode, again.stdout) == (0, "1 session, 17 events: intact\n"), again.stderr
    assert done.stdout.endswith(again.stdout)


def test_it_waits_for_a_person_and_goes_on() -> None:
    with demo() as playing:
        told = playing.until("Waiting for you")
        assert re.search(r"session\.waiting +parked\n", told)
        approve, edit, reject = printed(told)
        answer = json.loads(shell(edit))
        assert answer["outcome"] == "applied"
        assert "call-already-decided" in shell(reject)
        assert "call-already-decided" in shell(approve)
        assert re.search(r"input\.completed +approve, by anna, with ", playing.until(" 17 "))
        assert re.search(r'action\.result +\{"refunded": 20\}\n', playing.told)
        log, past, check = printed(playing.until("Check that nobody") + playing.until("  "))
        assert shell(log).count("\n") == 17
        assert json.loads(shell(past))["parked"] is True
        assert shell(check) == "1 session, 17 events: intact\n"
        assert playing.interrupt() == 0
    assert max(map(len, playing.told.split("Check that")[0].splitlines())) <= WIDTH


@pytest.mark.parametrize(("number", "ends"), [(0, r'"amount": 49\.9|49\.9 refunded'), (2, "may not refund")])
def test_either_decision_leads_to_an_end(number: int, ends: str) -> None:
    with demo() as playing:
        shell(printed(playing.until("Waiting for you"))[number])
        assert re.search(ends, playing.until(" 14 ") + playing.until("The session is complete"))


def test_ctrl_c_is_quiet() -> None:
    with demo() as playing:
        playing.until("Waiting for you")
        assert playing.interrupt() == 130
        assert playing.process.stdout and playing.process.stdout.read().strip() == ""


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_it_takes_everything_along(number: signal.Signals) -> None:
    with demo() as playing:
        url, data = places(playing.until("Waiting for you"))
        playing.process.send_signal(number)
        playing.process.send_signal(number)
        assert playing.process.wait(20) == 130
    assert not data.exists()
    assert not listens(url)


def test_its_server_ends_when_it_is_killed(eventually: Callable[[Callable[[], object]], None]) -> None:
    with demo() as playing:
        url, data = places(playing.until("Waiting for you"))
        engine = int((data / "engine.lock").read_text())
        playing.process.kill()
        assert playing.process.wait(20) == -signal.SIGKILL
    eventually(lambda: not listens(url))
    eventually(lambda: not runs(engine))
    shutil.rmtree(data)


def places(told: str) -> tuple[str, Path]:
    """Where a demo's server listens, and its data."""
    found = re.search(r"server  (\S+)\n +data +(\S+)\n", told)
    assert found, told
    return found[1], Path(found[2])


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def listens(url: str) -> bool:
    host, _, port = url.removeprefix("http://").partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        return False
    return True


def test_a_port_in_use_is_one_line(server) -> None:
    port = server.url.rpartition(":")[2]
    done = layby("demo", "--port", port)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"layby: port {port} on 127.0.0.1 is in use")
    assert done.stderr.count("\n") == 1


def test_it_leaves_the_redis_of_the_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAYBY_REDIS_URL", "redis://127.0.0.1:1")
    done = layby("demo", "--auto")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("1 session, 17 events: intact\n")
