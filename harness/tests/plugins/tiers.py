# SPDX-License-Identifier: Apache-2.0
"""The tiers of the tests (docs/tests.md): how much runs, in which order, and where a stopped run goes on."""

import gc
import hashlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from riobed.products.stages import GUESTS
from riobed.signals import clean_up_when_told_to_end
from riobed.vm.host.process import end_qemus
from riobed.vm.host.scratch import clean_up_after_the_dead
from riobed_results.files import cache_dir

# Beginning of the reason of a skip that --no-skips accepts.
HOST_LACKS = "this host lacks "
# Integration tests of a minute and more. They begin first, or one worker would run the last of them alone.
LONGEST = [
    "nvram",
    "bench",
    "every_mode",
    "commands",
    "replay",
    "systems",
    "planted",
    "survival",
    "cluster",
    "pytest_plugin",
]
# Fixtures that are a guest; tests of a module with the same one run in one worker, which boots it once.
_GUESTS = ("mode", "guest", "guest_of", "dax", "riobed_guest")
# What a test does more of with --everything, by the variable that it reads.
_LONG = {"RIOBED_KILLS": "20", "RIOBED_RESETS": "40"}
_SHORT = "/var/tmp/rb"
_PASSED = pytest.StashKey[set[str]]()

# A shell starts a process with & so that it ignores SIGINT; the commands that tests end with it would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)
clean_up_when_told_to_end()
# Guests that are ready outlive a run, unless the caller chose another place for them.
os.environ.setdefault("RIOBED_SNAPSHOTS", str(cache_dir() / GUESTS))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that `make test` and `make test-all` use."""
    group = parser.getgroup("tiers of riobed's tests")
    group.addoption("--everything", action="store_true", help="run long tests at full length")
    group.addoption("--no-skips", action="store_true", help=f"a skip fails, but for '{HOST_LACKS}…'")
    group.addoption(
        "--go-on", metavar="FILE", type=Path, help="leave out what FILE says has passed on these sources"
    )


@pytest.fixture(scope="session")
def longer(pytestconfig: pytest.Config) -> int:
    """How many times as often tests with random inputs try one: 10 with --everything, else 1."""
    return 10 if pytestconfig.getoption("everything") else 1


class Passed:
    """The tests that have passed on these sources, in this run or in one that was stopped.

    The file's first line is a hash of the sources; each further one is a test as JSON.
    """

    def __init__(self, file: Path, root: Path) -> None:
        self._file = file
        self._failed: set[str] = set()
        sources = _sources(root)
        lines = file.read_text().splitlines() if file.exists() else []
        if lines[:1] != [sources]:
            lines = [sources]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{sources}\n")
        self.before = sorted(map(json.loads, lines[1:]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that has passed: no phase of it failed, and the last one is over."""
        if report.failed:
            self._failed.add(report.nodeid)
        if report.when == "teardown" and report.nodeid not in self._failed:
            with self._file.open("a") as file:
                file.write(json.dumps(_without_group(report.nodeid)) + "\n")

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of pytest-xdist what had passed before this run: all must collect the same tests."""
        node.workerinput["passed"] = self.before

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Let a run succeed that has nothing left to do."""
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self.before:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say how many tests have passed on these sources."""
        passed = len(self._file.read_text().splitlines()) - 1
        terminalreporter.write_line(
            f"{passed} tests have passed on these sources, {len(self.before)} of them before"
        )


def short_folder() -> Path:
    """Return a short path, for sockets, for a folder of this process; the next run removes what is left."""
    return Path(f"{_SHORT}{os.getpid()}")


def remove_short_folder(folder: Path) -> None:
    """Remove such a folder, and end the guests that have their files in it."""
    end_qemus(f"{folder}/".encode())
    shutil.rmtree(folder, ignore_errors=True)


def _remove_folders_of_the_dead() -> None:
    for folder in Path(_SHORT).parent.glob(f"{Path(_SHORT).name}[0-9]*"):
        if not Path("/proc", folder.name.removeprefix(Path(_SHORT).name)).exists():
            remove_short_folder(folder)


def _sources(root: Path) -> str:
    """Hash what git knows of the checkout, and what differs from it."""
    digest = hashlib.sha256()
    for command in (["rev-parse", "HEAD^{tree}"], ["diff", "HEAD"], ["status", "--porcelain"]):
        digest.update(subprocess.run(["git", "-C", root, *command], check=True, capture_output=True).stdout)
    return digest.hexdigest()


def pytest_configure(config: pytest.Config) -> None:
    """Remove what killed runs have left, and read what has passed."""
    if config.getoption("everything"):
        # Test modules are imported later.
        for name, value in _LONG.items():
            os.environ.setdefault(name, value)
    if hasattr(config, "workerinput"):
        config.stash[_PASSED] = set(config.workerinput.get("passed", ()))
        return
    clean_up_after_the_dead()
    _remove_folders_of_the_dead()
    if file := config.getoption("go_on"):
        passed = Passed(file, config.rootpath)
        config.pluginmanager.register(passed)
        config.stash[_PASSED] = set(passed.before)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage, which takes a quarter of the time.

    What was collected stays until the end, so that no search for garbage goes through it again.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep the tests of one guest together. pytest-xdist reads the groups before the list can be modified."""
    if not item.get_closest_marker("xdist_group"):
        item.add_marker(pytest.mark.xdist_group(_group(item)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order tests by what a failure tells soonest, and leave out what has passed."""
    rank = {f"test_{name}": number for number, name in enumerate(LONGEST)}

    def place(item: pytest.Item) -> int:
        return 1 + rank.get(item.path.stem, len(rank)) if item.get_closest_marker("integration") else 0

    items.sort(key=place)
    passed = config.stash.get(_PASSED, set())
    done = [item for item in items if _without_group(item.nodeid) in passed]
    if done:
        config.hook.pytest_deselected(items=done)
        gone = set(done)
        items[:] = [item for item in items if item not in gone]


def _without_group(name: str) -> str:
    """Return a test's name without the group that pytest-xdist may have appended."""
    return name.rpartition("@")[0] if name.rfind("@") > name.rfind("]") else name


def _group(item: pytest.Item) -> str:
    parameters = getattr(item, "callspec", None)
    values = parameters.params if parameters else {}
    # Other values, such as functions, have another text in each process.
    guest = [str(values[name]) for name in _GUESTS if isinstance(values.get(name), str | int)]
    place = item.path.relative_to(item.config.rootpath).with_suffix("")
    if place.parts[0] == "workloads" or place.parts[:2] == ("harness", "guest"):
        # All tests of a program share what is built of it.
        place = place.parent
    return "-".join([*place.parts, *guest])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make a skip a failure where each test has to run."""
    report = yield
    if report.skipped and item.config.getoption("no_skips") and isinstance(report.longrepr, tuple):
        why = str(report.longrepr[2]).removeprefix("Skipped: ")
        if not why.startswith(HOST_LACKS):
            report.outcome = "failed"
            report.longrepr = f"skipped ({why}), but each test has to run; see docs/tests.md"
    return report
