# SPDX-License-Identifier: Apache-2.0
"""The commands: what they print, and one line and a status for each way they can fail."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from results_builders import Invoke, faults, fill
from riobed_results.errors import StoreError
from riobed_results.store.migrations import SCHEMA_VERSION
from riobed_results.store.store import Store, open_store

TO_CRASH = {"time_to_crash_s": 4.36}
COMMANDS = [("table", "corruption"), ("trials",)]


@pytest.fixture
def filled(store: Store) -> Store:
    for name, mode in (("old", "delayed"), ("new", "rio")):
        error = {"outcome": "infra_error", "mode": mode, "detail": "QEMU [red]died"}
        crash = {"position": 0, "mode": mode, "attempt": 2, "faults": faults(3), "injected": 3}
        fill(store, error, crash, name=name, modes=[mode], classes=["kernel_text"])
    return store


def failure(result: Any) -> tuple[int, str]:
    """The status and the line that the main program makes of a failed command."""
    assert isinstance(result.exception, StoreError), result.output
    message = str(result.exception)
    assert "\n" not in message
    assert result.stdout == ""
    return result.exception.exit_code, message


@pytest.mark.parametrize("form", ["url", "file", "folder"])
def test_the_ways_to_name_a_store(invoke: Invoke, filled: Store, path: Path, form: str) -> None:
    published = path.rename(path.with_name("store.sqlite"))
    name = {"url": f"sqlite:///{published}", "file": str(published), "folder": str(path.parent)}[form]
    result = invoke("table", "corruption", "--store", name, "--format", "json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["campaign"] == "new"


def test_the_default_store_is_in_the_current_folder(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, message = failure(invoke("trials"))
    assert code == 1 and message.startswith("store campaigns/riobed.sqlite: no such file; ")
    assert list(tmp_path.iterdir()) == []
    fill(open_store("campaigns/riobed.sqlite", create=True), {})
    assert invoke("trials").exit_code == 0


def test_a_campaign_is_picked_by_name(invoke: Invoke, filled: Store, path: Path) -> None:
    result = invoke("table", "corruption", "--store", path, "--campaign", "old", "--format", "json")
    assert json.loads(result.stdout)["modes"] == ["delayed"]
    result = invoke("trials", "--store", path, "--campaign", "old", "--format", "json")
    assert {row["mode"] for row in json.loads(result.stdout)} == {"delayed"}


def test_trials_as_json_have_their_faults(invoke: Invoke, filled: Store, path: Path) -> None:
    first, second = json.loads(invoke("trials", "--store", path, "--format", "json").stdout)
    assert (first["outcome"], second["outcome"], second["campaign"]) == ("infra_error", "panic", "new")
    assert (first["faults"], len(second["faults"])) == ([], 3)
    assert second["faults"][2]["address"] == "0xffffffff81000002"


def test_trials_as_text(invoke: Invoke, filled: Store, path: Path) -> None:
    head, error, crash, _, note = invoke("trials", "--store", path).stdout.splitlines()
    assert head.split()[:3] == ["position", "attempt", "mode"]
    assert error.split()[:5] == ["0", "1", "rio", "kernel_text", "infra_error"]
    assert error.endswith("QEMU [red]died")
    assert crash.split()[4:10] == ["panic", "panic", "no", "0", "of", "3"]
    assert crash.endswith("panic: it died")
    assert note.startswith("to crash: seconds from injection") and "by the guest's clock" in note


def test_a_trial_in_text_has_the_guests_time_and_a_plain_yes(
    invoke: Invoke, store: Store, path: Path
) -> None:
    fill(
        store,
        {"corruption": "unclassified", "injection_guest_s": 5.0, "crash_guest_s": 16.7} | TO_CRASH,
        {"corruption": "direct", "corruption_where": "cache"} | TO_CRASH,
        {"corruption": "unclassified", "corruption_where": "disk", "injection_guest_s": 5.0},
    )
    _, guests, trials, unknown, *_ = invoke("trials", "--store", path).stdout.splitlines()
    assert guests.split()[6:11] == ["yes", "0", "of", "0", "11.70"]
    assert (
        "  yes (wrong checksum or canary, cache)  " in trials and " 0 of 0 " in trials and " 4.36* " in trials
    )
    assert unknown.split()[6:8] == ["yes", "(disk)"] and "of 0  " in unknown


@pytest.mark.parametrize("command", COMMANDS)
def test_output_goes_into_a_file_whole_or_not_at_all(
    invoke: Invoke, filled: Store, path: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    printed = invoke(*command, "--store", path, "--format", "json").stdout
    output = tmp_path / "new.json"
    output.write_text("old")
    result = invoke(*command, "--store", path, "--format", "json", "--output", output)
    assert (result.exit_code, result.stdout) == (0, "")
    assert output.read_text() == printed
    assert sorted(tmp_path.iterdir()) == [output, path]
    missing = tmp_path / "no" / "such.json"
    code, message = failure(invoke(*command, "--store", path, "--output", missing))
    assert code == 1 and message.startswith(f"output {missing}: No such file or directory; ")


def not_a_database(path: Path) -> None:
    path.write_bytes(b"no database, but long enough to be one " * 100)


def changed(sql: str, *fields: dict[str, Any]) -> Callable[[Path], None]:
    """Make a store with such trials, and then change it by that SQL."""

    def make(path: Path) -> None:
        fill(open_store(str(path), create=True), *fields, name="bare")
        with sqlite3.connect(path) as connection:
            connection.execute(sql)

    return make


def overwritten(start: int) -> Callable[[Path], None]:
    """Make a store that has other bytes from there on."""

    def make(path: Path) -> None:
        fill(open_store(str(path), create=True), {"faults": faults(200)})
        content = bytearray(path.read_bytes())
        content[start:] = b"\xff" * len(content[start:])
        path.write_bytes(content)

    return make


def another_database(path: Path) -> None:
    sqlite3.connect(path).execute("CREATE TABLE rows (a)")


def no_campaign(path: Path) -> None:
    open_store(str(path), create=True)


DAMAGED, DAMAGED_IN_A_TABLE = overwritten(1024), overwritten(-4096)
ANOTHER_VERSION, NO_VERSION = changed("UPDATE meta SET value = '99'"), changed("DELETE FROM meta")
NO_COLUMN = changed("ALTER TABLE trials RENAME COLUMN crash_kind TO kind")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (not_a_database, "not an SQLite database"),
        (another_database, "not a riobed store"),
        (ANOTHER_VERSION, "schema version 99"),
        (NO_VERSION, "schema version None"),
        (DAMAGED, "damaged"),
        (DAMAGED_IN_A_TABLE, "damaged"),
        (NO_COLUMN, "no such column"),
    ],
)
def test_a_writer_leaves_alone_what_is_no_sound_store(
    path: Path, make: Callable[[Path], None], says: str
) -> None:
    make(path)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=says):
        open_store(str(path), create=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (not_a_database, "is not an SQLite database"),
        (Path.touch, "is not a riobed store"),
        (another_database, "is not a riobed store"),
        (ANOTHER_VERSION, f"has schema version 99, this riobed works with {SCHEMA_VERSION}"),
        (NO_VERSION, "has schema version None"),
        (DAMAGED, "is damaged"),
        (no_campaign, "holds no campaign"),
        (changed("SELECT 1"), "campaign 'bare' has no trials yet"),
        (NO_COLUMN, "no such column: trials.crash_kind"),
    ],
)
def test_stores_that_cannot_be_read(
    invoke: Invoke, path: Path, command: tuple[str, ...], make: Callable[[Path], None], says: str
) -> None:
    make(path)
    before = path.read_bytes()
    code, message = failure(invoke(*command, "--store", path))
    assert code == 1 and message.startswith(f"store {path}: ") and says in message
    assert path.read_bytes() == before


def test_a_locked_store(invoke: Invoke, filled: Store, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    url = f"sqlite:///{path}?timeout=0.05"
    code, message = failure(invoke("table", "corruption", "--store", url))
    assert code == 1 and message.startswith(f"store {path}: is locked by another program")
    other.execute("COMMIT")
    assert invoke("table", "corruption", "--store", url).exit_code == 0
    other.execute("BEGIN IMMEDIATE")  # a writer in the middle of a row: reading goes on, writing waits
    assert invoke("table", "corruption", "--store", url).exit_code == 0
    with pytest.raises(StoreError, match="is locked"):
        open_store(url, create=True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--campaign", "none"], "no campaign 'none'; it holds: old, new"),
        (["--store", "sqlite://"], "names no file"),
        (["--store", "sqlite:///:memory:"], "names no file"),
        (["--store", "sqlite:///a.sqlite?mode=rw"], "unknown URL option 'mode'"),
        (["--store", "sqlite:///a.sqlite?timeout=soon"], "timeout=soon is not a number"),
        (["--store", "://x"], "malformed URL"),
        (["--store", "http://u:secret@h:x/y"], "malformed URL"),
        (["--store", "nosuch://u:secret@h/d"], "nosuch is not supported"),
        (["--store", "mysql://u:secret@h/d"], "only sqlite and postgresql"),
        (["--store", ""], "is empty"),
        (["--store", "/dev/null"], "not a file"),
    ],
)
def test_wrong_use(invoke: Invoke, filled: Store, path: Path, arguments: list[str], says: str) -> None:
    code, message = failure(invoke("trials", "--store", path, *arguments))
    assert code == 2 and says in message


def test_an_unknown_format_is_wrong_use(invoke: Invoke, filled: Store, path: Path) -> None:
    result = invoke("table", "corruption", "--store", path, "--format", "pdf")
    assert result.exit_code == 2 and "pdf" in result.output


def test_a_folder_without_a_store(invoke: Invoke, tmp_path: Path) -> None:
    code, message = failure(invoke("trials", "--store", tmp_path))
    assert (code, message.split(";")[0]) == (1, f"store {tmp_path}/store.sqlite: no such file")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made(path: Path) -> None:
    path.write_text("a file")
    with pytest.raises(StoreError, match="choose another place") as caught:
        open_store(str(path / "deeper" / "store.sqlite"), create=True)
    assert caught.value.exit_code == 1


def test_a_table_needs_neither_qemu_nor_libvirt(filled: Store, path: Path) -> None:
    program = (
        "import sys, typer; sys.modules.update(dict.fromkeys(['libvirt', 'libvirt_qemu', 'riobed']));"
        "from riobed_results.cli import mount; app = typer.Typer(); mount(app); app()"
    )
    command = [sys.executable, "-c", program, "table", "corruption", "--store", str(path), "--format", "csv"]
    environment = {**os.environ, "PATH": "/nowhere"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert result.stdout.splitlines()[-1].startswith("Total,0 of 1 (0.0 %)")
