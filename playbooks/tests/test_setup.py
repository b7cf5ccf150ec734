# SPDX-License-Identifier: Apache-2.0
"""The scripts around the playbook, as far as they need neither root nor network."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
NOBODY = 65534


def make(*arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", *arguments]
    return subprocess.run(
        command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_make_without_a_target_lists_the_targets() -> None:
    text = make()
    for target in ("setup", "campaign", "test", "check", "lint", "clean", "clean-cache"):
        assert f"make {target} " in text


STORE = "--store sqlite:///campaigns/quick/store.sqlite"
RUN, TABLE = (
    f".venv/bin/riobed run harness/specs/quick.yaml {STORE}",
    f".venv/bin/riobed table corruption {STORE}",
)
CHECKS = ["ruff check", "ruff format --check", "mypy"]


@pytest.mark.parametrize(
    ("arguments", "in_order", "never"),
    [
        # All tests in one run, so that its last line counts them all.
        (
            "test USER_ID=0",
            [
                "playbooks/setup",
                *CHECKS,
                '.venv/bin/pytest -n auto --dist loadgroup --no-skips -m "not extended"\n',
            ],
            [],
        ),
        ("campaign USER_ID=0", ["playbooks/setup", RUN, TABLE, "campaigns/quick/report.html"], []),
        ("setup USER_ID=0 JOBS=5", ["playbooks/setup -e riobed_jobs=5"], []),
        ("campaign USER_ID=1000", ["exec sudo"], ["riobed run"]),
        ("clean USER_ID=0", [".riobed"], ["campaigns", ".cache/riobed"]),
    ],
)
def test_what_make_would_run(arguments: str, in_order: list[str], never: list[str]) -> None:
    text = make("-n", *arguments.split())
    places = [text.index(part) for part in in_order]
    assert places == sorted(places) and not any(part in text for part in never)


@pytest.fixture
def setup_script() -> Iterator[Path]:
    """A copy of playbooks/setup where another user may read it, for a host described in `os-release`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        script = folder / "playbooks/setup"
        script.parent.mkdir(mode=0o755)
        text = (CHECKOUT / "playbooks/setup").read_text()
        assert "/etc/os-release" in text
        script.write_text(text.replace("/etc/os-release", f"{folder}/os-release"))
        script.chmod(0o755)
        yield script


@pytest.mark.parametrize(
    ("os_release", "need"),
    [
        ("ID=fedora\nVERSION_ID=44\nPRETTY_NAME='Fedora 44'\n", "Debian 12 or 13, this is Fedora 44"),
        (
            "ID=debian\nPRETTY_NAME='Debian GNU/Linux forky/sid'\n",
            "Debian 12 or 13, this is Debian GNU/Linux",
        ),
        ("ID=debian\nVERSION_ID=12\n", "root"),
        ("ID=debian\nVERSION_ID=13\n", "root"),
    ],
)
def test_setup_refuses_what_it_cannot_set_up(setup_script: Path, os_release: str, need: str) -> None:
    """A user without rights is told so in one line."""
    (setup_script.parents[1] / "os-release").write_text(os_release)
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    done = subprocess.run([setup_script], capture_output=True, text=True, check=False, **user)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith(f"make setup: needs {need}")


@pytest.mark.integration
def test_a_second_setup_changes_nothing() -> None:
    """Right after `make setup`, which `make test` begins with."""
    command = [CHECKOUT / "playbooks/setup"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "changed=0 " in done.stdout and "failed=0 " in done.stdout
