# SPDX-License-Identifier: Apache-2.0
"""A writable store in a fresh folder, the commands as the main program mounts them, and what need not run.

What a published folder gives depends on its files and on the code of tables. A test of one that has passed is
left out until one of them changes, but for `--everything`.
"""

import hashlib
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest
import typer
from results_builders import Invoke
from riobed_results.cli import mount
from riobed_results.files import cache_dir
from riobed_results.store.store import Store, open_store
from typer.testing import CliRunner

_HERE = Path(__file__).parent
PUBLISHED = _HERE.parent / "published"
# Folder of the cache: for each state of a published folder, the tests that have passed.
VERIFIED = "verified"
_COMPUTES = ("numpy", "scipy", "statsmodels", "lifelines", "sqlalchemy", "pydantic")
_passed: dict[Path, list[str]] = {}


@cache
def _code() -> str:
    """Hash what computes: the package, its tests, Python and the libraries."""
    digest = hashlib.sha256(repr([sys.version, *map(version, _COMPUTES)]).encode())
    for folder in (_HERE.parent / "riobed_results", _HERE):
        for path in sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".j2")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def _stamp(folder: Path) -> Path:
    """Return the file with the tests that have passed on this state of a published folder."""
    digest = hashlib.sha256(_code().encode())
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return cache_dir() / VERIFIED / f"{folder.name}-{digest.hexdigest()[:16]}"


def _folder_of(item: pytest.Item) -> Path | None:
    """Return the published folder, the uppermost one, that a test is about."""
    parameters = getattr(item, "callspec", None)
    for value in parameters.params.values() if parameters else ():
        if isinstance(value, Path) and value.is_relative_to(PUBLISHED) and value != PUBLISHED:
            return PUBLISHED / value.relative_to(PUBLISHED).parts[0]
    return None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep the tests of one folder together."""
    if folder := _folder_of(item):
        item.add_marker(pytest.mark.xdist_group(f"published-{folder.name}"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what has passed."""
    done = []
    for item in items:
        if folder := _folder_of(item):
            stamp = _stamp(folder)
            # pytest-xdist appends the group.
            name = item.nodeid.removesuffix(f"@published-{folder.name}")
            item.user_properties.append(("verified", [str(stamp), name]))
            if stamp.exists() and name in stamp.read_text().splitlines():
                done.append(item)
    if done and not config.getoption("everything"):
        config.hook.pytest_deselected(items=done)
        gone = set(done)
        items[:] = [item for item in items if item not in gone]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect what has passed."""
    if report.when == "call" and report.passed:
        for name, value in report.user_properties:
            if name == "verified":
                _passed.setdefault(Path(value[0]), []).append(value[1])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep what has passed; in a run of several processes only their controller does."""
    if hasattr(session.config, "workerinput"):
        return
    for stamp, names in _passed.items():
        stamp.parent.mkdir(parents=True, exist_ok=True)
        with stamp.open("a") as file:
            file.writelines(f"{name}\n" for name in names)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "riobed.sqlite"


@pytest.fixture(scope="session")
def blank(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A new store's content: copying it is much faster than making a store for every test."""
    path = tmp_path_factory.mktemp("blank") / "riobed.sqlite"
    open_store(str(path), create=True)
    return path.read_bytes()


@pytest.fixture
def store(path: Path, blank: bytes) -> Store:
    path.write_bytes(blank)
    return open_store(str(path), create=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """A new store of either kind."""
    if request.param == "sqlite":
        request.getfixturevalue("store")
        return str(request.getfixturevalue("path"))
    url: str = request.getfixturevalue("postgres")
    open_store(url, create=True)
    return url


@pytest.fixture
def invoke() -> Invoke:
    app = typer.Typer()
    mount(app)
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])
