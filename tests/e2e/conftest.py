"""Fixtures: a folder that an unprivileged user may enter, daemons that are stopped and looked at afterwards, a deadline for
every test."""

import json
import pathlib
import shutil
import signal
import tempfile

import jsonschema
import pytest

import harness


def pytest_report_header():
    return f"zcrdma: {harness.BUILD}, device {harness.DEVICE}{', in the lab' if harness.LAB else ''}"


def pytest_configure(config):
    config.addinivalue_line("markers", "native: the device has no part in it, so that the lab's slow CPU need not repeat it")


def pytest_collection_modifyitems(config, items):
    if harness.LAB:
        left_out = [item for item in items if item.get_closest_marker("native")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """A test that hangs fails where it hangs."""
    def expired(_signal, _frame):
        raise TimeoutError("the test took too long")
    signal.signal(signal.SIGALRM, expired)
    signal.alarm(100 * (3 if harness.LAB else 1))
    yield
    signal.alarm(0)


@pytest.fixture(scope="module")
def module_folder():
    """pytest's own folders are closed to other users, and their names are too long for a socket."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="zc-e2e-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def folder():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="zc-e2e-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def finish(daemons):
    errors = []
    for daemon in reversed(daemons):
        try:
            daemon.finish()
        except BaseException as error:
            errors.append(error)
        finally:
            if daemon.process:
                daemon.kill()
            print(f"--- {daemon.directory.name} said:\n{daemon.said()[-8000:]}")
    if errors:
        raise errors[0]


@pytest.fixture
def new(folder):
    """new(...) makes a daemon that is not started yet."""
    daemons = []

    def make(*arguments, directory=None, **keywords):
        daemons.append(harness.Daemon(directory or folder / f"daemon{len(daemons)}", *arguments, **keywords))
        return daemons[-1]
    yield make
    finish(daemons)


@pytest.fixture
def start(new):
    """start(...) is a daemon that is ready."""
    return lambda *arguments, **keywords: new(*arguments, **keywords).start()


@pytest.fixture(scope="module")
def daemon(module_folder):
    """One daemon for all tests of a file: those that must not disturb it."""
    daemon = harness.Daemon(module_folder / "daemon").start()
    yield daemon
    finish([daemon])


@pytest.fixture
def peer():
    """peer(...) starts the misbehaving peer."""
    peers = []

    def make(*arguments):
        peers.append(harness.Peer(*arguments))
        return peers[-1]
    yield make
    for each in peers:
        each.stop()


def schema_check(kind):
    """Validates a document by proto/KIND.schema.json, which may refer to those beside it."""
    schemas = {path.name: json.loads(path.read_text()) for path in (harness.SOURCE / "proto").glob("*.schema.json")}
    schema = schemas[f"{kind}.schema.json"]
    jsonschema.Draft202012Validator.check_schema(schema)
    resolver = jsonschema.RefResolver.from_schema(schema, store={each["$id"]: each for each in schemas.values()})
    return jsonschema.Draft202012Validator(schema, resolver=resolver).validate


@pytest.fixture(scope="session")
def check_schema():
    return schema_check("result")
