# SPDX-License-Identifier: Apache-2.0
"""Every shell script and the playbook hold what the linters ask; `make lint` runs this file."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
TOOLS = Path(sys.executable).parent
NOT_SOURCES = {".git", ".venv", ".riobed", "campaigns", "build", "__pycache__"}


def shell_scripts() -> Iterator[tuple[str, str]]:
    """Path in the checkout and dialect of everything a shell runs."""
    for parent, folders, files in os.walk(CHECKOUT):
        folders[:] = [name for name in folders if name not in NOT_SOURCES]
        for path in (Path(parent, name) for name in files):
            if dialect := dialect_of(path):
                yield path.relative_to(CHECKOUT).as_posix(), dialect


def dialect_of(path: Path) -> str | None:
    """What shellcheck is to take the file for; None if it is no shell script."""
    if path.is_symlink():
        return None
    with path.open("rb") as file:
        words = file.readline(80).split()
    if not words or not words[0].startswith(b"#!"):
        return "sh" if path.suffix == ".sh" else None
    # `#!/bin/sh`, `#!/usr/bin/env bash`, `#!/bin/busybox sh`
    program = words[-1].removeprefix(b"#!").rsplit(b"/", 1)[-1].decode()
    return {"sh": "dash" if b"busybox" in words[0] else "sh", "bash": "bash", "dash": "dash"}.get(program)


SCRIPTS = dict(shell_scripts())


def run(*command: str | Path, cwd: Path = CHECKOUT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_the_search_finds_the_scripts() -> None:
    assert SCRIPTS["playbooks/setup"] == "sh"
    assert SCRIPTS["playbooks/roles/kernel/files/compile"] == "bash"
    assert SCRIPTS[".ci/run"] == "bash"
    assert SCRIPTS["harness/guest/stage0/init"] == "dash"
    assert "Makefile" not in SCRIPTS


@pytest.mark.parametrize("script", SCRIPTS)
def test_shellcheck(script: str) -> None:
    done = run("shellcheck", "--external-sources", f"--shell={SCRIPTS[script]}", script)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ansible_lint() -> None:
    done = run(TOOLS / "ansible-lint", "--offline", "--nocolor", "--profile", "production", "playbooks")
    assert done.returncode == 0, done.stdout + done.stderr
