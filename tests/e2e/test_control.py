"""The control protocol, byte by byte: exactly one reply for each request, whatever else happens."""

import json
import socket
import time

import pytest

from harness import DEADLINE_S, LONG, SHORT, RpcError, wait_until

pytestmark = pytest.mark.native

PARSE, REQUEST, METHOD, PARAMS, NOT_FOUND, TOO_LONG = -32700, -32600, -32601, -32602, -32001, -32008
LINE_MAX = 1 << 20


def options(arguments):
    """The command line of a run as JSON members."""
    pairs = zip(arguments[::2], arguments[1::2])
    return {"strategy": "copy_blocking", "peer": "self",
            **{name[2:].replace("-", "_"): float(value) if value.replace(".", "").isdigit() else value for name, value in pairs}}


@pytest.fixture
def control(daemon):
    with daemon.control() as control:
        yield control


def expect_nothing_more(control):
    """A request that is known to be answered proves that nothing else was."""
    control.send({"jsonrpc": "2.0", "id": "last", "method": "version"})
    reply = control.receive()
    assert reply["id"] == "last" and "result" in reply, reply


@pytest.mark.parametrize("line, code, request_id", [
    (b"nonsense", PARSE, None),
    (b"{", PARSE, None),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "stats"} x', PARSE, None),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "st\xff\xfe"}', PARSE, None),
    (b"\0", PARSE, None),
    (b"[" * 100_000, PARSE, None),
    (b"1", REQUEST, None),
    (b'"text"', REQUEST, None),
    (b"null", REQUEST, None),
    (b"{}", REQUEST, None),
    (b"[]", REQUEST, None),
    (b'[{"jsonrpc": "2.0", "id": 1, "method": "stats"}]', REQUEST, None),
    (b'{"jsonrpc": "1.0", "id": 1, "method": "stats"}', REQUEST, 1),
    (b'{"id": 1, "method": "stats"}', REQUEST, 1),
    (b'{"jsonrpc": "2.0", "id": 1}', REQUEST, 1),
    (b'{"jsonrpc": "2.0", "id": 1, "method": 5}', REQUEST, 1),
    (b'{"jsonrpc": "2.0", "id": {}, "method": "stats"}', REQUEST, None),
    (b'{"jsonrpc": "2.0", "id": [1], "method": "stats"}', REQUEST, None),
    (b'{"jsonrpc": "2.0", "id": true, "method": "stats"}', REQUEST, None),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "stats", "params": 5}', None, 1),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "stats", "params": [1]}', None, 1),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "no.such"}', METHOD, 1),
    (b'{"jsonrpc": "2.0", "id": "x", "method": ""}', METHOD, "x"),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "stats", "params": {"sise": 1}}', PARAMS, 1),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "result.get"}', PARAMS, 1),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "result.get", "params": {"id": 5}}', PARAMS, 1),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "result.get", "params": {"id": "20000101T000000Z-copy_blocking-0000"}}', NOT_FOUND, 1),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "result.get", "params": {"id": "../../etc/passwd"}}', None, 1),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "run.wait", "params": {"id": "20000101T000000Z-copy_blocking-0000"}}', NOT_FOUND, 1),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "run.cancel", "params": {"id": "20000101T000000Z-copy_blocking-0000"}}', NOT_FOUND, 1),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "session.close", "params": {"id": 999}}', NOT_FOUND, 1),
], ids=lambda value: value[:60].decode(errors="replace") if isinstance(value, bytes) else "")
def test_error_reply(control, line, code, request_id):
    control.send_bytes(line + b"\n")
    reply = control.receive()
    assert reply["id"] == request_id
    assert code is None or reply["error"]["code"] == code, reply
    assert reply["error"]["message"]
    assert "field" in reply["error"]["data"]
    expect_nothing_more(control)


@pytest.mark.parametrize("request_id", [0, -7, "text", "", None, 2**53])
def test_id_comes_back(control, request_id):
    control.send({"jsonrpc": "2.0", "id": request_id, "method": "version"})
    reply = control.receive()
    assert reply["id"] == request_id and type(reply["id"]) is type(request_id)
    expect_nothing_more(control)


def test_notification_gets_no_reply(control):
    control.send({"jsonrpc": "2.0", "method": "stats"})
    control.send({"jsonrpc": "2.0", "method": "no.such"})
    control.send({"jsonrpc": "2.0", "method": "result.get", "params": {"id": 5}})
    expect_nothing_more(control)


def test_empty_lines(control):
    """Whatever an empty line means, it means it once a line and does not end the connection."""
    control.send_bytes(b"\n\r\n \n")
    control.send({"jsonrpc": "2.0", "id": "last", "method": "version"})
    replies = [control.receive()]
    while replies[-1]["id"] != "last":
        replies.append(control.receive())
    assert len(replies) <= 4


def test_overlong_line(control):
    """Refused once, skipped up to its newline, and the connection goes on."""
    control.send_bytes(b'{"jsonrpc": "2.0", "id": 1, "method": "' + b"x" * (2 * LINE_MAX))
    control.send_bytes(b'"}\n')
    reply = control.receive()
    assert reply["error"]["code"] == TOO_LONG and reply["id"] is None
    expect_nothing_more(control)


def test_longest_line(control):
    """1 MiB with its newline is allowed, one byte more is not."""
    head, tail = b'{"jsonrpc": "2.0", "id": 1, "method": "version"', b"}\n"
    control.send_bytes(head + b" " * (LINE_MAX - len(head) - len(tail)) + tail)
    assert "result" in control.receive()
    control.send_bytes(head + b" " * (LINE_MAX - len(head) - len(tail) + 1) + tail)
    assert control.receive()["error"]["code"] == TOO_LONG
    expect_nothing_more(control)


def test_half_lines(control):
    """A line in single bytes; then two and a half lines in one piece."""
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "version"}).encode() + b"\n"
    for byte in line:
        control.send_bytes(bytes([byte]))
    assert control.receive()["id"] == 1
    control.send_bytes(line + line + line[:20])
    assert control.receive()["id"] == control.receive()["id"] == 1
    control.send_bytes(line[20:])
    assert control.receive()["id"] == 1
    expect_nothing_more(control)


def test_many_requests_at_once(control):
    """Several outstanding on one connection: each is answered once."""
    count = 500
    control.send_bytes(b"".join(json.dumps({"jsonrpc": "2.0", "id": i, "method": "stats"}).encode() + b"\n" for i in range(count)))
    assert sorted(control.receive()["id"] for _ in range(count)) == list(range(count))
    expect_nothing_more(control)


def test_half_closed_client_is_answered(control):
    """`printf ... | nc -N -U`: the client has said everything and still listens."""
    control.send({"jsonrpc": "2.0", "id": 1, "method": "version"})
    control.socket.shutdown(socket.SHUT_WR)
    assert "result" in control.receive()
    assert control.receive() is None


def test_silent_and_greedy_clients_disturb_nobody(daemon):
    """Half a line and then silence; requests without ever reading the answers; many connections."""
    silent, greedy = daemon.control(), daemon.control()
    silent.send_bytes(b'{"jsonrpc": ')
    greedy.socket.settimeout(0.5)
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "stats"}).encode() + b"\n"
    try:
        for _ in range(100):
            greedy.send_bytes(line * 1000)
    except OSError:
        pass                                    # the daemon stopped reading, or threw it out
    others = [daemon.control() for _ in range(30)]
    for other in others:
        assert "sessions" in other.call("stats")
    for each in (silent, greedy, *others):
        each.close()
    daemon.serves()


def test_every_method_is_served(control):
    """Without parameters each either works or says which one is missing."""
    methods = ["run.start", "run.wait", "run.cancel", "run.list", "result.list", "result.get", "result.delete", "stats",
               "session.list", "session.close", "device.list", "version"]
    for method in methods:
        try:
            assert isinstance(control.call(method), dict), method
        except RpcError as error:
            assert error.code == PARAMS and error.data["field"], f"{method}: {error}"


def test_progress_notifications(control):
    """Only who asks for progress gets it, and it names its run."""
    run = control.call("run.start", options(SHORT))["id"]
    outcome = control.call("run.wait", {"id": run, "progress": True})
    assert outcome["result"]["id"] == run and outcome["result"]["state"] == "done"
    assert control.notifications
    for notification in control.notifications:
        assert notification["params"]["id"] == run
    control.notifications.clear()
    run = control.call("run.start", options(SHORT))["id"]
    control.call("run.wait", {"id": run})
    assert not control.notifications


def test_other_requests_while_waiting(control):
    """run.wait is outstanding; the same connection is served meanwhile."""
    run = control.call("run.start", options(LONG))["id"]
    waiting = control.ask("run.wait", {"id": run})
    assert [r["id"] for r in control.call("run.list")["runs"]] == [run]
    control.call("run.cancel", {"id": run})
    reply = control.answer()
    assert reply["id"] == waiting
    assert reply["result"]["result"]["state"] == "cancelled"


def test_two_clients_wait_for_one_run(daemon):
    with daemon.control() as a, daemon.control() as b:
        run = a.call("run.start", options(SHORT))["id"]
        asked = a.ask("run.wait", {"id": run}), b.ask("run.wait", {"id": run})
        replies = a.answer(), b.answer()
        assert tuple(r["id"] for r in replies) == asked
        assert replies[0]["result"] == replies[1]["result"]
        with daemon.control() as late:          # the run has ended long ago
            assert late.call("run.wait", {"id": run})["result"] == replies[0]["result"]["result"]


def test_cancel_a_queued_run(control):
    active = control.call("run.start", options(LONG))["id"]
    queued = control.call("run.start", options(LONG))["id"]
    control.call("run.cancel", {"id": queued})
    assert control.call("run.wait", {"id": queued})["result"]["state"] == "cancelled"
    control.call("run.cancel", {"id": active})
    assert control.call("run.wait", {"id": active})["result"]["state"] == "cancelled"


def test_client_vanishes(daemon):
    """Its run goes on, and the result is stored."""
    with daemon.control() as control:
        run = control.call("run.start", options(SHORT))["id"]
        control.ask("run.wait", {"id": run, "progress": True})
    zcctl = daemon.popen("--json", "run", "--strategy", "copy_blocking", "--peer", "self", *SHORT)
    wait_until(lambda: len(daemon.call("run.list")["runs"]) >= 1 and
               (len(daemon.call("run.list")["runs"]) == 2 or run in ids(daemon)), "the second run is there")
    zcctl.kill()
    zcctl.communicate(timeout=DEADLINE_S)
    wait_until(lambda: not daemon.call("run.list")["runs"], "all runs have ended")
    assert run in ids(daemon)
    assert daemon.call("result.get", {"id": run})["state"] == "done"


def ids(daemon):
    return [row["id"] for row in daemon.call("result.list")["results"]]


def test_results_list_and_delete(daemon):
    """Newest first; a deleted one is gone."""
    older = daemon.run(*SHORT)["id"]
    time.sleep(0.01)
    newer = daemon.run(*SHORT)["id"]
    assert ids(daemon)[:2] == [newer, older]
    daemon.call("result.delete", {"id": newer})
    assert newer not in ids(daemon)
    for method in ("result.get", "result.delete"):
        with pytest.raises(RpcError) as caught:
            daemon.call(method, {"id": newer})
        assert caught.value.code == NOT_FOUND
