"""Whatever is wrong with a command, a peer or the machine: one clear line, the right exit status, and a daemon that goes on
serving others."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess

import pytest

from harness import DEADLINE_S, LAB, LONG, SHORT, SOFT, SOFT_LIBRARY, ZCCTL, ZCRDMAD, RpcError, as_nobody, environment, free_port, \
    one_line

RUN = ("run", "--strategy", "copy_blocking", "--peer", "self")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="giving up privileges takes root")


@pytest.fixture(scope="module", autouse=True)
def serves_afterwards(daemon):
    """Everything in this file was done to one daemon, whose counters are as before and which still works."""
    idle = daemon.objects()
    yield
    daemon.wait_objects(idle)
    daemon.serves()


# --- the command line


@pytest.mark.parametrize("arguments, words", [
    ((*RUN, "--size", "0"), ("size", "0")),
    ((*RUN, "--size", "abc"), ("size", "abc")),
    ((*RUN, "--size", ""), ("size",)),
    ((*RUN, "--size", "-1"), ("size", "-1")),
    ((*RUN, "--size", "1e30"), ("size", "1e30")),
    ((*RUN, "--size", "99999999999999999999999"), ("size",)),
    ((*RUN, "--size", "1X"), ("size", "1X")),
    ((*RUN, "--size"), ("size",)),
    ((*RUN, "--measure", "nan"), ("measure", "nan")),
    ((*RUN, "--measure", "-1"), ("measure", "-1")),
    ((*RUN, "--warmup", "1e30"), ("warmup",)),
    ((*RUN, "--operations-max", "0"), ("operations.max",)),
    ((*RUN, "--mr-size", "0"), ("mr.size",)),
    ((*RUN, "--validate", "some"), ("validate", "some", "first")),
    ((*RUN, "--wait", ""), ("wait",)),
    ((*RUN, "--sise", "1M"), ("sise", "size")),
    ((*RUN, "extra"), ("extra",)),
    ((*RUN, "--skip-latency", "--skip-throughput"), ("skip",)),
    (("run", "--peer", "self"), ("strategy",)),
    (("run", "--strategy", "copy_blocking"), ("peer",)),
    (("run", "--strategy", "fast", "--peer", "self"), ("fast", "copy_blocking")),
    (("run", "--strategy", "copy_blocking", "--peer", "host:99999"), ("99999",)),
    (("run", "--strategy", "copy_blocking", "--peer", ""), ("peer",)),
    (("dance",), ("dance",)),
    (("--dance", "stats"), ("dance",)),
    (("stats", "--dance"), ("dance",)),
    (("results", "dance"), ("results",)),
    (("results", "get"), ("get",)),
    ((), ()),
], ids=lambda value: " ".join(value)[-40:] if isinstance(value, tuple) else "")
@pytest.mark.native
def test_usage(daemon, arguments, words):
    done = daemon.zcctl(*arguments, status=2)
    assert done.stdout == ""
    if arguments:
        line = one_line(done.stderr)
        assert all(re.search(word, line) for word in words), line


@pytest.mark.native
def test_size_larger_than_the_region(daemon):
    """Only the peer knows its region; both sizes are named."""
    done = daemon.zcctl(*RUN, *SHORT, "--size", "32M", status=1)
    line = one_line(done.stderr)
    assert "32M" in line or str(32 << 20) in line, line
    assert "16M" in line or str(16 << 20) in line, line
    assert "region" in line


@pytest.mark.native
def test_unknown_result(daemon):
    unknown = "20000101T000000Z-copy_blocking-0000"
    for verb in ("get", "delete"):
        assert unknown in one_line(daemon.zcctl("results", verb, unknown, status=1).stderr)
        assert "nonsense" in one_line(daemon.zcctl("results", verb, "nonsense", status=2).stderr)


@pytest.mark.parametrize("params, field", [
    ({"strategy": "copy_blocking", "peer": "self", "sise": 1}, "sise"),
    ({"strategy": "copy_blocking", "peer": "self", "size": 0}, "size"),
    ({"strategy": "copy_blocking", "peer": "self", "size": -1}, "size"),
    ({"strategy": "copy_blocking", "peer": "self", "size": 1e30}, "size"),
    ({"strategy": "copy_blocking", "peer": "self", "size": "much"}, "size"),
    ({"strategy": "copy_blocking", "peer": "self", "size": 1.5}, "size"),
    ({"strategy": "copy_blocking", "peer": "self", "size": [1]}, "size"),
    ({"strategy": "copy_blocking", "peer": "self", "skip_latency": 1}, "skip_latency"),
    ({"strategy": "copy_blocking", "peer": "self", "wait": "poll event"}, "wait"),
    ({"strategy": "fast", "peer": "self"}, "strategy"),
    ({"strategy": 1, "peer": "self"}, "strategy"),
    ({"strategy": "copy_blocking"}, "peer"),
    ({"strategy": "copy_blocking", "peer": "x" * 1000}, "peer"),
], ids=lambda value: value if isinstance(value, str) else "")
@pytest.mark.native
def test_json_member(daemon, params, field):
    with pytest.raises(RpcError) as caught:
        daemon.call("run.start", params)
    assert caught.value.code == -32602
    assert caught.value.data["field"] == field


# --- the peer


def failed_run(daemon, peer_name, *words):
    """A run that fails because of its peer."""
    done = daemon.zcctl(*RUN[:-1], peer_name, *SHORT, status=1)
    line = one_line(done.stderr)
    assert all(word in line for word in words), line
    return line


@pytest.mark.native
def test_peer_name_does_not_resolve(daemon):
    failed_run(daemon, "no-such-host.invalid", "no-such-host.invalid")


def test_peer_refuses(daemon):
    """Nobody listens."""
    port = free_port()
    failed_run(daemon, f"{daemon.host}:{port}", str(port), "refused")


def test_peer_refuses_without_a_reason(daemon, peer):
    port = peer("listen", 0, "refuse").line(r"listening (\d+)")[1]
    failed_run(daemon, f"{daemon.host}:{port}", port)


def test_peer_does_not_answer(daemon, peer):
    port = peer("listen", 0, "silent").line(r"listening (\d+)")[1]
    failed_run(daemon, f"{daemon.host}:{port}", port, "answer")


@pytest.mark.skipif(not LAB, reason="the lab's network has an address that nobody answers")
def test_host_does_not_answer(daemon):
    failed_run(daemon, "10.9.0.99", "10.9.0.99", "answer")


def test_tcp_listener_never_accepts(daemon):
    """On the software device, whose transport is TCP, this is a dead host; on rxe it is a port without a listener."""
    with socket.socket() as listener:
        listener.bind(("", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        failed_run(daemon, f"{daemon.host}:{port}", str(port))


@pytest.mark.parametrize("behaviour", ["foreign", "mute", "garbage"])
def test_peer_speaks_another_protocol(daemon, peer, behaviour):
    port = peer("listen", 0, behaviour).line(r"listening (\d+)")[1]
    failed_run(daemon, f"{daemon.host}:{port}", port)


def test_peer_speaks_another_version(daemon, peer):
    port = peer("listen", 0, "version").line(r"listening (\d+)")[1]
    failed_run(daemon, f"{daemon.host}:{port}", port, "version 3")


@pytest.mark.skipif(SOFT, reason="other people's programs on the software device come with its own tests")
def test_rping_as_the_peer(daemon):
    port = free_port()
    with subprocess.Popen(["rping", "-s", "-p", str(port), "-a", daemon.host], stdin=subprocess.DEVNULL) as rping:
        try:
            failed_run(daemon, f"{daemon.host}:{port}", str(port))
        finally:
            rping.kill()


# --- strangers at the responder's door


@pytest.mark.parametrize("behaviour, status", [("version", 2), ("foreign", 1), ("empty", 1)])
def test_stranger_is_refused(daemon, peer, behaviour, status):
    host, port = daemon.address.rsplit(":", 1)
    refusal = peer("connect", host, port, behaviour).line(r"RDMA_CM_EVENT_REJECTED magic=(\w+) version=(\d+) status=(\d+)")
    assert refusal.groups() == ("3152435a", "2", str(status))


@pytest.mark.parametrize("behaviour", ["nohello", "garbage"])
def test_stranger_is_disconnected(daemon, peer, behaviour):
    host, port = daemon.address.rsplit(":", 1)
    peer("connect", host, port, behaviour).line("disconnected")


@pytest.mark.parametrize("behaviour, completion", [("read", "success"), ("beyond", "remote access error"),
                                                   ("write", "remote")])
def test_region_is_for_reading_only(daemon, peer, behaviour, completion):
    host, port = daemon.address.rsplit(":", 1)
    assert completion in peer("connect", host, port, behaviour).line("completion (.*)")[1]


@pytest.mark.skipif(SOFT, reason="other people's programs on the software device come with its own tests")
def test_rping_as_a_client(daemon):
    host, port = daemon.address.rsplit(":", 1)
    done = subprocess.run(["rping", "-c", "-a", host, "-p", port, "-C", "1"], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=DEADLINE_S)
    assert done.returncode != 0


def listening_tcp_ports(pid):
    """The ports that a process listens on, from /proc."""
    inodes = {os.readlink(fd)[8:-1] for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir() if os.readlink(fd).startswith("socket:[")}
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return ports


@pytest.mark.skipif(not SOFT, reason="only the software device's transport is TCP")
def test_garbage_at_the_transport(daemon):
    """HTTP, zeros, a half hello, a reset, an idle connection: none of them costs the others anything."""
    ports = listening_tcp_ports(daemon.process.pid)
    if not ports:
        pytest.skip("the software device listens on no TCP port here")
    idle = []
    for port in ports:
        for garbage in (b"GET / HTTP/1.0\r\n\r\n", bytes(100_000), b"ZZA", b"\xff" * 64):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                try:
                    connection.sendall(garbage)
                except OSError:
                    pass                        # it was thrown out before the end
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        idle.append(socket.create_connection(("127.0.0.1", port)))
    daemon.serves()
    for connection in idle:
        connection.close()


# --- the machine


@pytest.mark.native
def test_daemon_unreachable(folder):
    done = subprocess.run([ZCCTL, "--socket", folder / "none.sock", "stats"], capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 3
    assert "none.sock" in one_line(done.stderr)


@pytest.mark.native
def test_socket_of_something_else(folder):
    """A listener that accepts, answers with garbage and closes."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "other.sock"))
        listener.listen()
        zcctl = subprocess.Popen([ZCCTL, "--socket", folder / "other.sock", "stats"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True)
        connection, _ = listener.accept()
        connection.sendall(b"220 mail.example.org ESMTP\r\n")
        connection.close()
        _, errors = zcctl.communicate(timeout=DEADLINE_S)
    assert zcctl.returncode in (1, 3)
    one_line(errors)


@needs_root
@pytest.mark.native
def test_socket_without_permission(daemon, folder):
    program = shutil.copy(ZCCTL, folder)        # the build tree may be closed to other users
    done = subprocess.run([*as_nobody(), program, "--socket", daemon.socket, "stats"], capture_output=True, text=True,
                          env=environment(), timeout=DEADLINE_S)
    assert done.returncode == 3, done.stderr
    line = one_line(done.stderr)
    assert str(daemon.socket) in line and "ermission" in line, line


@pytest.mark.native
def test_state_folder_becomes_unwritable(start):
    """The figures are shown, the error says that they were not stored, and the exit status is not 0."""
    daemon = start()
    shutil.rmtree(daemon.state)
    daemon.state.write_text("a file is in the way\n")
    done = daemon.zcctl(*RUN, *SHORT, status=1)
    assert "GiB/s" in done.stdout
    line = one_line(done.stderr)
    assert "not stored" in line and str(daemon.state) in line, line
    done = daemon.zcctl("--json", *RUN, *SHORT, status=1)
    assert json.loads(done.stdout)["throughput"]["gib_per_s"] > 0
    assert "not stored" in one_line(done.stderr)


@pytest.mark.native
def test_state_folder_cannot_be_made(start, folder):
    """The same from the start: measuring needs no store."""
    (folder / "file").write_text("")
    daemon = start(state=folder / "file" / "state")
    assert "file/state" in daemon.said()
    done = daemon.zcctl(*RUN, *SHORT, status=1)
    assert "GiB/s" in done.stdout
    assert "not stored" in one_line(done.stderr)


@needs_root
@pytest.mark.parametrize("memlock, region", [(64 << 10, "16M"), (1536 << 10, "1M")], ids=["region", "staging"])
def test_memlock_limit_too_low(new, folder, memlock, region):
    """Either the daemon's region does not fit, or a run's staging memory: the error names limit, need and fix."""
    home = folder / "nobody"
    home.mkdir()
    for file in (ZCRDMAD, SOFT_LIBRARY):
        shutil.copy(file, home)
    os.chown(home, 65534, 65534)
    daemon = new(wrapper=as_nobody(f"--memlock={memlock}:{memlock}"), program=home / "zcrdmad", directory=home / "run", region=region,
                 ZCRDMA_SOFT_LIBRARY=str(home / "libzcsoft.so"))
    os.chown(home / "run", 65534, 65534)
    if region == "16M":
        status, line = daemon.refused()
        assert status == 1
    else:
        daemon.start()
        done = daemon.zcctl(*RUN, *SHORT, "--size", "1M", "--mr-size", "1M", status=1)
        line = one_line(done.stderr)
        assert daemon.run(*SHORT, "--size", "4K", "--mr-size", "4K")["state"] == "done"
    assert "RLIMIT_MEMLOCK" in line or "memlock" in line, line
    assert any(limit in line for limit in ("64 KiB", "1.5 MiB", "1536 KiB")), line
    assert "LimitMEMLOCK" in line or "ulimit -l" in line, line


@pytest.mark.skipif(LAB, reason="the lab has a device")
def test_no_device_at_all(new):
    status, line = new(device="auto", ZCRDMA_SOFT_LIBRARY="/nonexistent/libzcsoft.so").refused()
    assert status == 1
    assert "RDMA device" in line and "/nonexistent/libzcsoft.so" in line, line


@pytest.mark.skipif(LAB, reason="the lab has a device")
def test_software_device_not_installed(new, folder):
    """A program that was copied elsewhere, without its library beside it."""
    program = pathlib.Path(shutil.copy(ZCRDMAD, folder))
    if pathlib.Path("/usr/lib/zcrdma/libzcsoft.so").exists():
        pytest.skip("zcrdma is installed on this machine")
    status, line = new(program=program, device="soft").refused()
    assert status == 1
    assert "libzcsoft.so" in line, line


@pytest.mark.native
def test_no_such_device(new):
    status, line = new(device="mlx5_99").refused()
    assert status == 1
    assert "mlx5_99" in line, line


@pytest.mark.parametrize("arguments, words", [
    (("--region-size", "0"), ("region", "0")),
    (("--region-size", "lots"), ("region", "lots")),
    (("--listen", "0.0.0.0:99999"), ("99999",)),
    (("--listen", "nonsense:1"), ("nonsense",)),
    (("--listen", "192.0.2.1:0"), ("192.0.2.1",)),
    (("--dance",), ("dance",)),
    (("extra",), ("extra",)),
    (("--socket",), ("socket",)),
    (("--socket", "/" + "x" * 200), ("x" * 20,)),
    (("--config", "/nonexistent.conf"), ("/nonexistent.conf",)),
], ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "")
@pytest.mark.native
def test_daemon_arguments(new, arguments, words):
    status, line = new(*arguments).refused()
    assert status in (1, 2)
    assert all(re.search(word, line) for word in words), line


@pytest.mark.native
def test_region_that_does_not_fit(new):
    status, line = new(region="1000T").refused()
    assert status in (1, 2)
    assert "region" in line, line


@pytest.mark.native
def test_daemon_killed_mid_run(start):
    daemon = start()
    zcctl = daemon.popen(*RUN, *LONG)
    daemon.wait_running()
    daemon.kill()
    output, errors = zcctl.communicate(timeout=DEADLINE_S)
    assert zcctl.returncode == 3
    assert output == ""
    assert "zcrdmad" in one_line(errors)
    daemon.start()                              # the socket that it left behind is stale
    daemon.serves()
