# SPDX-License-Identifier: Apache-2.0
"""The corruption table and the claims of each published store, against a few lines of SQL on the file itself.

It shares no code with the tables: another reader of the file, another definition in another language, and
for the statistics another formula.
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from riobed_results.store import PACKED_FILE, open_store, read_results
from riobed_results.store.packed import unpacked
from riobed_results.tables.corruption.corruption import CORRUPTION
from scipy.stats import beta, hypergeom

# `counts` of a control is any judged trial; of the others a crash. A reset in recovery may come too late.
COUNTED = """
    WITH results AS (
        SELECT *, coalesce(json_extract(recovery, '$.interrupted.phase'), '') <> 'done' AND (
            outcome IN ('panic', 'hang', 'crash')
            OR fault_class IN ('none', 'panic', 'planted') AND outcome IN ('stuck', 'survived')
        ) AS counts FROM trials)
"""
CELLS = f"""{COUNTED}
    SELECT mode, fault_class, sum(outcome <> 'infra_error'), sum(counts),
        sum(counts AND corruption <> 'none'), sum(outcome = 'discard'),
        sum(outcome = 'infra_error'), sum(counts AND crash_kind = 'trap')
    FROM results GROUP BY mode, fault_class
"""
# Both modes crashed with one class and seed: corrupted in the first alone, in the second alone, all pairs.
PAIRS = f"""{COUNTED}
    SELECT coalesce(sum(a.corruption <> 'none' AND b.corruption = 'none'), 0),
        coalesce(sum(a.corruption = 'none' AND b.corruption <> 'none'), 0), count(*)
    FROM results a JOIN results b USING (fault_class, seed)
    WHERE a.counts AND b.counts AND a.mode = ? AND b.mode = ?
        AND fault_class NOT IN ('none', 'panic', 'planted')
"""
# In kernels of their own, two modes have equal faults only where these are drawn at run time.
AT_RUN_TIME = """
    AND fault_class IN ('allocation', 'copy_overrun', 'kernel_heap', 'kernel_stack', 'synchronization')
"""

# Claims of a campaign, each as its value for all rows. Stores that have no such rows have no such claim.
SOUND = """
    outcome NOT IN ('discard', 'infra_error') AND fault_class IN ('none', 'panic')
    AND coalesce(restart, '') NOT LIKE 'power%' AND mode NOT LIKE 'delayed%'
    AND coalesce(json_extract(recovery, '$.interrupted.phase'), '') <> 'done'
"""
IN_MEMORY = "(mode LIKE 'delayed%' OR mode LIKE 'rio%' OR mode IN ('nv-memory', 'nv-swap'))"
FAULTY = "fault_class NOT IN ('none', 'panic', 'planted')"
CLAIMS = {
    "infra_errors": "sum(outcome = 'infra_error')",
    "trials": f"sum({FAULTY} AND outcome <> 'infra_error')",
    "crashes": f"sum({FAULTY} AND outcome IN ('panic', 'hang', 'crash'))",
    "stuck": f"sum({FAULTY} AND outcome = 'stuck')",
    "survived": f"sum({FAULTY} AND outcome = 'survived')",
    "judged_share": f"""1.0 * sum({FAULTY} AND outcome NOT IN ('discard', 'infra_error'))
        / count(DISTINCT CASE WHEN {FAULTY} THEN position END)""",
    "corrupted_without_crash": f"sum({FAULTY} AND outcome IN ('stuck', 'survived') AND corruption <> 'none')",
    "corrupting_draws": f"""count(DISTINCT
        CASE WHEN {FAULTY} AND corruption <> 'none' THEN fault_class || seed END)""",
    "judged_corrupted_rio": f"sum({FAULTY} AND mode = 'rio' AND corruption <> 'none')",
    "activated_mean_copy_overrun_rio": """1.0 * sum(CASE WHEN mode = 'rio' AND fault_class = 'copy_overrun'
        AND outcome <> 'infra_error' THEN activated END)
        / sum(mode = 'rio' AND fault_class = 'copy_overrun' AND outcome <> 'infra_error')""",
    "overruns_to_user": f"""(SELECT sum(f.activated AND json_extract(params, '$.direction') = 'to_user')
        FROM faults f JOIN trials t ON t.id = trial_id WHERE t.{FAULTY} AND corruption IS NOT NULL)""",
    "journal_no_file": """(SELECT count(*) FROM faults f JOIN trials t ON t.id = trial_id
        WHERE json_extract(params, '$.kind') = 'journal' AND corruption = 'none')""",
    "resets": f"""sum({SOUND} AND fault_class = 'none' AND crash_kind = 'reset'
        AND json_extract(recovery, '$.interrupted') IS NULL)""",
    "resets_in_recovery": f"sum({SOUND} AND json_extract(recovery, '$.interrupted') IS NOT NULL)",
    "lost": f"sum({SOUND} AND corruption <> 'none')",
    "false_positives": f"""sum({SOUND} AND (corruption <> 'none' OR
        coalesce(json_extract(recovery, '$.checksums.corrupt'), 0) > 0
        OR coalesce(json_extract(recovery, '$.entries.rejected'), 0) > 0))""",
    # A loss of power takes a change with all else in modes that lose everything.
    "planted": f"""sum(fault_class = 'planted' AND outcome <> 'infra_error'
        AND NOT coalesce(restart LIKE 'power%' AND {IN_MEMORY}, false))""",
    "kexecs": "sum(json_extract(recovery, '$.production') IS NOT NULL)",
    # Of the pages of RAM that the registry can list.
    "dirty_share_of_ram_min": """min(CASE WHEN fault_class = 'panic' THEN 1.0 * (
        json_extract(recovery, '$.entries.dirty_data') + json_extract(recovery, '$.entries.dirty_metadata'))
        / json_extract(recovery, '$.entries.entries') END)""",
    "power_no_fault_runs": f"""sum(restart LIKE 'power%' AND fault_class = 'none'
        AND NOT {IN_MEMORY} AND outcome <> 'infra_error'
        AND (SELECT spec NOT LIKE '%must_lose: true%' FROM campaigns))""",
}


def ask(path: Path, query: str, *values: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{unpacked(path)}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute(query, values).fetchall()


# A bench has no trials.
STORES = [
    path
    for path in sorted((Path(__file__).parents[1] / "published").glob(f"**/{PACKED_FILE}"))
    if ask(path, "SELECT 1 FROM trials LIMIT 1")
]


def name(path: Path) -> str:
    return path.parent.name


@pytest.fixture(scope="module", params=STORES, ids=name)
def both(request: pytest.FixtureRequest) -> tuple[Path, dict[str, Any]]:
    results = read_results(open_store(str(request.param)))
    return request.param, CORRUPTION.compute(results).model_dump()


def test_every_cell(both: tuple[Path, dict[str, Any]]) -> None:
    path, table = both
    names = ("trials", "crashes", "corrupted", "discards", "infra_errors", "traps")
    found = {
        (mode, row["fault_class"]): [cell[name] for name in names]
        for row in table["rows"]
        for mode, cell in row["cells"].items()
        if any(cell.values())
    }
    assert found == {(mode, fault_class): counts for mode, fault_class, *counts in ask(path, CELLS)}
    assert sum(cell[0] for cell in found.values()) > 0


def test_totals_and_their_statistics(both: tuple[Path, dict[str, Any]]) -> None:
    path, table = both
    totals = dict.fromkeys(table["modes"], (0, 0))
    for mode, fault_class, _, crashes, corrupted, *_ in ask(path, CELLS):
        if fault_class not in ("none", "panic", "planted"):
            totals[mode] = (totals[mode][0] + crashes, totals[mode][1] + corrupted)
    statistics = table["statistics"]
    assert {mode: (c["crashes"], c["corrupted"]) for mode, c in table["totals"].items()} == totals
    for mode, (crashes, corrupted) in totals.items():
        share = statistics["totals"][mode]
        low = beta.ppf(0.025, corrupted, crashes - corrupted + 1) if corrupted else 0
        high = beta.ppf(0.975, corrupted + 1, crashes - corrupted) if corrupted < crashes else 1
        assert not crashes or (share["low"], share["high"]) == pytest.approx((low, high))
    for line in statistics["comparisons"]:
        first, second = totals[line["first"]], totals[line["second"]]
        assert line["fisher_p"] == (
            pytest.approx(fisher(*first, *second)) if first[0] and second[0] else None
        )


def fisher(crashes: int, corrupted: int, others: int, others_corrupted: int) -> float:
    """The probability of all tables with these margins that are no likelier than this one."""
    bad = corrupted + others_corrupted
    chances = hypergeom(crashes + others, bad, crashes).pmf(range(bad + 1))
    return float(chances[chances <= chances[corrupted] * (1 + 1e-7)].sum())


def test_pairs(both: tuple[Path, dict[str, Any]]) -> None:
    path, table = both
    campaign = dict(ask(path, "SELECT * FROM campaigns")[0])
    own = {mode: kernel["build_id"] for mode, kernel in json.loads(campaign.get("kernels", "{}")).items()}
    for line in table["statistics"]["comparisons"]:
        kernels = {own.get(line[which], campaign["kernel_build_id"]) for which in ("first", "second")}
        query = PAIRS if len(kernels) == 1 else PAIRS + AT_RUN_TIME
        found = (line["only_first"], line["only_second"], line["pairs"])
        assert found == tuple(ask(path, query, line["first"], line["second"])[0])


def claims_of(path: Path) -> list[dict[str, Any]]:
    """The claims of a store: beside it, or with its folder's name in the folder above."""
    if (beside := path.with_name("claims.json")).exists():
        return list(json.loads(beside.read_text())["claims"])
    above, prefix = path.parent.with_name("claims.json"), path.parent.name.replace("-", "_") + "_"
    claims = json.loads(above.read_text())["claims"] if above.exists() else []
    named = [claim for claim in claims if claim["key"].startswith(prefix)]
    return [claim | {"key": claim["key"].removeprefix(prefix)} for claim in named]


CLAIMED = [path for path in STORES if claims_of(path)]


@pytest.mark.parametrize("path", CLAIMED, ids=name)
def test_claims(path: Path) -> None:
    claims = claims_of(path)
    if all(claim["key"] != "judged_share" for claim in claims):
        # Of before every run was judged: a stuck workload was a crash.
        claims = [claim for claim in claims if claim["key"] != "stuck"]
    columns = ask(path, "SELECT * FROM trials LIMIT 1")[0].keys()
    # Stores of before there was another way to restart.
    trials = "trials" if "restart" in columns else "(SELECT *, NULL AS restart FROM trials)"
    found = {
        claim["key"]: (claim["value"], ask(path, f"SELECT {CLAIMS[claim['key']]} FROM {trials}")[0][0])
        for claim in claims
        if claim["key"] in CLAIMS
    }
    assert found and {key: claimed for key, (claimed, _) in found.items()} == pytest.approx(
        {key: value for key, (_, value) in found.items()}, rel=1e-4
    )
