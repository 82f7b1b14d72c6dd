"""The command line: quick help, and one line for what the operator must mend."""

import subprocess
import sys
from types import ModuleType

import pytest

from cli import main as cli_main
from eventstore.embedded.engine import DataDirectoryInUse
from eventstore.settings import Settings
from eventstore.support.timing import Timing

HEAVY = ("api", "asyncio", "jsonschema_rs", "pydantic", "redis", "starlette", "uvicorn")
LOADED = """
import sys
from cli.main import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def layby(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from cli.main import main; main()", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )


def loaded(*arguments: str) -> set[str]:
    """The modules that a command has imported when it ends."""
    done = subprocess.run([sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["serve", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    assert loaded(*arguments) & set(HEAVY) == set()


def test_the_list_of_commands_loads_none_of_them() -> None:
    assert loaded("--help") & {"cli.common", *(place.module for place in cli_main.COMMANDS.values())} == set()


def test_help_lists_every_command() -> None:
    done = layby("--help")
    for name in cli_main.COMMANDS:
        assert f"  {name} " in done.stdout


@pytest.mark.parametrize("name", sorted(cli_main.COMMANDS))
def test_every_command_has_help_that_begins_as_the_list_says(name: str) -> None:
    done = layby(name, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Usage: layby {name}")
    assert cli_main.COMMANDS[name].summary.rstrip(".") in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    "option", ["host", "port", "data-dir", "redis-url", "default-expiry-ms", "max-expiry-ms", "durability"]
)
def test_serve_names_the_variable_of_each_option(option: str) -> None:
    words = " ".join(layby("serve", "--help").stdout.split())
    assert f"--{option} " in words
    assert f"[env: LAYBY_{option.replace('-', '_').upper()}]" in words


def test_a_wrong_value_is_one_line_and_exit_code_2() -> None:
    done = layby("serve", "--port", "many")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "layby: --port is 'many'; it must be a whole number from 0 (any free port) to 65535\n"


COMMANDS = [
    ("serve", "--port", "0"),
    ("keys", "list"),
    ("keys", "create", "--name", "a", "--scopes", "read"),
    ("keys", "revoke", "--name", "a"),
    ("verify",),
    ("rebuild",),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://:secret@127.0.0.1:port", "a port is a number from 1 to 65535"),
        ("redis://:secret@127.0.0.1/abc", "must be a whole number"),
        ("redis+cluster://:secret@127.0.0.1?foo=bar", "has no option foo"),
        ("redis+sentinel://:secret@127.0.0.1/main?socket_timeout=x", "seconds, more than 0"),
    ],
)
def test_a_url_that_cannot_be_read_is_one_line(command: tuple[str, ...], url: str, words: str) -> None:
    done = layby(*command, "--redis-url", url)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("layby: ") and words in line and "secret" not in line


@pytest.mark.parametrize("command", [(), ("keys",)])
def test_alone_it_shows_its_help(command: tuple[str, ...]) -> None:
    bare, asked = layby(*command), layby(*command, "--help")
    assert (bare.returncode, bare.stdout, bare.stderr) == (2, "", asked.stdout)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_option_given_twice_is_refused(command: tuple[str, ...]) -> None:
    done = layby(*command, "--data-dir", "/nowhere/a", "--data-dir=/nowhere/b")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("layby: --data-dir is given 2 times; give it once; see layby ")


@pytest.mark.parametrize("command", [command for command in COMMANDS if command[0] in ("keys", "verify")], ids=" ".join)
def test_a_tenant_that_none_can_be_is_refused(command: tuple[str, ...]) -> None:
    done = layby(*command, "--tenant", "bad t", "--data-dir", "/nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Invalid value for '--tenant': 'bad t' is no tenant" in done.stderr and done.stderr.count("\n") == 1


def test_an_unknown_command_is_exit_code_2() -> None:
    assert layby("fly").returncode == 2


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A stand-in for the server, to judge the command alone."""
    server = ModuleType("api.server.process")
    monkeypatch.setitem(sys.modules, "api.server.process", server)
    return server


def exit_code(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr(sys, "argv", ["layby", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli_main.main()
    return ended.value.code


def test_serve_passes_on_the_settings_and_the_exit_code(served: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Settings] = []

    def run(settings: Settings, timing: Timing) -> int:
        seen.append(settings)
        return 7

    monkeypatch.setattr(served, "run", run, raising=False)
    assert exit_code(monkeypatch, "serve", "--port", "9", "--durability", "replicated:1") == 7
    assert (seen[0].port, str(seen[0].durability)) == (9, "replicated:1")


def test_engine_trouble_is_one_line_and_exit_code_2(
    served: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(settings: Settings, timing: Timing) -> int:
        raise DataDirectoryInUse("the directory is taken")

    monkeypatch.setattr(served, "run", run, raising=False)
    assert exit_code(monkeypatch, "serve") == 2
    assert capsys.readouterr().err == "layby: the directory is taken\n"


def test_ctrl_c_is_quiet(
    served: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(settings: Settings, timing: Timing) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(served, "run", run, raising=False)
    assert exit_code(monkeypatch, "serve") == 130
    shown = capsys.readouterr()
    assert (shown.out + shown.err).strip() == ""
