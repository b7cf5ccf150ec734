# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin: option, marker, fixtures, and the guest's console in the report of a failed test.

pytest loads this file in every run, so riobed itself is imported only when a test uses a guest.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_riobed.guest import CrashGuest
    from pytest_riobed.guests import Guests

DEFAULT_MODE = "rio"
_MARKER = "riobed"
_guest_key = pytest.StashKey["CrashGuest"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that overrides the modes in markers."""
    parser.getgroup("riobed").addoption(
        "--riobed-mode",
        action="append",
        default=[],
        metavar="MODE",
        help="cache mode of riobed_guest, overrides those that tests name; repeatable",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; reject unknown modes before collection."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(*modes, packages=[], memory_mib=512, disk_mib=128, vcpus=1): the guests of a test "
        "with riobed_guest: cache modes, Debian packages and size",
    )
    if modes := config.getoption("riobed_mode"):
        from riobed import UsageError, cache_mode

        try:
            for mode in modes:
                cache_mode(mode)
        except UsageError as error:
            raise pytest.UsageError(f"--riobed-mode: {error}") from None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with riobed_guest once in each of its modes."""
    if "riobed_guest" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker(_MARKER)
        modes = metafunc.config.getoption("riobed_mode") or (marker and marker.args) or [DEFAULT_MODE]
        metafunc.parametrize("riobed_guest", modes, indirect=True)


@pytest.fixture(scope="session")
def riobed_guests() -> Iterator[Guests]:
    """All guests of the session; tests use riobed_guest instead."""
    from riobed import clean_up_when_told_to_end

    from pytest_riobed.guests import Guests

    # A CI job's timeout is a SIGTERM. A run without guests has nothing to clean up, and keeps its handlers.
    clean_up_when_told_to_end()
    guests = Guests()
    yield guests
    guests.end()


@pytest.fixture
def riobed_guest(request: pytest.FixtureRequest, riobed_guests: Guests) -> Iterator[CrashGuest]:
    """A guest with an empty file system under test, as the marker `riobed` describes it."""
    marker = request.node.get_closest_marker(_MARKER)
    arguments: dict[str, Any] = dict(marker.kwargs) if marker else {}
    with _one_line():
        packages, power_lines = arguments.pop("packages", ()), bool(arguments.pop("power_lines", False))
        guest = riobed_guests.get(request.param, packages, arguments, power_lines)
        request.node.stash[_guest_key] = guest
        guest.begin()
    yield guest
    with _one_line():
        guest.rest()


@contextmanager
def _one_line() -> Iterator[None]:
    from riobed import RiobedError

    try:
        yield
    except RiobedError as error:
        pytest.fail(f"riobed: {error}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Append the guest's console to what a failed test printed."""
    report = yield
    guest = item.stash.get(_guest_key, None)
    if guest and report.failed:
        report.sections += [(f"console of the guest, {name}", text) for name, text in guest.logs()]
    return report
