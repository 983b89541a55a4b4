"""Programs that we did not write run on the software device unchanged. Everything else about it has tests of its own."""

import subprocess

import pytest

from harness import DEADLINE_S, SOFT, environment, free_port, wait_until

pytestmark = pytest.mark.skipif(not SOFT, reason="the software device is not used here")


def program(*arguments):
    done = subprocess.run(arguments, env=environment(preload=True), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=DEADLINE_S)
    assert done.returncode == 0, done
    return done.stdout


def device_name():
    return program("ibv_devices").splitlines()[-1].split()[0]


def test_ibv_devices():
    rows = program("ibv_devices").splitlines()[2:]
    assert len(rows) == 1


def test_ibv_devinfo():
    shown = program("ibv_devinfo")
    assert f"hca_id:\t{device_name()}" in shown
    assert "PORT_ACTIVE" in shown and "Ethernet" in shown
    assert "max_qp_rd_atom" in program("ibv_devinfo", "-v")


@pytest.mark.parametrize("options", [(), ("-e",), ("-s", "1048576", "-n", "200")], ids=" ".join)
def test_ibv_rc_pingpong(options):
    port = str(free_port())
    command = ["ibv_rc_pingpong", "-g", "0", "-p", port, *options]
    with subprocess.Popen(command, env=environment(preload=True), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as server:
        try:
            # The server says its address, and then listens: a client that comes too early is told so.
            def client():
                done = subprocess.run([*command, "127.0.0.1"], env=environment(preload=True), stdin=subprocess.DEVNULL,
                                      capture_output=True, text=True, timeout=DEADLINE_S)
                assert server.poll() is None or done.returncode == 0, done
                return done.stdout if done.returncode == 0 else None
            assert "iters in" in wait_until(client, "ibv_rc_pingpong has finished")
            assert server.wait(DEADLINE_S) == 0
        finally:
            server.kill()


def test_daemon_shows_its_device(daemon):
    [port] = daemon.call("device.list")["devices"]
    assert port["kind"] == "software" and port["name"] == device_name()
    assert "software" in daemon.zcctl("devices").stdout


def test_model_is_named_in_every_result(start):
    """What the software device was told to play stands in the document and in the table."""
    daemon = start(ZCSOFT_LATENCY="200000")
    done = daemon.zcctl("run", "--strategy", "copy_blocking", "--peer", "self", "--size", "64K", "--warmup", "0", "--measure", "0.3")
    assert done.returncode == 0, done.stderr
    assert "It plays a model:" in done.stdout
    [row] = daemon.call("result.list")["results"]
    document = daemon.call("result.get", {"id": row["id"]})
    assert document["environment"]["device"]["model"]
    assert document["latency"]["available"]["min_ns"] >= 200000
