"""Running other people's programs on the software device: what test_programs.py and test_network.py share.

ZC_SOFT_PRELOAD names what goes into LD_PRELOAD (the sanitizer's runtime first, where there is one)."""
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time

import pytest

PRELOAD = os.environ["ZC_SOFT_PRELOAD"]
LIBRARY = PRELOAD.split(":")[-1]
ENV = dict(os.environ, LD_PRELOAD=PRELOAD, ASAN_OPTIONS="detect_leaks=0")
DEADLINE = 150


def need(program):
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")


def run(*argv, deadline=DEADLINE, **kw):
    return subprocess.run(argv, env=kw.pop("env", ENV), capture_output=True, text=True, timeout=deadline, **kw)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def listening(port, pid="self"):
    """Somebody in the network namespace of `pid` listens there: over TCP, or over rdma_cm (a Unix socket of the device)."""
    accepting = "00010000"
    try:
        for name in ("tcp", "tcp6"):
            for line in open(f"/proc/{pid}/net/{name}"):
                field = line.split()
                if field[3:4] == ["0A"] and int(field[1].rsplit(":", 1)[1], 16) == port:
                    return True
        return any(re.search(rf"@zcsoft/cm/[^/]+/{port}$", line.rstrip()) and line.split()[3] == accepting
                   for line in open(f"/proc/{pid}/net/unix"))
    except OSError:
        return False  # it has ended


def wait_listening(server, port):
    until = time.monotonic() + 60
    while not listening(port, server.pid) and server.poll() is None and time.monotonic() < until:
        time.sleep(0.02)


def start(argv, port=None, env=None, **kw):
    """A program to be used with `with`, and killed in the end; a server, with `port`, is ready."""
    kw.setdefault("stdout", subprocess.PIPE)
    s = subprocess.Popen(argv, env=env or ENV, stderr=subprocess.STDOUT, text=True, **kw)
    if port:
        wait_listening(s, port)
    return s


def pair(server, client, port, env=None, deadline=DEADLINE):
    """Runs server and client; both must succeed. Returns their outputs."""
    with tempfile.TemporaryFile("w+") as out, start(server, port, env, stdout=out) as s:  # a pipe would fill up
        try:
            c = run(*client, env=env or ENV, deadline=deadline)
            assert c.returncode == 0, c.stdout + c.stderr
            s.wait(timeout=20)
        finally:
            s.kill()
        out.seek(0)
        told = out.read()
    assert s.returncode == 0, told
    return told, c.stdout
