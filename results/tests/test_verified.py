# SPDX-License-Identifier: Apache-2.0
"""A test of a published folder runs again when the folder or the code has changed, or if one of it failed."""

from pathlib import Path

import pytest
from riobed_results.files import verified_dir

pytestmark = pytest.mark.slow
CONFTEST = """
from pathlib import Path
from verified import Verified

def pytest_addoption(parser):
    parser.addoption("--everything", action="store_true")

def pytest_configure(config):
    here = Path(__file__).parent
    config.pluginmanager.register(Verified(config, here / "published", [here / "code"]))
"""
TESTS = """
from pathlib import Path
import pytest

HERE = Path(__file__).parent
every = pytest.mark.parametrize("folder", sorted((HERE / "published").iterdir()), ids=lambda path: path.name)

def ran(name):
    with (HERE / "ran").open("a") as file:
        file.write(f"{name} ")

@every
def test_rows(folder):
    ran(f"{folder.name}-rows")
    assert "bad" not in (folder / "rows").read_text()

@every
def test_figures(folder):
    ran(f"{folder.name}-figures")

def test_front_page():
    ran("front")
"""
ALL = ["front", "one-figures", "one-rows", "two-figures", "two-rows"]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Tests of two published folders, and a cache."""
    monkeypatch.setenv("RIOBED_CACHE", str(pytester.path / "cache"))
    monkeypatch.syspath_prepend(Path(__file__).parent)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=":")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_some=TESTS)
    for name in ("published/one/rows", "published/two/rows", "code/tables.py"):
        change(pytester, name, "first")
    return pytester


def change(project: pytest.Pytester, name: str, text: str) -> None:
    path = project.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def ran(project: pytest.Pytester, *words: str) -> list[str]:
    """Run the tests; return the names of those that ran."""
    file = project.path / "ran"
    file.unlink(missing_ok=True)
    done = project.runpytest_subprocess(*words)
    assert done.ret in (0, 1) and "INTERNALERROR" not in done.stdout.str() + done.stderr.str()
    return sorted(file.read_text().split())


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_has_passed_is_left_out_until_something_changes(project: pytest.Pytester, workers: str) -> None:
    words = ("-n", workers, "--dist", "loadgroup")
    assert ran(project, *words) == ALL
    assert ran(project, *words) == ran(project, "-n", "0") == ["front"]
    assert ran(project, *words, "--everything") == ALL
    change(project, "published/one/rows", "other")
    assert ran(project, *words) == ["front", "one-figures", "one-rows"]
    change(project, "code/tables.py", "other")
    assert ran(project, *words) == ALL


def test_nothing_of_a_folder_counts_if_one_of_its_tests_failed(project: pytest.Pytester) -> None:
    change(project, "published/two/rows", "bad")
    assert ran(project) == ALL
    assert [path.name.partition("-")[0] for path in verified_dir().iterdir()] == ["one"]
    assert ran(project) == ["front", "two-figures", "two-rows"]


def test_a_part_of_the_tests_stands_for_no_other(project: pytest.Pytester) -> None:
    assert ran(project, "-k", "rows") == ["one-rows", "two-rows"]
    assert ran(project) == ["front", "one-figures", "two-figures"]


def test_a_folder_that_changes_while_its_tests_run_has_not_passed(project: pytest.Pytester) -> None:
    change(project, "test_late.py", "def test_late():\n    open('published/one/rows', 'w').write('late')\n")
    ran(project)
    (project.path / "test_late.py").unlink()
    assert ran(project) == ["front", "one-figures", "one-rows"]


def test_the_header_says_what_is_left_out(project: pytest.Pytester) -> None:
    ran(project)
    project.runpytest_subprocess().stdout.fnmatch_lines(["published: tests of 2 folders are left out.*"])


def test_workers_collect_what_their_controller_says(project: pytest.Pytester) -> None:
    """A stamp that another run writes meanwhile changes nothing: workers read none."""
    ran(project)
    stamps = {path: path.read_text() for path in verified_dir().iterdir()}
    for path in stamps:
        path.unlink()
    # The first worker to collect finds no stamp, the second would find them all.
    lines = "\n".join(f"    Path({str(path)!r}).write_text({text!r})" for path, text in stamps.items())
    change(project, "test_some.py", f"{TESTS}\nif True:\n{lines}\n")
    assert ran(project, "-n", "2", "--dist", "loadgroup") == ALL
