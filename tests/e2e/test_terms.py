"""The terms of a run: fresh or touched buffers, the kind of pages, reading what came."""

import json
import os
import pathlib
import subprocess

import pytest

from harness import LAB, SHORT, one_line

POOL = pathlib.Path("/proc/sys/vm/nr_hugepages")
POOL_1G = pathlib.Path("/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages")


@pytest.mark.parametrize("size", (64 * 1024 + 1,) if LAB else (1, 4095, 64 * 1024 + 1))
def test_fresh_buffers(daemon, check_schema, size):
    """Each request goes to pages that nobody has touched; making them so is a phase of its own."""
    document = daemon.run(*SHORT, "--buffers", "fresh", "--size", str(size), "--validate", "all")
    check_schema(document)
    assert document["config"]["buffers"] == "fresh"
    assert document["phases"]["discard_ns"] > 0
    assert document["phases"]["consume_ns"] is None
    assert document["validation"]["state"] == "passed"
    assert document["terms"]["footprint_bytes"] == document["terms"]["buffers"] * -(-size // 4096) * 4096
    assert document["cost"]["allocations"] == 0


@pytest.mark.parametrize("strategy", ("pipeline_blocking",) if LAB else ("naive_blocking", "pipeline_blocking"))
def test_fresh_buffers_that_are_registered(daemon, check_schema, strategy):
    """Registering finds no page there and has to bring them; the bytes arrive all the same."""
    done = daemon.zcctl("--json", "run", "--strategy", strategy, "--peer", "self", *SHORT, "--buffers", "fresh", "--validate", "all",
                        "--consume")
    document = json.loads(done.stdout)
    check_schema(document)
    assert document["validation"]["state"] == "passed"
    assert document["phases"]["discard_ns"] > 0 and document["phases"]["register_ns"] > 0


@pytest.mark.native
def test_memory_registered_beforehand_is_not_fresh(daemon):
    done = daemon.zcctl("run", "--strategy", "ideal_blocking", "--peer", "self", *SHORT, "--skip-validation", "--buffers", "fresh",
                        status=2)
    assert "cannot be fresh" in one_line(done.stderr)


@pytest.mark.native
def test_consume(daemon, check_schema):
    document = daemon.run(*SHORT, "--consume")
    check_schema(document)
    assert document["config"]["consume"] is True
    assert document["phases"]["consume_ns"] > 0
    assert document["phases"]["discard_ns"] is None


@pytest.mark.native
def test_defaults(daemon):
    document = daemon.run(*SHORT)
    assert [document["config"][name] for name in ("buffers", "consume", "pages")] == ["reuse", False, "default"]
    assert document["phases"]["discard_ns"] is None and document["phases"]["consume_ns"] is None
    assert document["terms"]["page_bytes"] == os.sysconf("SC_PAGESIZE")


@pytest.mark.native
def test_table_says_it(daemon):
    table = daemon.zcctl("run", "--strategy", "copy_blocking", "--peer", "self", *SHORT, "--buffers", "fresh", "--consume").stdout
    assert "untouched before each request" in table and "discard" in table and "every byte read once" in table, table


def test_transparent_huge_pages(daemon, check_schema):
    enabled = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not enabled.exists() or "[never]" in enabled.read_text():
        pytest.skip("this kernel has none")
    document = daemon.run(*SHORT, "--pages", "thp")
    check_schema(document)
    assert document["terms"]["page_bytes"] == 2 << 20
    assert 0 <= document["terms"]["huge_page_bytes"] <= 64 << 20
    assert 0 <= document["terms"]["staging_huge_page_bytes"] <= 2 << 20


@pytest.mark.native
def test_reserved_pages_that_do_not_exist(daemon):
    """One clear line, and it says where more are reserved."""
    if POOL_1G.exists() and int(POOL_1G.read_text()) > 0:
        pytest.skip("this machine has some")
    done = daemon.zcctl("run", "--strategy", "copy_blocking", "--peer", "self", *SHORT, "--pages", "1g", status=1)
    line = one_line(done.stderr)
    assert "/proc/sys/vm/nr_hugepages" in line or "no pages of" in line
    daemon.serves()


@pytest.mark.skipif(not LAB, reason="changes the machine")
def test_reserved_pages(daemon, check_schema):
    POOL.write_text("96")
    try:
        document = daemon.run(*SHORT, "--pages", "2m")
        check_schema(document)
        assert document["terms"]["page_bytes"] == 2 << 20
        assert document["terms"]["huge_page_bytes"] >= document["terms"]["footprint_bytes"]
        assert document["terms"]["staging_huge_page_bytes"] >= document["terms"]["staging_bytes"] > 0
    finally:
        POOL.write_text("0")


@pytest.mark.native
def test_fresh_pages_are_not_taken_from_the_pool(daemon):
    done = daemon.zcctl("run", "--strategy", "copy_blocking", "--peer", "self", "--buffers", "fresh", "--pages", "2m", status=2)
    assert "buffers" in one_line(done.stderr)


@pytest.mark.native
def test_placement(daemon, check_schema):
    """One rule for threads and memory, and the document says what was done."""
    document = daemon.run(*SHORT)
    check_schema(document)
    terms = document["terms"]
    assert terms["placement"]
    if document["environment"]["numa_nodes"] == 1 and "hwloc" not in terms["placement"]:
        assert terms["thread_numa_node"] == 0 and terms["placement"].startswith("threads")
    free = daemon.run(*SHORT, "--numa", "none")["terms"]
    assert free["placement"] == "nothing bound: as asked"
    assert free["thread_numa_node"] is None and free["memory_numa_node"] is None


@pytest.mark.native
def test_placement_on_a_node_that_does_not_exist(daemon):
    done = daemon.zcctl("run", "--strategy", "copy_blocking", "--peer", "self", *SHORT, "--numa", "999", status=1)
    assert "no NUMA node 999" in one_line(done.stderr)
    done = daemon.zcctl("run", "--strategy", "copy_blocking", "--peer", "self", *SHORT, "--numa", "near", status=2)
    assert "numa" in one_line(done.stderr)
    daemon.serves()


@pytest.mark.parametrize("strategy", ("naive_blocking",) if LAB else ("copy_blocking", "naive_blocking", "ideal_blocking"))
def test_relaxed_ordering(daemon, check_schema, strategy):
    """Every kind of memory is registered with it, or without."""
    for asked, expected in (("auto", True), ("on", True), ("off", False)):
        document = json.loads(daemon.zcctl("--json", "run", "--strategy", strategy, "--peer", "self", *SHORT, "--skip-latency",
                                           "--validate", "first", "--relaxed-ordering", asked).stdout)
        check_schema(document)
        assert document["config"]["relaxed_ordering"] == asked
        assert document["terms"]["relaxed_ordering"] is expected


@pytest.mark.parametrize("strategy", ("copy_blocking", "pipeline_non_blocking"))
def test_family_of_verbs(daemon, check_schema, strategy):
    """Both families read the same bytes; each device of the tests offers the extended one."""
    for asked, expected in (("auto", "extended"), ("basic", "basic"), ("extended", "extended")):
        document = json.loads(daemon.zcctl("--json", "run", "--strategy", strategy, "--peer", "self", *SHORT, "--skip-latency",
                                           "--validate", "all", "--post", asked).stdout)
        check_schema(document)
        assert document["config"]["post"] == asked
        assert document["terms"]["post"] == document["terms"]["poll"] == expected
        assert document["validation"]["state"] == "passed"
        if strategy == "copy_blocking":
            assert document["cost"]["allocations"] == 0
    assert f"{expected} verbs" in daemon.zcctl("results", "show", document["id"]).stdout
    done = daemon.zcctl("run", "--strategy", strategy, "--peer", "self", "--post", "wr", status=2)
    assert "post" in one_line(done.stderr)


def test_type_of_service(daemon, check_schema):
    document = daemon.run(*SHORT, "--skip-latency", "--tos", "104")
    check_schema(document)
    assert document["config"]["tos"] == 104
    done = daemon.zcctl("run", "--strategy", "copy_blocking", "--peer", "self", "--tos", "256", status=2)
    assert "tos" in one_line(done.stderr)


def test_device_by_name(daemon, check_schema):
    """The daemon's own, by name; and one that does not exist, refused by its name while the daemon goes on."""
    [name, *_] = [device["name"] for device in daemon.call("device.list")["devices"] if device["port_state"] == "ACTIVE"]
    document = daemon.run(*SHORT, "--device", name)
    check_schema(document)
    assert document["config"]["device"] == document["environment"]["device"]["name"] == name
    done = daemon.zcctl("run", "--strategy", "copy_blocking", "--peer", "self", *SHORT, "--device", "mlx9_9", status=1)
    assert "mlx9_9" in one_line(done.stderr) and name in done.stderr
    daemon.serves()


@pytest.fixture
def second_device():
    """rxe1, on an interface and a network of its own."""
    for command in ("ip link add d1 type dummy", "ip link set d1 mtu 9000 up", "ip addr add 10.9.1.1/24 dev d1",
                    "rdma link add rxe1 type rxe netdev d1"):
        subprocess.run(command.split(), check=True, timeout=60)
    yield
    for command in ("rdma link del rxe1", "ip link del d1"):
        subprocess.run(command.split(), check=True, timeout=60)


@pytest.mark.skipif(not LAB, reason="changes the machine")
def test_two_devices(second_device, new, start, check_schema):
    """Each daemon listens and serves on its own; a run uses its daemon's, or the one that it names; what leads to another is refused."""
    first, second = start(device="rxe0"), start(device="rxe1")
    for daemon, name in ((first, "rxe0"), (second, "rxe1")):
        devices = {port["name"]: port for port in daemon.call("device.list")["devices"]}
        assert {port: (row["address"], row["netdev"], row["in_use"]) for port, row in devices.items()} == {
            "rxe0": ("10.9.0.1", "d0", name == "rxe0"), "rxe1": ("10.9.1.1", "d1", name == "rxe1")}
        shown = [line for line in daemon.zcctl("devices").stdout.splitlines() if not line.startswith(" ")]
        assert sorted(line.endswith("in use by zcrdmad") for line in shown) == [False, True]
        assert [line.split()[0] for line in shown if line.endswith("in use by zcrdmad")] == [name]
        assert daemon.call("stats")["device"] == name
    port = {daemon: daemon.call("stats")["listen"]["port"] for daemon in (first, second)}
    to_first, to_second = f"10.9.0.1:{port[first]}", f"10.9.1.1:{port[second]}"
    for daemon, options, peer, name in ((second, (), "self", "rxe1"), (second, ("--device", "rxe0"), to_first, "rxe0"),
                                        (first, ("--device", "rxe1"), to_second, "rxe1")):
        document = daemon.run(*SHORT, "--skip-latency", *options, peer=peer)
        check_schema(document)
        assert document["state"] == "done" and document["environment"]["device"]["name"] == name
    for options, peer, words in (((), to_first, "is reached over the device rxe0, not over rxe1"),
                                 (("--device", "rxe0"), f"10.9.0.1:{port[second]}", "it serves another RDMA device"),
                                 (("--device", "rxe9"), "self", "no RDMA device 'rxe9'; there is: rxe0 port 1 ACTIVE, rxe1 port 1 ACTIVE")):
        done = second.zcctl("run", "--strategy", "copy_blocking", "--peer", peer, *SHORT, *options, status=1)
        assert words in one_line(done.stderr)
    assert "it came over another RDMA device than this daemon's" in second.said()
    status, line = new(device="rxe9").refused()
    assert status == 1 and "'rxe9'" in line and "rxe0 port 1" in line and "rxe1 port 1" in line, line


def test_pages_of_the_region(new, start):
    """The region's pages are the daemon's own affair; where there are none, it says so and does not start."""
    if POOL_1G.exists() and int(POOL_1G.read_text()) == 0:
        status, line = new("--region-pages", "1g").refused()
        assert status == 1 and "/proc/sys/vm/nr_hugepages" in line
    if "[never]" in pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text():
        pytest.skip("this kernel has no transparent huge pages")
    daemon = start("--region-pages", "thp")
    assert daemon.call("stats")["region"]["huge_page_bytes"] >= 0
    daemon.serves()


@pytest.mark.parametrize("strategy", ("naive_blocking",) if LAB else ("copy_blocking", "naive_blocking"))
def test_independent_callers(daemon, check_schema, strategy):
    """N sessions, N connections, one result."""
    idle = daemon.objects()
    before = daemon.call("stats")["sessions"]["total"]
    done = daemon.zcctl("--json", "run", "--strategy", strategy, "--peer", "self", *SHORT, "--threads", "3", "--qps", "2")
    document = json.loads(done.stdout)
    check_schema(document)
    assert document["config"]["threads"] == 3
    assert document["terms"]["qps"] == 6 and document["terms"]["inflight"] == 3
    assert daemon.call("stats")["sessions"]["total"] == before + 3
    assert document["cost"]["allocations"] == 0
    throughput = document["throughput"]
    assert throughput["bytes"] == throughput["requests"] * 64 * 1024 == sum(throughput["series"])
    daemon.wait_objects(idle)
    table = daemon.zcctl("results", "show", document["id"]).stdout
    assert "of 3 independent callers together" in table
