"""The daemon's own life: arguments, configuration, socket, signals, stored results."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time

import pytest

from harness import DEADLINE_S, LONG, SHORT, SOURCE, ZCCTL, ZCRDMAD, one_line, wait_until

RUN = ("run", "--strategy", "copy_blocking", "--peer", "self")


def program(*arguments):
    return subprocess.run([str(a) for a in arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=DEADLINE_S)


@pytest.mark.parametrize("name", [ZCRDMAD, ZCCTL], ids=["zcrdmad", "zcctl"])
@pytest.mark.native
def test_help_and_version(name):
    for option in ("--help", "--version"):
        done = program(name, option)
        assert done.returncode == 0 and done.stderr == "" and done.stdout, (option, done)
    assert "0.1.0" in program(name, "--version").stdout
    if name == ZCRDMAD:
        for option in ("--config", "--socket", "--state-dir", "--device", "--listen", "--region-size", "--check-config"):
            assert option in program(name, "--help").stdout


@pytest.mark.parametrize("command", ["run", "stats", "sessions", "devices", "results", "version"])
@pytest.mark.native
def test_help_of_subcommands(command):
    done = program(ZCCTL, command, "--help")
    assert done.returncode == 0 and command in done.stdout and done.stderr == ""
    if command == "run":
        for option in ("--strategy", "--peer", "--size", "--warmup", "--measure", "--skip-validation", "--skip-latency",
                       "--skip-throughput", "--memory-max", "--operations-max", "--mr-size", "--validate", "--wait"):
            assert option in done.stdout, option


@pytest.mark.parametrize("command", [("stats",), ("sessions",), ("devices",), ("results", "list"), ("version",)], ids=" ".join)
@pytest.mark.native
def test_subcommands(daemon, command):
    done = daemon.zcctl(*command)
    assert done.stdout and done.stderr == ""
    assert isinstance(json.loads(daemon.zcctl("--json", *command).stdout), (dict, list))
    assert isinstance(json.loads(daemon.zcctl(*command, "--json").stdout), (dict, list)), "--json behind the command"


@pytest.mark.native
def test_second_daemon_is_refused(start, new):
    first = start()
    second = new()
    second.arguments[second.arguments.index("--socket") + 1] = first.socket
    status, line = second.refused()
    assert status == 1
    assert str(first.socket) in line, line
    first.serves()


def test_second_daemon_on_the_same_port_is_refused(start, new):
    port = start().call("stats")["listen"]["port"]
    status, line = new(listen=f"0.0.0.0:{port}").refused()
    assert status == 1
    assert str(port) in line, line


@pytest.mark.native
def test_stale_socket_is_replaced(start):
    daemon = start()
    daemon.kill()
    assert daemon.socket.exists()
    daemon.start()
    daemon.serves()


@pytest.mark.native
def test_something_else_in_place_of_the_socket(new):
    """A file that is not a socket is not ours to remove."""
    daemon = new()
    daemon.socket.write_text("precious\n")
    status, line = daemon.refused()
    assert status == 1
    assert str(daemon.socket) in line, line
    assert daemon.socket.read_text() == "precious\n"


@pytest.mark.native
def test_shipped_configuration_is_valid():
    done = program(ZCRDMAD, "--config", SOURCE / "etc" / "zcrdmad.conf", "--check-config")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("line, word", [("colour = blue", "colour"), ("region_size = huge", "region_size"), ("listen = 1.2.3.4:x", "listen"),
                                        ("nonsense without a value", "key")])
@pytest.mark.native
def test_configuration_errors_are_named(folder, line, word):
    """File, line and key."""
    file = folder / "bad.conf"
    file.write_text(f"[zcrdmad]\n{line}\n")
    done = program(ZCRDMAD, "--config", file, "--check-config")
    assert done.returncode == 2
    said = one_line(done.stderr)
    assert word in said and "bad.conf:2" in said, said


@pytest.mark.native
def test_command_line_wins_over_configuration(start, folder):
    file = folder / "own.conf"
    file.write_text(f"[zcrdmad]\nregion_size = 1M\nsocket = /nonexistent/folder/sock\n")
    daemon = start("--config", file)
    daemon.run(*SHORT, "--size", "2M")          # more than 1M: the command line said 16M


def test_terminated_mid_run(start):
    """The run is stored as cancelled, the client is told, the exit status is 0."""
    daemon = start()
    zcctl = daemon.popen(*RUN, *LONG)
    daemon.wait_running()
    daemon.stop()
    _, errors = zcctl.communicate(timeout=DEADLINE_S)
    assert zcctl.returncode in (1, 3)
    one_line(errors)
    daemon.start()
    [row] = daemon.call("result.list")["results"]
    assert row["state"] == "cancelled"
    assert daemon.call("result.get", {"id": row["id"]})["error"]["kind"] == "cancelled"


@pytest.mark.native
def test_results_survive_a_restart(start):
    daemon = start()
    kept, deleted = daemon.run(*SHORT), daemon.run(*SHORT)
    daemon.zcctl("results", "delete", deleted["id"])
    daemon.stop()
    daemon.start()
    assert json.loads(daemon.zcctl("--json", "results", "get", kept["id"]).stdout) == kept
    listed = daemon.zcctl("results", "list").stdout
    assert kept["id"] in listed and deleted["id"] not in listed
    daemon.zcctl("results", "delete", kept["id"])
    assert not daemon.call("result.list")["results"]
    assert not list(daemon.state.rglob("*.json"))


@pytest.mark.native
def test_foreign_files_in_the_store(start):
    """They are not ours, and not fatal."""
    daemon = start()
    kept = daemon.run(*SHORT)["id"]
    [place] = {path.parent for path in daemon.state.rglob("*.json")}
    (place / "broken.json").write_text('{"id": ')
    (place / "notes.txt").write_text("mine\n")
    daemon.stop()
    daemon.start()
    assert kept in daemon.zcctl("results", "list").stdout
    assert (place / "notes.txt").exists()
    daemon.serves()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGPIPE], ids=lambda s: s.name)
@pytest.mark.native
def test_other_signals(start, number):
    """SIGINT stops it as SIGTERM does; the others do not, where they mean anything at all."""
    daemon = start()
    daemon.process.send_signal(number)
    if number == signal.SIGINT:
        assert daemon.process.wait(DEADLINE_S) == 0
        assert not daemon.socket.exists()
        daemon.process = None
    elif number != signal.SIGUSR1:
        daemon.serves()
    else:
        os.kill(daemon.process.pid, signal.SIGKILL)
        daemon.process.wait()
        daemon.process = None


@pytest.mark.skipif(not shutil.which("systemd-socket-activate"), reason="systemd is not installed")
def test_socket_activation(new):
    """Somebody else listens, and goes on listening: the daemon starts with the first client, and removes nothing."""
    daemon = new()
    daemon.arguments = ["systemd-socket-activate", f"--listen={daemon.socket}", *daemon.arguments]
    daemon.launch()
    wait_until(daemon.socket.exists, "it listens")
    assert "ready" not in daemon.said()
    clients = [daemon.control() for _ in range(3)]
    for client in clients:
        assert "version" in client.call("version")
        client.close()
    daemon.serves()
    assert not daemon.socket.with_name(daemon.socket.name + ".lock").exists()
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(DEADLINE_S) == 0 and daemon.socket.exists()
    daemon.process = None


def test_notifications(start, folder):
    """What systemd is told (sd_notify(3)): ready, alive, reloading, stopping."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(folder / "notify"))
        listener.settimeout(DEADLINE_S)
        daemon = start(NOTIFY_SOCKET=str(folder / "notify"), WATCHDOG_USEC="300000")

        def told(word):
            while True:
                message = listener.recv(4096).decode()
                if word in message.splitlines() or any(line.startswith(word) for line in message.splitlines()):
                    return message
        assert "STATUS=" in told("READY=1")
        told("WATCHDOG=1")
        told("WATCHDOG=1")
        daemon.process.send_signal(signal.SIGHUP)
        assert "MONOTONIC_USEC=" in told("RELOADING=1")
        told("READY=1")
        daemon.process.send_signal(signal.SIGTERM)
        told("STOPPING=1")
        assert daemon.process.wait(DEADLINE_S) == 0
        daemon.process = None


def test_idle_daemon_sleeps(daemon):
    """No polling, no busy loop: an idle second costs next to no CPU time."""
    def cpu_ticks():
        fields = open(f"/proc/{daemon.process.pid}/stat", encoding="ascii").read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])
    daemon.serves()
    wait_until(lambda: daemon.objects()["sessions"] == 0, "no session is left")
    # The least of several seconds, because this machine may be busy with something else.
    costs = []
    while len(costs) < 4 and (not costs or min(costs) > 0.05 * os.sysconf("SC_CLK_TCK")):
        before = cpu_ticks()
        time.sleep(1)
        costs.append(cpu_ticks() - before)
    assert min(costs) <= 0.05 * os.sysconf("SC_CLK_TCK"), costs
