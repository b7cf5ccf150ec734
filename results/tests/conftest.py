# SPDX-License-Identifier: Apache-2.0
"""A writable store in a fresh folder, the commands as the main program mounts them, and what need not run."""

from pathlib import Path

import pytest
import typer
from publishing.cli import app as publishing_app
from results_builders import Invoke
from riobed_results.cli import mount
from riobed_results.store.store import Store, open_store
from typer.testing import CliRunner
from verified import Verified


def pytest_configure(config: pytest.Config) -> None:
    """Leave out tests of published folders that need not run."""
    results = Path(__file__).parents[1]
    code = (results / "riobed_results", results / "publishing", results / "tests")
    config.pluginmanager.register(Verified(config, results / "published", code))


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
    return of(app)


@pytest.fixture
def publishing() -> Invoke:
    """The commands of `python -m publishing`."""
    return of(publishing_app)


def of(app: typer.Typer) -> Invoke:
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])
