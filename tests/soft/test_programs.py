"""Other people's programs, unmodified, on the software device: Debian's ibverbs-utils, rdmacm-utils, perftest, qperf.

ZC_SOFT_PRELOAD names what goes into LD_PRELOAD (the sanitizer's runtime first, where there is one)."""
import os
import re
import shutil
import socket
import subprocess
import time

import pytest

PRELOAD = os.environ["ZC_SOFT_PRELOAD"]
LIBRARY = PRELOAD.split(":")[-1]
ENV = dict(os.environ, LD_PRELOAD=PRELOAD, ASAN_OPTIONS="detect_leaks=0")
DEADLINE = 150


def need(program):
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")


def run(*argv, **kw):
    return subprocess.run(argv, env=ENV, capture_output=True, text=True, timeout=DEADLINE, **kw)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def listening(port):
    """Somebody listens there: over TCP, or over rdma_cm (a Unix socket of the device)."""
    for name in ("tcp", "tcp6"):
        for line in open(f"/proc/net/{name}"):
            field = line.split()
            if field[3:4] == ["0A"] and int(field[1].rsplit(":", 1)[1], 16) == port:
                return True
    accepting = "00010000"
    return any(re.search(rf"@zcsoft/cm/[^/]+/{port}$", line.rstrip()) and line.split()[3] == accepting
               for line in open("/proc/net/unix"))


def pair(server, client, port):
    """Runs server and client; both must succeed. Returns their outputs."""
    with subprocess.Popen(server, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as s:
        try:
            until = time.monotonic() + 60
            while not listening(port) and s.poll() is None and time.monotonic() < until:
                time.sleep(0.02)
            c = run(*client)
            assert c.returncode == 0, c.stdout + c.stderr
            out, _ = s.communicate(timeout=60)
        finally:
            s.kill()
    assert s.returncode == 0, out
    return out, c.stdout


def symbols(path, which):
    out = subprocess.run(["nm", "-D", which, path], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in out.splitlines())
    return {row[-1].split("@")[0]: row[-1] for row in rows if len(row) > 1 and row[-2] not in "A"}


# --- exports ---------------------------------------------------------------------------------------------------------


def library(name):
    out = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    return next(line.split("=>")[1].strip() for line in out.splitlines() if line.strip().startswith(name))


@pytest.mark.parametrize("name", ["libibverbs.so.1", "librdmacm.so.1"])
def test_every_symbol_is_exported(name):
    missing = symbols(library(name), "--defined-only").keys() - symbols(LIBRARY, "--defined-only").keys()
    assert not missing


PROGRAMS = """ibv_devices ibv_devinfo ibv_rc_pingpong ibv_srq_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_xsrq_pingpong
ib_read_bw ib_read_lat ib_write_bw ib_write_lat ib_send_bw ib_send_lat ib_atomic_bw ib_atomic_lat rping ucmatose
rdma_client rdma_server rdma_xclient rdma_xserver cmtime rstream riostream udaddy mckey udpong qperf""".split()


@pytest.mark.parametrize("program", PROGRAMS)
def test_symbols_that_programs_need(program):
    need(program)
    wanted = {s for s, full in symbols(shutil.which(program), "--undefined-only").items()
              if "@IBVERBS" in full or "@RDMACM" in full}
    assert wanted
    assert not wanted - symbols(LIBRARY, "--defined-only").keys()


# --- ibverbs-utils -----------------------------------------------------------------------------------------------------


def test_devices():
    need("ibv_devices")
    r = run("ibv_devices")
    assert r.returncode == 0 and "zcsoft0" in r.stdout


def test_name_from_environment():
    need("ibv_devices")
    r = subprocess.run(["ibv_devices"], env=dict(ENV, ZCSOFT_NAME="other7"), capture_output=True, text=True, timeout=60)
    assert "other7" in r.stdout and "zcsoft0" not in r.stdout


def test_devinfo():
    need("ibv_devinfo")
    r = run("ibv_devinfo", "-v")
    assert r.returncode == 0, r.stderr
    assert "PORT_ACTIVE" in r.stdout and "fw_ver:				zcsoft" in r.stdout
    assert re.search(r"GID\[\s*0\]", r.stdout)


@pytest.mark.parametrize("program", ["ibv_rc_pingpong", "ibv_srq_pingpong"])
@pytest.mark.parametrize("options", [[], ["-e"], ["-n", "10000", "-e"], ["-s", "1048576", "-n", "100"], ["-c"]],
                         ids=lambda o: " ".join(o) or "plain")
def test_pingpong(program, options):
    need(program)
    if program == "ibv_srq_pingpong" and "-c" in options:
        pytest.skip("it has no -c")
    port = str(free_port())
    base = [program, "-g", "0", "-p", port, *options]
    _, out = pair(base, [*base, "127.0.0.1"], int(port))
    assert "usec/iter" in out


@pytest.mark.parametrize("program", ["ibv_uc_pingpong", "ibv_ud_pingpong"])
def test_other_transports_are_refused(program):
    need(program)
    r = run(program, "-g", "0", "-p", str(free_port()))
    assert r.returncode == 1 and "Couldn't create QP" in r.stderr


# --- perftest --------------------------------------------------------------------------------------------------------------

PERFTEST = """ib_read_bw
ib_read_bw -q 8
ib_read_bw -t 1
ib_read_bw -t 128
ib_read_bw -e
ib_read_bw -b
ib_read_bw -R
ib_read_lat -n 200
ib_read_lat -e -n 200
ib_write_bw -n 500
ib_write_bw -n 500 -b -q 2
ib_write_bw -R -n 500
ib_write_bw -I 64 -s 64
ib_write_lat -n 100
ib_send_bw
ib_send_bw -b
ib_send_bw -R
ib_send_bw --use-srq -q 4
ib_send_bw -I 64 -s 64
ib_send_lat -n 200
ib_send_lat -e -n 200
ib_atomic_bw
ib_atomic_bw -A CMP_AND_SWAP
ib_read_bw -a -n 50""".splitlines()


@pytest.mark.parametrize("command", PERFTEST)
def test_perftest(command):
    argv = command.split()
    need(argv[0])
    port = str(free_port())
    argv += ["-p", port, "-F"]
    _, out = pair(argv, [*argv, "127.0.0.1"], int(port))
    assert re.search(r"^ \d+ ", out, re.M), out


# --- rdmacm-utils ------------------------------------------------------------------------------------------------------------


def test_rping():
    need("rping")
    port = str(free_port())
    pair(["rping", "-s", "-p", port, "-C", "1000"], ["rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", "1000", "-V"],
         int(port))


def test_ucmatose():
    need("ucmatose")
    port = str(free_port())
    base = ["ucmatose", "-p", port, "-c", "4", "-C", "50", "-S", "1000"]
    server, client = pair(base, [*base, "-s", "127.0.0.1"], int(port))
    assert "return status 0" in server and "return status 0" in client


def test_rdma_client_and_server():
    need("rdma_client")
    port = str(free_port())
    server, client = pair(["rdma_server", "-p", port], ["rdma_client", "-s", "127.0.0.1", "-p", port], int(port))
    assert "end 0" in server and "end 0" in client


def test_cmtime():
    need("cmtime")
    port = str(free_port())
    base = ["cmtime", "-p", port, "-c", "50"]
    with subprocess.Popen(base, env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as s:
        try:
            until = time.monotonic() + 60
            while not listening(int(port)) and time.monotonic() < until:
                time.sleep(0.02)
            r = run(*base, "-s", "127.0.0.1")
        finally:
            s.kill()
    assert r.returncode == 0 and "connect" in r.stdout, r.stdout + r.stderr


def test_rstream_is_refused():
    need("rstream")
    r = run("rstream", "-s", "127.0.0.1", "-T", "r", "-p", str(free_port()))
    assert r.returncode != 0


# --- no traces ------------------------------------------------------------------------------------------------------------------


def test_killed_programs_leave_no_files(tmp_path):
    need("rping")
    before = set(os.listdir("/dev/shm")) | set(os.listdir("/tmp"))
    port = free_port()
    with subprocess.Popen(["rping", "-s", "-p", str(port)], env=ENV, cwd=tmp_path) as s:
        until = time.monotonic() + 60
        while not listening(port) and time.monotonic() < until:
            time.sleep(0.02)
        s.kill()
    assert not listening(port)
    assert not list(tmp_path.iterdir())
    new = (set(os.listdir("/dev/shm")) | set(os.listdir("/tmp"))) - before
    assert not [n for n in new if "zcsoft" in n]
