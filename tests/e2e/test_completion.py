"""Completion: the shells' own functions, run by the shells, with the words of a command line in front of the cursor."""

import json
import shutil
import subprocess

import pytest

from harness import SHORT, SOURCE, ZCCTL, environment

pytestmark = pytest.mark.native

SCRIPTS = SOURCE / "etc" / "completion"
BASH = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_zcctl "$1"
printf '%s\\n' "${COMPREPLY[@]}"
"""
# compadd only works within the line editor: it prints what it was given.
ZSH = """
compadd() { print -rl -- $candidates }
compset() { }
_files() { print -r -- :files }
script=$1
shift
words=("$@")
CURRENT=$#
source $script
"""


def bash(*words):
    return shell(["bash", "--norc", "-c", BASH, "bash", SCRIPTS / "zcctl.bash"], words)


def zsh(*words):
    if not shutil.which("zsh"):
        pytest.skip("zsh is not installed")
    return shell(["zsh", "-f", "-c", ZSH, "zsh", SCRIPTS / "_zcctl"], words)


def shell(command, words):
    done = subprocess.run([*map(str, command), str(ZCCTL), *words], env=environment(), stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, timeout=60)
    assert done.stderr == "", done.stderr
    return [line for line in done.stdout.splitlines() if line]


@pytest.fixture(scope="module")
def run(daemon):
    return daemon.run(*SHORT, "--skip-latency", peer=daemon.address)


def strategies(prefix=""):
    rows = json.loads(subprocess.run([ZCCTL, "--json", "strategies"], capture_output=True, check=True).stdout)["strategies"]
    return [row["name"] for row in rows if row["name"].startswith(prefix)]


@pytest.mark.parametrize("complete", [bash, zsh])
def test_from_the_tables(complete):
    """No daemon is needed for these."""
    assert complete("vers") == ["version"]
    assert {"run", "results", "stats"} <= set(complete(""))
    assert complete("run", "--skip-v") == ["--skip-validation"]
    assert complete("--json", "run", "--strategy", "copy") == strategies("copy")
    assert set(complete("run", "--size", "1M", "--strategy", "")) == {"all", *strategies()}
    assert complete("run", "--wait", "") == ["poll", "event"]
    assert complete("results", "g") == ["get"]
    assert complete("run", "--no-such-option", "x") == []
    options = {line.split()[0] for line in subprocess.run([ZCCTL, "run", "--help"], capture_output=True, text=True).stdout.splitlines()
               if line.startswith("      --")}
    assert options <= set(complete("run", "--")), "every option that help names"


@pytest.mark.parametrize("complete", [bash, zsh])
def test_from_the_daemon(complete, daemon, run):
    socket = ("--socket", str(daemon.socket))
    assert complete(*socket, "results", "get", run["id"][:4]) == [run["id"]]
    assert complete(*socket, "results", "get", run["id"], "") == [], "get takes one"
    assert complete(*socket, "results", "delete", run["id"], "") == [run["id"]]
    assert set(complete(*socket, "run", "--peer", "")) == {"self", daemon.address}
    assert complete("--socket", "/no/such/socket", "results", "get", "") == []
    assert complete(*socket, "run", "--device", "") != []


def test_words_that_bash_splits(daemon, run):
    """At '=' and ':'; only what stands behind them is replaced."""
    host, port = daemon.address.rsplit(":", 1)
    assert bash("run", "--strategy", "=", "ideal_b") == ["ideal_blocking"]
    assert bash("run", "--strategy", "=") == ["all", *strategies()]
    assert bash("--socket", "=", str(daemon.socket), "run", "--peer", host, ":", port[:1]) == [port]


def test_whole_words_in_zsh(daemon):
    assert zsh("run", "--strategy=ideal_b") == ["--strategy=ideal_blocking"]
    assert zsh("results", "get", "x", "--output=") == [":files"]


def test_files(tmp_path):
    (tmp_path / "one.json").touch()
    assert bash("results", "get", "x", "-o", str(tmp_path / "on")) == [str(tmp_path / "one.json")]
    assert bash("results", "get", "x", "--output", "=", str(tmp_path / "on")) == [str(tmp_path / "one.json")]


def test_sweeps_as_values(daemon, run):
    """Sweeps, and not runs; bash replaces what stands behind the colon."""
    identifier = "20260102T030405Z-sweep-0001"
    (daemon.state / "results" / f"{identifier}.json").write_text(json.dumps({"id": identifier, "kind": "sweep", "schema_version": 1}))
    words = ("--socket", str(daemon.socket), "run", "--threshold")
    assert zsh(*words, "") == zsh(*words, "sweep:2026") == [f"sweep:{identifier}"]
    assert bash(*words, "sweep", ":", "2026") == [identifier]
    assert bash(*words, "64K") == []
    daemon.zcctl("results", "delete", identifier)
