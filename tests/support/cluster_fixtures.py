"""Fixtures and hooks of every test that runs a cluster; a conftest imports all of them."""

import ctypes

import pytest

from cluster import BIN, Cluster, sanitizer_reports


def pytest_addoption(parser):
    try:
        parser.addoption("--long", action="store_true", help="more rounds, for runs by hand")
    except ValueError:  # several conftests of one run import this
        pass


@pytest.fixture(scope="session")
def long_run(request):
    return request.config.getoption("--long")


@pytest.fixture(scope="session", autouse=True)
def binaries():
    for name in ("elastripe", "elastripe-node", "elastripe-proxy"):
        assert (BIN / name).exists(), f"{BIN / name} is not built; set ELASTRIPE_BIN"


@pytest.fixture(scope="module")
def make_cluster(tmp_path_factory):
    """Starts clusters that end with the module; a crash or sanitizer report fails it."""
    clusters = []

    def make(**options):
        cluster = Cluster(tmp_path_factory.mktemp("cluster"), **options)
        clusters.append(cluster)
        return cluster

    yield make
    reports = []
    for cluster in clusters:
        cluster.stop()
        reports += sanitizer_reports(cluster.dir)
    assert not reports, "\n".join(reports)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Shows the end of every log of a failed test's clusters."""
    outcome = yield
    report = outcome.get_result()
    if report.when != "call" or not report.failed:
        return
    for value in item.funcargs.values():
        if isinstance(value, Cluster):
            for log in sorted(value.dir.glob("*.log")):
                lines = log.read_text(errors="replace").splitlines()[-15:]
                report.sections.append((log.name, "\n".join(lines)))


def pytest_terminal_summary(terminalreporter):
    """What tests have measured and not judged: record_property() of pytest."""
    told = [(report.nodeid, name, value)
            for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
            if report.when == "call" for name, value in report.user_properties]
    if told:
        terminalreporter.section("measured")
    for test, name, value in told:
        terminalreporter.line(f"{test.rpartition('::')[2]}: {name}: {value}")


@pytest.fixture(scope="module")
def parent_of_all():
    """The processes that `elastripe cluster` leaves behind become this one's, so that it can ask
    how they ended."""
    pr_set_child_subreaper = 36
    libc = ctypes.CDLL(None)
    assert libc.prctl(pr_set_child_subreaper, 1, 0, 0, 0) == 0
    yield
    assert libc.prctl(pr_set_child_subreaper, 0, 0, 0, 0) == 0
