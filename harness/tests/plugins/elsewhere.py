# SPDX-License-Identifier: Apache-2.0
"""A workload's check whose bytes are compared elsewhere says what the whole check says."""

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def compare_elsewhere(
    run: Callable[..., subprocess.CompletedProcess[str]],
    binary: Path,
    root: Path,
    moment: list[Any],
    options: list[Any],
    whole: subprocess.CompletedProcess[str],
    environment: Mapping[str, str],
) -> None:
    """Compare `whole`, a check of `root`, with one that leaves bytes to `contents`.

    `run` runs the program with arguments. `moment` are those of both commands, `options` those of `verify`
    alone. Only `contents` can find bytes that differ.
    """
    listed = binary.with_name("deferred")
    deferring = run("verify", "--dir", root, *moment, *options, "--defer", listed)
    if deferring.returncode == 3:
        assert whole.returncode == 3
        return
    assert deferring.returncode == 0, deferring.stderr
    files = [(path, (root / path).read_bytes()) for path in listed.read_text().splitlines()]
    sent = b"".join(f"{len(data)} {path}\n".encode() + data for path, data in files)
    command = [str(binary), "contents", *map(str, moment)]
    elsewhere = subprocess.run(command, input=sent, capture_output=True, env=environment)
    assert elsewhere.returncode == whole.returncode, elsewhere.stderr
    wrong = elsewhere.stdout.decode().splitlines()
    if whole.returncode == 0:
        assert (wrong, deferring.stdout) == ([], whole.stdout)
        return
    report = json.loads(whole.stdout)
    told = [*dict.fromkeys(each["path"] for each in report["differences"])]
    assert wrong[: len(told)] == told and (report["truncated"] or wrong == told)
