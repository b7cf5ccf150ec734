# SPDX-License-Identifier: Apache-2.0
"""The scripts around the playbook, as far as they need neither root nor network."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
NOBODY = 65534


def make(*arguments: str) -> str:
    """The commands make would run."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", "-n", *arguments], cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=True
    ).stdout


def in_order(text: str, *parts: str) -> bool:
    places = [text.find(part) for part in parts]
    return -1 not in places and places == sorted(places)


def test_make_without_a_target_lists_the_targets() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    text = subprocess.run(
        ["make"], cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=True
    ).stdout
    for target in ("setup", "campaign", "test", "check", "lint", "clean", "clean-cache"):
        assert f"make {target} " in text


def test_make_test_sets_up_checks_and_tests() -> None:
    text = make("test", "USER_ID=0")
    assert in_order(text, "playbooks/setup", "ruff check", "ruff format --check", "mypy", "bin/pytest")
    # All tests in one run, so that its last line counts them all.
    assert text.rstrip().splitlines()[-1].split() == [".venv/bin/pytest", "-n", "auto"]


def test_make_campaign_sets_up_runs_and_prints_the_table() -> None:
    text = make("campaign", "USER_ID=0")
    store = "--store sqlite:///campaigns/quick/store.sqlite"
    assert in_order(
        text,
        "playbooks/setup",
        f".venv/bin/riobed run harness/specs/quick.yaml {store}",
        f".venv/bin/riobed table corruption {store}",
        "campaigns/quick/report.html",
    )


def test_make_hands_the_number_of_jobs_on() -> None:
    assert "playbooks/setup -e riobed_jobs=5" in make("setup", "USER_ID=0", "JOBS=5")


def test_make_goes_through_sudo_for_other_users() -> None:
    text = make("campaign", "USER_ID=1000")
    assert "exec sudo" in text
    assert "riobed run" not in text


def test_make_clean_keeps_results_and_cache() -> None:
    text = make("clean", "USER_ID=0")
    assert ".riobed" in text
    assert "campaigns" not in text
    assert ".cache/riobed" not in text


def test_the_ci_script_runs_make_test() -> None:
    script = CHECKOUT / ".ci/run"
    assert os.access(script, os.X_OK)
    assert script.read_text().splitlines()[-1] == "make test"


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


def refusal(script: Path, os_release: str) -> str:
    """What set-up says to a user without rights on such a host; it must be one line."""
    (script.parents[1] / "os-release").write_text(os_release)
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    done = subprocess.run([script], capture_output=True, text=True, check=False, **user)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    return done.stdout + done.stderr


def test_setup_refuses_other_systems(setup_script: Path) -> None:
    text = refusal(setup_script, 'ID=fedora\nVERSION_ID=44\nPRETTY_NAME="Fedora 44"\n')
    assert text == "make setup: needs Debian 12 or 13, this is Fedora 44\n"


def test_setup_refuses_other_releases_of_debian(setup_script: Path) -> None:
    text = refusal(setup_script, 'ID=debian\nPRETTY_NAME="Debian GNU/Linux forky/sid"\n')
    assert text == "make setup: needs Debian 12 or 13, this is Debian GNU/Linux forky/sid\n"


@pytest.mark.parametrize("version", ["12", "13"])
def test_setup_refuses_users_without_root(setup_script: Path, version: str) -> None:
    text = refusal(setup_script, f'ID=debian\nVERSION_ID="{version}"\n')
    assert text == "make setup: needs root: run it as root or with sudo\n"


@pytest.mark.integration
def test_a_second_setup_changes_nothing() -> None:
    """Right after `make setup`, which `make test` begins with."""
    done = subprocess.run(
        [CHECKOUT / "playbooks/setup"], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "changed=0 " in done.stdout
    assert "failed=0 " in done.stdout


def test_shellcheck_is_a_package_of_the_host_role() -> None:
    """What the tests call has to be installed by what runs before them."""
    packages = (CHECKOUT / "playbooks/roles/host/defaults/main.yml").read_text()
    assert "- shellcheck\n" in packages
    assert shutil.which("shellcheck")
