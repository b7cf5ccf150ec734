# SPDX-License-Identifier: Apache-2.0
"""Leave out tests of published folders that have passed, until the folder or the code of tables changes."""

import hashlib
import sqlite3
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
from riobed_results.files import verified_dir, write_whole

_NAME = "verified"


class Verified:
    """A plugin of pytest: a test is about the folder of `published` that is among its parameters.

    The cache has a file for each folder that has passed. Its name is a hash of the folder and of all that
    computes, and it lists the tests. A folder with a failed test has none.
    """

    def __init__(self, config: pytest.Config, published: Path, code: Iterable[Path]) -> None:
        self._published, self._code_folders = published, code
        self._passed: dict[str, set[str]] = {}
        self._failed: set[str] = set()
        self._is_worker = hasattr(config, "workerinput")
        # All workers of pytest-xdist must collect the same tests, so their controller decides.
        if self._is_worker:
            self._before = config.workerinput.get(_NAME, {})  # type: ignore[attr-defined]
            return
        # What passes in this run has passed on the files that are there now.
        folders = [path.name for path in sorted(published.iterdir()) if path.is_dir()]
        self._stamps = {name: self._stamp(name) for name in folders}
        everything = config.getoption("everything", default=False)
        self._before = {
            name: stamp.read_text().splitlines()
            for name, stamp in self._stamps.items()
            if stamp.is_file() and not everything
        }

    @cached_property
    def _code(self) -> str:
        """Hash what computes: the code, Python, SQLite and all packages."""
        packages = sorted({f"{package.name} {package.version}" for package in distributions()})
        digest = hashlib.sha256(repr([sys.version, sqlite3.sqlite_version, packages]).encode())
        for folder in self._code_folders:
            _add(digest, folder, (".py", ".j2"))
        return digest.hexdigest()

    def _stamp(self, name: str) -> Path:
        digest = hashlib.sha256(self._code.encode())
        _add(digest, self._published / name)
        return verified_dir() / f"{name}-{digest.hexdigest()[:16]}"

    def _folder_of(self, item: pytest.Item) -> str | None:
        parameters = getattr(item, "callspec", None)
        for value in parameters.params.values() if parameters else ():
            if isinstance(value, Path) and self._published in value.parents:
                return value.relative_to(self._published).parts[0]
        return None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of pytest-xdist what had passed before this run."""
        node.workerinput[_NAME] = self._before

    def pytest_report_header(self) -> str | None:
        """Say of how many folders tests are left out."""
        if not self._before:
            return None
        return (
            f"published: tests of {len(self._before)} folders are left out. They have passed, and "
            "neither folder nor code has changed since (--everything: run all)"
        )

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Keep the tests of one folder in one worker."""
        if name := self._folder_of(item):
            item.add_marker(pytest.mark.xdist_group(f"published-{name}"))

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what has passed."""
        done = []
        for item in items:
            if name := self._folder_of(item):
                # pytest-xdist appends the group.
                test = item.nodeid.removesuffix(f"@published-{name}")
                item.user_properties.append((_NAME, [name, test]))
                if test in self._before.get(name, ()):
                    done.append(item)
        if done:
            config.hook.pytest_deselected(items=done)
            gone = set(done)
            items[:] = [item for item in items if item not in gone]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what has passed, and the folders of what has failed in any phase."""
        for name, value in report.user_properties:
            if name == _NAME and isinstance(value, list):
                folder, test = value
                if report.failed:
                    self._failed.add(folder)
                elif report.when == "call" and report.passed:
                    self._passed.setdefault(folder, set()).add(test)

    def pytest_sessionfinish(self) -> None:
        """Keep what has passed; a cache that cannot be written only costs time."""
        if self._is_worker:
            return
        with suppress(OSError):
            for folder in self._failed:
                self._stamps[folder].unlink(missing_ok=True)
            for folder in self._passed.keys() - self._failed:
                stamp = self._stamps[folder]
                stamp.parent.mkdir(parents=True, exist_ok=True)
                tests = self._passed[folder].union(self._before.get(folder, ()))
                write_whole(stamp, "".join(f"{test}\n" for test in sorted(tests)).encode())


def _add(digest: Any, folder: Path, suffixes: tuple[str, ...] = ()) -> None:
    """Add the name and the content of each file in a folder to a hash."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if not suffixes or path.suffix in suffixes:
            content = path.read_bytes()
            digest.update(f"{path.relative_to(folder)}\0{len(content)}\0".encode() + content)
