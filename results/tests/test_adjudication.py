# SPDX-License-Identifier: Apache-2.0
"""Adjudication: what a reader must not see, how two readers agree, and what is revealed when."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from publishing.adjudication import CATEGORIES
from results_builders import Invoke, faults, fill, recovered
from results_readers import from_markdown
from riobed_results.errors import StoreError, StoreUsageError
from riobed_results.store.store import Store

MODES = ["write-through", "rio", "rio-protected"]
LOG = """[    8.1] BUG: rio: protection trap in rep_movs+0x3a/0x80
[    8.1]  rio_trap.cold+0xa1/0x128
[    8.1]  jbd2_journal_stop+0x1/0x2
[    8.1]  __ext4_journal_stop+0x90/0xb0
[    8.1] Modules linked in: riobed_inject(O)
=== recovery ===
[    0.000000] Linux version 6.12.107
[    0.000000] Kernel command line: rio.protect=pte
[    1.0] vdb: 1 block
riobed: stage 0
[    1.2] EXT4-fs (vdb): mounted filesystem 41ff r/w without journal. Quota mode: disabled.
riorecover: registry
/dev/vdb: recovering journal
Inode 1 seems to contain garbage.
"""


def corrupted(mode: str, number: int, **fields: Any) -> dict[str, Any]:
    check = {"difference_count": 3, "differences": [{"path": f"tree/f{number}", "kind": "missing"}]}
    told: dict[str, Any] = {"crash_title": f"BUG: {mode} in vfs_read", "corruption": "direct"}
    told["recovery"] = recovered(corrupt=1)
    return (
        {"mode": mode, "check": check, "faults": faults(2), "injected": 2, "log": "logs/one.log.gz"}
        | told
        | fields
    )


@pytest.fixture
def filled(store: Store, path: Path) -> Store:
    cases = [corrupted(mode, number) for number in range(4) for mode in MODES]
    sound = [{"mode": "rio"}, corrupted("rio", 99, fault_class="planted"), corrupted("delayed", 99)]
    fill(store, *cases, *sound, modes=[*MODES, "delayed"])
    (path.parent / "logs").mkdir()
    (path.parent / "logs/one.log.gz").write_bytes(gzip.compress(LOG.encode()))
    return store


def answered(folder: Path, name: str, *categories: str) -> Path:
    lines = list(csv.DictReader((folder / "answers.csv").open()))
    path = folder.parent / name
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(lines[0])
        for line, category in zip(lines, categories, strict=False):
            writer.writerow([line["case"], category, f"{name} says | so"])
    return path


def test_a_case_has_what_happened_and_not_the_mode(
    publishing: Invoke, filled: Store, path: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "cases"
    assert publishing("adjudicate", path, folder).exit_code == 0
    texts = {each.name: each.read_text() for each in folder.iterdir()}
    assert len([name for name in texts if name.endswith(".log")]) == 12
    for name, text in texts.items():
        for word in (*MODES, "rio_trap", "jbd2", " journal", "direct", "position", "mounted", "7/"):
            assert word not in text.replace("riobed", ""), (name, word)
    case = texts["case-001.md"]
    for word in ("kernel_text, 2 faults", "(4889e5) became", "[hidden] in vfs_read", "missing", "2 more"):
        assert word in case
    assert texts["case-001.log"].splitlines() == [
        "[    8.1] BUG: [hidden]: [hidden] in rep_movs+0x3a/0x80",
        "[    8.1]  [hidden].cold+0xa1/0x128",
        "[    8.1]  [hidden]+0x1/0x2",
        "[    8.1]  __ext4_journal_stop+0x90/0xb0",
        "[    8.1] Modules linked in: riobed_inject(O)",
        "=== recovery ===",
        "riobed: stage 0",
        "/dev/vdb: recovering [hidden]",
        "Inode 1 seems to contain garbage.",
    ]
    # The order is the seed's, and not that of the plan.
    other = tmp_path / "other"
    publishing("adjudicate", path, other, "--seed", 2)
    paths = [[(place / f"case-{n:03}.md").read_text() for n in range(1, 13)] for place in (folder, other)]
    assert paths[0] != paths[1] and sorted(map(len, paths[0])) == sorted(map(len, paths[1]))
    assert isinstance(publishing("adjudicate", path, folder).exception, StoreUsageError)


def test_agreement_and_what_is_revealed(
    publishing: Invoke, filled: Store, path: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "cases"
    publishing("adjudicate", path, folder)
    # Cohen's own formula: 10 of 12 agree; by chance (8 * 6 + 4 * 6) / 144 would.
    first = answered(folder, "a.csv", *["stray-store"] * 8, *["lost-write"] * 4)
    second = answered(folder, "b.csv", *["stray-store"] * 6, *["lost-write"] * 6)
    found = json.loads(publishing("adjudicate", path, folder, first, second, "--format", "json").stdout)
    assert (found["cases"], found["agreed"], found["revealed"]) == (12, 10, [])
    assert found["kappa"] == pytest.approx((10 / 12 - 72 / 144) / (1 - 72 / 144))
    assert found["kappa_low"] < found["kappa"] < found["kappa_high"]
    # Where 10 or more of 12, and 10 or fewer, have a probability of 2.5 %.
    ends = (found["agreement"]["low"], found["agreement"]["high"])
    assert ends == pytest.approx((0.5158623, 0.9791375), abs=1e-6)
    alike = json.loads(publishing("adjudicate", path, folder, first, first, "--format", "json").stdout)
    assert (alike["kappa"], alike["kappa_low"], alike["kappa_high"]) == (1, None, None)
    text = publishing("adjudicate", path, folder, first, second).stdout
    assert list(found["disagreed"]) == ["007", "008"] and not any(f"| {mode} |" in text for mode in MODES)
    revealed = from_markdown(publishing("adjudicate", path, folder, first, second, "--reveal").stdout)
    assert revealed[3][0] == ["", *MODES, "delayed"] and revealed[3][-1] == ["Total", "4", "4", "4", "0"]
    assert {line[2] for line in revealed[4][1:]} == set(MODES) and len(revealed[4]) == 13
    page = publishing("adjudicate", path, folder, first, second, "--reveal", "--format", "csv").stdout
    assert len(list(csv.DictReader(page.splitlines()))) == 12


def test_wrong_answers_are_refused(publishing: Invoke, filled: Store, path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cases"
    publishing("adjudicate", path, folder)
    good = answered(folder, "a.csv", *["unclear"] * 12)
    found = json.loads(publishing("adjudicate", path, folder, good, good, "--format", "json").stdout)
    assert (found["kappa"], found["agreed"]) == (None, 12)

    def refusal(*arguments: object) -> str:
        error = publishing("adjudicate", path, folder, *arguments).exception
        assert isinstance(error, StoreError)
        return str(error)

    some = answered(folder, "b.csv", *["unclear"] * 11)
    assert "1 cases have no answer of both readers, the first 012" in refusal(good, some, "--reveal")
    assert f"unknown category 'moon'; there are: {next(iter(CATEGORIES))}" in refusal(
        good, answered(folder, "c.csv", "moon")
    )
    some.write_text("case,category,text\n099,unclear,\n")
    assert "line 2: '099' is no case" in refusal(good, some)
    assert "want the files of two readers" in refusal(good)
    assert "of another campaign or seed" in refusal(good, good, "--seed", 3)
    assert "No such file" in refusal(good, folder / "none.csv")
