# SPDX-License-Identifier: Apache-2.0
"""The scripts that build a stage, where they decide something: atomic products, the configuration."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from riobed.products import stages

CHECKOUT = Path(__file__).resolve().parents[2]
ROLES = CHECKOUT / "playbooks/roles"


def call(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        command, env={**os.environ, "PATH": path, **environment}, capture_output=True, text=True, check=False
    )


def run_build(tmp_path: Path, body: str) -> subprocess.CompletedProcess[str]:
    """Run a stage's build with `body` as its script, in a checkout of its own."""
    checkout = tmp_path / "checkout"
    package = checkout / "harness/riobed"
    shutil.copytree(CHECKOUT / "harness/riobed/products", package / "products")
    for name in ("__init__.py", "errors.py"):
        (package / name).write_bytes((CHECKOUT / "harness/riobed" / name).read_bytes())
    for name in (stages.DEBIAN_ROOT, "playbooks/roles/toolchain/files/build"):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text(f"#!/bin/sh\nset -e\n{body}\n")
        (checkout / name).chmod(0o755)
    return call(
        ROLES / "build/files/build",
        "toolchain",
        stages.key_of("toolchain", checkout),
        tmp_path / "cache/toolchain/key",
        tmp_path / "cache/log/toolchain.log",
        "playbooks/roles/toolchain/files/build",
        "argument",
        PYTHONPATH=f"{checkout / 'harness'}:{CHECKOUT / 'results'}",
    )


def left_in_cache(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache/toolchain").iterdir())


def test_a_build_gets_inputs_and_arguments_and_is_renamed_when_done(tmp_path: Path) -> None:
    body = 'cd "$1"; echo "$3" >argument; cp "$2/playbooks/roles/toolchain/files/build" copy; echo said'
    done = run_build(tmp_path, body)
    assert done.returncode == 0, done.stderr
    assert left_in_cache(tmp_path) == ["key"]
    products = tmp_path / "cache/toolchain/key"
    assert (products / "argument").read_text() == "argument\n"
    assert body in (products / "copy").read_text()
    assert (tmp_path / "cache/log/toolchain.log").read_text() == "said\n"


def test_a_failed_build_leaves_its_log_and_shows_the_end(tmp_path: Path) -> None:
    done = run_build(tmp_path, 'touch "$1/half"; seq 100; echo "no luck" >&2; exit 3')
    assert done.returncode == 1
    log = tmp_path / "cache/log/toolchain.log"
    assert str(log) in done.stderr.splitlines()[0]
    assert done.stderr.splitlines()[-2:] == ["100", "no luck"]
    assert log.read_text().startswith("1\n2\n")
    assert left_in_cache(tmp_path) == []


def test_what_a_killed_build_left_is_removed_by_the_next(tmp_path: Path) -> None:
    stale = tmp_path / "cache/toolchain/key.tmp/stale"
    stale.parent.mkdir(parents=True)
    stale.touch()
    assert run_build(tmp_path, 'ls "$1" >"$1/list"').returncode == 0
    assert (tmp_path / "cache/toolchain/key/list").read_text() == "list\n"


FRAGMENTS = {
    "base": "CONFIG_A=y\nCONFIG_B=y\n",
    "rio": "CONFIG_C=m\n",
    "alpha": "# CONFIG_A is not set\n",
    "zulu": 'CONFIG_D="text=1"\n',
}


@pytest.fixture
def merged(tmp_path: Path) -> str:
    for name, text in FRAGMENTS.items():
        (tmp_path / f"{name}.config").write_text(text)
    done = call(ROLES / "kernel/files/merge-fragments", tmp_path)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_fragments_are_merged_base_first_then_rio(merged: str) -> None:
    assert merged == "".join(FRAGMENTS.values())


HAD = 'CONFIG_B=y\nCONFIG_C=m\nCONFIG_D="text=1"\n'


@pytest.mark.parametrize(
    ("config", "dropped"),
    [
        (f"# CONFIG_A is not set\n{HAD}CONFIG_E=y\n", ""),
        (HAD.replace("CONFIG_B=y", "# gone"), "CONFIG_B=y"),
        (HAD.replace("CONFIG_C=m", "# gone"), "CONFIG_C=m"),
        (HAD.replace('CONFIG_D="text=1"', "# gone"), 'CONFIG_D="text=1"'),
        (HAD.replace("CONFIG_B=y", "CONFIG_B=m"), "CONFIG_B=y"),  # a module is not a builtin
    ],
)
def test_an_option_that_kconfig_dropped_is_named(
    merged: str, tmp_path: Path, config: str, dropped: str
) -> None:
    (tmp_path / "have").write_text(config)
    (tmp_path / "wanted").write_text(merged)
    done = call(ROLES / "kernel/files/check-config", tmp_path / "have", tmp_path / "wanted")
    assert done.returncode == bool(dropped)
    said = f"the configuration has no {dropped}: what it depends on is not set\n"
    assert done.stdout == (said if dropped else "")
