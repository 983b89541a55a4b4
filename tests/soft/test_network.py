"""The software device between hosts: two network namespaces with a veth pair, and other people's programs in them. Loss and delay need
the kernel's netem, which is there in the lab at the latest (ctest: lab_soft_network)."""
import os
import shutil
import subprocess
import time

import pytest

from programs import need, pair, run, start

SLOW = 10 if os.environ.get("ZC_SOFT_LAB") else 1  # the lab's CPU is emulated
ADDRESS = {4: "10.77.0.1", 6: "fd77::1"}
PORT = 7471
TIMEOUT = 14  # 67 ms


def ip(*argv):
    return subprocess.run(["ip", *argv], capture_output=True, text=True, timeout=60)


class Network:
    """Hosts `a` (the server, ADDRESS) and `b`."""

    def __init__(self):
        self.names = {host: f"zcsoft-{os.getpid()}-{host}" for host in "ab"}

    def up(self):
        a, b = self.names["a"], self.names["b"]
        commands = [["netns", "add", a], ["netns", "add", b],
                    ["link", "add", "va", "netns", a, "type", "veth", "peer", "name", "vb", "netns", b]]
        for host, last in (("a", 1), ("b", 2)):
            at = ["-n", self.names[host]]
            commands += [at + ["addr", "add", f"10.77.0.{last}/24", "dev", f"v{host}"],
                         at + ["addr", "add", f"fd77::{last}/64", "dev", f"v{host}", "nodad"],
                         at + ["link", "set", "lo", "up"], at + ["link", "set", f"v{host}", "up"]]
        for command in commands:
            r = ip(*command)
            if r.returncode:
                self.down()
                pytest.skip(f"no network namespaces with veth here: ip {' '.join(command)}: {r.stderr.strip()}")

    def down(self):
        for name in self.names.values():
            ip("netns", "del", name)

    def on(self, host, *argv):
        return ["ip", "netns", "exec", self.names[host], *argv]

    def cut(self):
        assert ip("-n", self.names["a"], "link", "set", "va", "down").returncode == 0


@pytest.fixture
def network():
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    if not shutil.which("ip"):
        pytest.skip("ip is not installed")
    n = Network()
    n.up()
    yield n
    n.down()


@pytest.fixture
def bad_network(network):
    """20 ms of delay each way and one packet in a hundred lost."""
    for host in "ab":
        r = run(*network.on(host, "tc", "qdisc", "add", "dev", f"v{host}", "root", "netem", "delay", "20ms", "loss", "1%"), env=None)
        if r.returncode:
            pytest.skip(f"no netem in this kernel: {r.stderr.strip()}")
    return network


def rping(network, version, *options):
    need("rping")
    common = ["rping", "-a", ADDRESS[version], "-p", str(PORT), "-V", *options]
    pair(network.on("a", *common, "-s"), network.on("b", *common, "-c"), PORT)


def ib_read_bw(network, *options):
    need("ib_read_bw")
    common = ["ib_read_bw", "-F", "-p", str(PORT), *options]
    _, out = pair(network.on("a", *common), network.on("b", *common, ADDRESS[4]), PORT)
    assert "BW average" in out


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("size", ["100", "60000"])
def test_rping_verifies(network, version, size):
    rping(network, version, "-C", "100", "-S", size)


def test_read_bandwidth(network):
    ib_read_bw(network, "-s", "1048576", "-n", "200")
    ib_read_bw(network, "-R", "-n", "200")


def test_read_bandwidth_over_ipv6(network):
    """Debian 12's perftest resolves its server's name over IPv4 only; the queue pairs then run between IPv6 GIDs."""
    ib_read_bw(network, "--ipv6", "-n", "200")


def test_delay_and_loss(bad_network):
    for version in ADDRESS:
        rping(bad_network, version, "-C", "20", "-S", "60000")
    ib_read_bw(bad_network, "-s", "65536", "-n", "100")


# --- links and peers that go away ------------------------------------------------------------------------------------------


@pytest.fixture
def client_and_server(network):
    """ib_read_bw in the middle of its work."""
    need("ib_read_bw")
    common = ["ib_read_bw", "-F", "-p", str(PORT), "-D", "60", "-u", str(TIMEOUT)]
    with start(network.on("a", *common), PORT) as server, start(network.on("b", *common, ADDRESS[4])) as client:
        time.sleep(2 * SLOW)
        assert client.poll() is None and server.poll() is None
        yield client, server
        client.kill()
        server.kill()


def seconds_to_error(client, status):
    since = time.monotonic()
    out, _ = client.communicate(timeout=60 * SLOW)
    assert client.returncode != 0 and status in out, out
    return time.monotonic() - since


RETRY_EXCEEDED = "Failed status 12"


def test_cut_link_is_retry_exceeded(network, client_and_server):
    """perftest retries seven times; each takes at most four times the timeout (IB specification, 9.7.6.1.3)."""
    network.cut()
    limit = 8 * 4 * 4.096e-6 * 2 ** TIMEOUT
    assert 0.1 < seconds_to_error(client_and_server[0], RETRY_EXCEEDED) < limit + 2 * SLOW


def test_killed_peer_is_noticed_at_once(client_and_server):
    client, server = client_and_server
    server.kill()
    assert seconds_to_error(client, RETRY_EXCEEDED) < 2 * SLOW


def test_killed_peer_disconnects(network):
    need("rping")
    common = ["rping", "-a", ADDRESS[4], "-p", str(PORT)]
    with start(network.on("a", *common, "-s"), PORT) as server, start(network.on("b", *common, "-c")) as client:
        time.sleep(SLOW)
        assert client.poll() is None
        server.kill()
        since = time.monotonic()
        out, _ = client.communicate(timeout=60)
        assert "DISCONNECT EVENT" in out
        assert time.monotonic() - since < 2 * SLOW
