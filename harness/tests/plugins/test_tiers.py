# SPDX-License-Identifier: Apache-2.0
"""A run of tests that was stopped goes on, and a skip is a failure where each test has to run."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiers import HOST_LACKS

TESTS = """
import pytest
from pathlib import Path

@pytest.mark.parametrize("mode", ["rio", "delayed"])
@pytest.mark.parametrize("number", range(6))
def test_guest(mode, number):
    with Path("ran").open("a") as file:
        file.write(f"{mode}-{number}\\n")

def test_fails_once():
    assert Path("mended").exists()
"""


@pytest.fixture
def checkout(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A checkout with some tests, and runs that know the tiers."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    pytester.makeconftest('pytest_plugins = ["tiers"]')
    pytester.makepyfile(test_some=TESTS)
    (pytester.path / ".gitignore").write_text("passed\nran\n__pycache__\n.pytest_cache\n")
    for command in ("init -q", "add .", "-c user.name=x -c user.email=x@x commit -qm x"):
        subprocess.run(["git", *command.split()], cwd=pytester.path, check=True)
    return pytester


def ran(checkout: pytest.Pytester) -> list[str]:
    """Return the tests that ran since the last call."""
    file = checkout.path / "ran"
    names = sorted(file.read_text().split()) if file.exists() else []
    file.unlink(missing_ok=True)
    return names


ALL = sorted(f"{mode}-{number}" for mode in ("rio", "delayed") for number in range(6))


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_has_passed_is_left_out_until_the_sources_change(
    checkout: pytest.Pytester, workers: str
) -> None:
    words = ["--go-on", "passed", "-n", workers, "--dist", "loadgroup"]
    first = checkout.runpytest_subprocess(*words)
    first.assert_outcomes(passed=12, failed=1)
    assert ran(checkout) == ALL
    again = checkout.runpytest_subprocess(*words)
    again.assert_outcomes(failed=1, deselected=0 if workers == "2" else 12)
    again.stdout.fnmatch_lines(["12 tests have passed on these sources, 12 of them before"])
    assert ran(checkout) == []
    (checkout.path / "mended").touch()
    checkout.runpytest_subprocess(*words).assert_outcomes(passed=13)
    assert ran(checkout) == ALL
    assert checkout.runpytest_subprocess(*words).ret == pytest.ExitCode.OK
    assert ran(checkout) == []


def test_tests_of_one_guest_stay_together(checkout: pytest.Pytester) -> None:
    result = checkout.runpytest_subprocess("-n", "2", "--dist", "loadgroup", "-v", "-k", "guest")
    result.assert_outcomes(passed=12)
    for mode in ("rio", "delayed"):
        lines = [line for line in result.outlines if "PASSED" in line and f"-{mode}]@" in line]
        assert len(lines) == 6 and len({line.split()[0] for line in lines}) == 1


@pytest.mark.parametrize(("reason", "skipped"), [("too slow", 0), (f"{HOST_LACKS}KVM", 1)])
def test_a_skip_is_a_failure_where_each_test_has_to_run(
    checkout: pytest.Pytester, reason: str, skipped: int
) -> None:
    checkout.makepyfile(test_skip=f"import pytest\ndef test_it():\n    pytest.skip({reason!r})")
    run = checkout.runpytest_subprocess("test_skip.py", "--no-skips")
    run.assert_outcomes(skipped=skipped, failed=1 - skipped)
    checkout.runpytest_subprocess("test_skip.py").assert_outcomes(skipped=1)


SLEEPS = """
import subprocess, time
from pathlib import Path
from riobed.vm.host.scratch import memory_dir

def test_it():
    sleeper = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", "sleep", "1000"])
    Path("folders").write_text(f"{memory_dir()} {sleeper.pid}")
    time.sleep(1000)
"""


def told(run: subprocess.Popen[bytes], place: Path) -> tuple[Path, Path]:
    """The folder of a test that sleeps, and its process in /proc."""
    file, deadline = place / "folders", time.monotonic() + 300
    while not (file.exists() and len(file.read_text().split()) == 2):
        assert time.monotonic() < deadline and run.poll() is None
        time.sleep(0.1)
    folder, sleeper = file.read_text().split()
    return Path(folder), Path("/proc", sleeper)


def test_runs_that_are_stopped_leave_nothing_to_the_next_one(checkout: pytest.Pytester) -> None:
    """All are stopped together, because each waits for a worker that sleeps: 10 s (pytest-xdist)."""
    checkout.makepyfile(test_sleeps=SLEEPS)
    command = [sys.executable, "-m", "pytest", "../test_sleeps.py", "-n", "1"]
    runs = {}
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        place = checkout.mkdir(number.name)
        runs[number] = subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL)
    left = {number: told(run, checkout.path / number.name) for number, run in runs.items()}
    for number, run in runs.items():
        run.send_signal(number)
    deadline = time.monotonic() + 300
    for number, run in runs.items():
        run.wait(300)
        # A worker whose controller is gone ends within 15 s (execnet).
        while left[number][1].exists():
            assert time.monotonic() < deadline, number.name
            time.sleep(0.1)
    checkout.runpytest_subprocess("test_some.py")
    assert [number.name for number, (folder, _) in left.items() if folder.exists()] == []
