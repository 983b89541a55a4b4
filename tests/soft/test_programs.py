"""Other people's programs, unmodified, on the software device: Debian's ibverbs-utils, rdmacm-utils, perftest, qperf, libfabric,
UCX. README.md says how far they go."""
import concurrent.futures
import os
import re
import shutil
import subprocess
import time

import pytest

from programs import ENV, LIBRARY, free_port, listening, need, pair, run, start


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


REFUSED = [("ibv_uc_pingpong -g 0", "Couldn't create QP"), ("ibv_ud_pingpong -g 0", "Couldn't create QP"),
           ("ib_write_bw -c UC", "Couldn't create IB resources"), ("ib_send_bw -c UD", "Couldn't create IB resources"),
           ("ib_send_bw -c XRC", "Couldn't create XRC resources")]


@pytest.mark.parametrize("command, message", REFUSED)
def test_other_transports_are_refused(command, message):
    argv = command.split()
    need(argv[0])
    port = str(free_port())
    with start([*argv, "-p", port], int(port)) as server:
        try:  # perftest makes its queue pairs once the other side is there
            r = run(*argv, "-p", port, "127.0.0.1", deadline=60)
        finally:
            server.kill()
    assert r.returncode == 1 and message in r.stderr, r.stdout + r.stderr


# --- rdmacm-utils ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [["-C", "10000", "-S", "1000"], ["-C", "200", "-S", "60000"]], ids=["10000", "long"])
def test_rping_verifies(options):
    need("rping")
    port = str(free_port())
    common = ["rping", "-a", "127.0.0.1", "-p", port, "-V", *options]
    pair([*common, "-s"], [*common, "-c"], int(port))


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
    assert r.returncode != 0 and "rsocket failed: Operation not supported" in r.stdout + r.stderr


# --- qperf, libfabric, UCX ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what, unit", [("rc_rdma_read_bw", "bw"), ("rc_lat", "latency")])
def test_qperf(what, unit):
    """On Ethernet qperf needs rdma_cm: by itself it knows LIDs only."""
    need("qperf")
    for _ in range(12):  # the server tells its port without waiting to listen there: a quick client is rejected
        port = str(free_port())
        with start(["qperf", "-lp", port], int(port)) as server:
            try:
                r = run("qperf", "-lp", port, "-cm", "1", "-t", "1", "127.0.0.1", what)
            finally:
                server.kill()
        if r.returncode == 0:
            break
    assert r.returncode == 0 and re.search(rf"^ +{unit} +=", r.stdout, re.M), r.stdout + r.stderr


@pytest.mark.parametrize("endpoint, provider", [("msg", "verbs"), ("rdm", "verbs;ofi_rxm")])
def test_libfabric_pingpong(endpoint, provider):
    need("fi_pingpong")
    base = ["fi_pingpong", "-p", provider, "-e", endpoint, "-d", "zcsoft0", "-I", "20", "-S", "65536", "-c"]
    port = str(free_port())
    _, out = pair([*base, "-B", port], [*base, "-P", port, "127.0.0.1"], int(port))
    assert re.search(r"^64k +20 +=20 ", out, re.M), out


# UCX passes over a device without a file in /dev/infiniband, which the software device has none of. Behind such a file, in a mount
# namespace of its own, it uses the device.
WITH_DEVICE_FILE = """mount -t tmpfs none "$1" && mkdir "$1/infiniband" "$1/shm" && cp -a /dev/null "$1/infiniband/zcsoft" &&
cp -a /dev/null /dev/zero /dev/random /dev/urandom "$1" && mount --bind "$1" /dev && shift && exec env LD_PRELOAD="$ZC_SOFT_PRELOAD" "$@"
"""


@pytest.mark.parametrize("test", ["get -D zcopy -s 4096", "put_lat -s 8", "am_bw -D bcopy -s 64", "fadd -s 8"])
def test_ucx_over_rc_verbs(test, tmp_path):
    need("ucx_perftest")
    if os.geteuid() != 0:
        pytest.skip("a mount namespace needs root")
    port = str(free_port())
    inside = ["unshare", "-m", "sh", "-c", WITH_DEVICE_FILE, "sh", str(tmp_path)]
    command = ["ucx_perftest", "-p", port]
    client = ["-x", "rc_verbs", "-d", "zcsoft0:1", "-t", *test.split(), "-n", "200", "-w", "20", "127.0.0.1"]
    plain = {k: v for k, v in ENV.items() if k != "LD_PRELOAD"}
    probe = run(*inside, "true", env=plain)
    if probe.returncode:
        pytest.skip(f"no mount namespace here: {probe.stderr.strip()}")
    with start([*inside, *command], int(port), plain) as server:
        try:
            r = run(*inside, *command, *client, env=plain, deadline=60)
        finally:
            server.kill()
    assert r.returncode == 0 and re.search(r"^Final: +200 ", r.stdout, re.M), r.stdout + r.stderr


def test_ucx_without_a_device_file_is_told():
    need("ucx_perftest")
    if os.path.exists("/dev/infiniband"):
        pytest.skip("this machine has device files")
    port = str(free_port())
    env = dict(ENV, UCX_TLS="rc_verbs")
    with start(["ucx_perftest", "-p", port], int(port), env) as server:
        try:
            r = run("ucx_perftest", "-p", port, "-t", "ucp_get", "127.0.0.1", env=env, deadline=60)
        finally:
            server.kill()
    assert r.returncode != 0 and "transport 'rc_verbs' is not available" in r.stdout + r.stderr


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


# --- rest -----------------------------------------------------------------------------------------------------------------------


def device_thread_ticks(pid):
    """User and system time of the device's thread."""
    for task in os.listdir(f"/proc/{pid}/task"):
        name, fields = open(f"/proc/{pid}/task/{task}/stat").read().split("(")[1].rsplit(")", 1)
        if name == "zcsoft":
            return int(fields.split()[11]) + int(fields.split()[12])
    return None


def test_an_idle_device_sleeps():
    need("rping")
    port = free_port()
    with start(["rping", "-s", "-p", str(port)], port) as s:
        try:
            time.sleep(0.2)
            before, seconds = device_thread_ticks(s.pid), 3
            time.sleep(seconds)
            after = device_thread_ticks(s.pid)
        finally:
            s.kill()
    assert before is not None
    assert (after - before) / os.sysconf("SC_CLK_TCK") <= max(0.001 * seconds, 1 / os.sysconf("SC_CLK_TCK"))


# --- server and client: these run beside the tests above, two pairs at a time, the long ones first ---------------------------------

PAIRS = """ibv_rc_pingpong -g 0 -n 100000
ib_read_bw -a -n 20
ib_read_bw -D 3
ib_send_bw -q 8 --use-srq -b
ib_read_bw -q 200 -t 4 -s 4096 -n 100
ibv_rc_pingpong -g 0
ibv_rc_pingpong -g 0 -e
ibv_rc_pingpong -g 0 -c
ibv_rc_pingpong -g 0 -s 1048576 -n 100
ibv_srq_pingpong -g 0
ibv_srq_pingpong -g 0 -e
ib_read_bw -n 200
ib_read_bw -n 200 -q 8
ib_read_bw -n 200 -t 1
ib_read_bw -n 200 -t 16 -q 2
ib_read_bw -n 200 -t 128
ib_read_bw -n 200 -e
ib_read_bw -n 200 -b
ib_read_bw -n 200 -R -q 4
ib_read_lat -n 200
ib_read_lat -e -n 200
ib_write_bw -n 200 -b -q 2
ib_write_bw -R -n 200
ib_write_bw -I 64 -s 64
ib_write_bw -n 100 -s 1048576 -t 128
ib_write_lat -n 100
ib_send_bw -n 200 -b
ib_send_bw -n 200 -R
ib_send_bw -I 64 -s 64
ib_send_lat -n 200
ib_send_lat -e -n 200
ib_send_lat -R -n 200
ib_send_lat -I 128 -s 64 -n 200
ib_atomic_bw -n 200
ib_atomic_bw -n 200 -A CMP_AND_SWAP
ib_atomic_bw -n 200 -R -q 2
ib_atomic_lat -n 200""".splitlines()


def run_pair(command):
    argv = command.split()
    need(argv[0])
    port = str(free_port())
    argv += ["-p", port, *(["-F"] if argv[0].startswith("ib_") else [])]
    return pair(argv, [*argv, "127.0.0.1"], int(port), deadline=400)[1]  # the first one is long where others want the cores


@pytest.fixture(scope="session", autouse=True)
def pairs(request):
    wanted = {i.callspec.params["pair_command"] for i in request.session.items if i.originalname == "test_pair"}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        yield {command: pool.submit(run_pair, command) for command in PAIRS if command in wanted}


@pytest.mark.parametrize("pair_command", PAIRS)
def test_pair(pairs, pair_command):
    out = pairs[pair_command].result()
    assert re.search(r"usec/iter|^ \d+ ", out, re.M), out


def test_unprivileged_within_its_limit():
    need("ib_read_bw")
    if os.geteuid() != 0:
        pytest.skip("already unprivileged")
    port = str(free_port())
    base = ["prlimit", "--memlock=131072:131072", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if run(*base, "test", "-r", LIBRARY).returncode:
        pytest.skip("the library lies where others cannot read")
    # the limit is the process's own: what is beyond it fails
    argv = ["ib_read_bw", "-n", "100", "-p", port]
    _, out = pair([*base, *argv, "-s", "4096"], [*base, *argv, "-s", "4096", "127.0.0.1"], int(port))
    assert re.search(r"^ 4096 +100 ", out, re.M), out
    with start([*base, *argv, "-s", "1048576"], int(port)) as server:
        try:
            r = run(*base, *argv, "-s", "1048576", "127.0.0.1", deadline=60)
        finally:
            server.kill()
    assert r.returncode and "Couldn't allocate MR" in r.stdout + r.stderr
