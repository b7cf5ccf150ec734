# SPDX-License-Identifier: Apache-2.0
"""The claims of a campaign with a protocol, against SQL on the store's file and scipy alone."""

import hashlib
import random
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from publishing.claims import protocol as protocol_claims
from publishing.claims.folder import folder_claims
from results_builders import faults, fill, planted, recovered
from riobed_results.errors import StoreError
from riobed_results.store.store import Store, open_store
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import beta, norm, ttest_1samp

RUNS, LEVEL = 40, 0.1
SHARES = {"write-through-60pct": 0.3, "rio-full-60pct": 0.75, "rio-protected-full-60pct": 0.1,
          "write-through-same-fs-60pct": 0.2}  # fmt: skip
W, R, P, MATCHED = SHARES
CLASSES = ("pointer", "kernel_heap", "allocation")
CLAIMS: list[dict[str, Any]] = [
    {"chain": "safety", "mode": P, "than": W, "endpoint": "judged", "margin": 2},
    {"chain": "safety", "mode": R, "than": W, "endpoint": "judged", "margin": 3},
    {"chain": "protection", "mode": P, "than": R, "endpoint": "judged", "fault_classes": ["pointer"]},
]
# Of two modes in each class, the hits of each pair; a run that never gave a result counts against the claim.
PAIRS = """
    WITH runs AS (
        SELECT mode, fault_class, seed, max(corruption <> 'none') AS hit,
            sum(outcome = 'infra_error') >= 4 AND max(outcome <> 'infra_error') = 0 AS never
        FROM trials WHERE fault_class NOT IN ('none', 'panic', 'planted') GROUP BY mode, fault_class, seed)
    SELECT fault_class, seed, CASE WHEN a.never OR b.never THEN 1 ELSE a.hit END,
        CASE WHEN a.never OR b.never THEN 0 ELSE b.hit END
    FROM runs a JOIN runs b USING (fault_class, seed) WHERE a.mode = ? AND b.mode = ? AND fault_class IN
"""


def drawn(alike: bool) -> list[dict[str, Any]]:
    """Runs of all cells; `alike`: those of a round end alike in each mode."""
    rng, found = random.Random(1996), []
    for number in range(RUNS):
        common = {mode: rng.random() for mode in SHARES}
        for name in CLASSES:
            for mode, share in SHARES.items():
                hit = (common[mode] if alike else rng.random()) < share
                few = faults(2, name)
                for fault in few[1:]:
                    fault.activated = rng.random() < share
                run = {"mode": mode, "fault_class": name, "seed": f"7/{name}/{number}", "requested": 2}
                found.append(run | {"faults": few, "corruption": "indirect" if hit else "none"})
    return found


def controls() -> list[dict[str, Any]]:
    """Two false alarms of an arm in no claim, by a checksum, among 3 sound runs of each."""
    rows = [{"mode": mode, "fault_class": "none", "seed": f"7/none/{n}"} for mode in SHARES for n in range(3)]
    alarms = [row | {"recovery": recovered(corrupt=1)} for row in rows[-2:]]
    return [
        *rows[:-2],
        *alarms,
        planted("written", "none", mode=MATCHED),
        planted("written", "indirect", mode=W),
    ]


def committed(folder: Path) -> str:
    """Make a repository with a commit of 2026-01-03, and return its id."""
    git = ["git", "-C", str(folder), "-c", "user.name=test", "-c", "user.email=test@localhost"]
    day = {"GIT_COMMITTER_DATE": "2026-01-03T00:00:00Z", "PATH": "/usr/bin:/bin"}
    for words in (["init", "-q"], ["commit", "-qm", "protocol", "--allow-empty"], ["rev-parse", "HEAD"]):
        said = subprocess.run([*git, *words], check=True, capture_output=True, text=True, env=day).stdout
    return str(said.strip())


def ask(store: Path, query: str, *values: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        return connection.execute(query, values).fetchall()


def likeliest(first: int, other: int, pairs: int, delta: float) -> float:
    """Return the variance of a pair's difference in the likeliest pairs whose shares differ by `delta`."""

    def against(share: float) -> float:
        seen = zip(
            (first, other, pairs - first - other), (share + delta, share, 1 - 2 * share - delta), strict=True
        )
        return -float(sum(number * np.log(max(chance, 1e-300)) for number, chance in seen))

    low, high = max(0.0, -delta), (1 - delta) / 2
    share = minimize_scalar(against, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).x
    return float(2 * share + delta - delta**2)


def recomputed(store: Path, claim: dict[str, Any], bound: float) -> dict[str, Any]:
    """Return what the claims say of a claim: Tango's test, or Student's of rounds that vary too much."""
    classes = claim.get("fault_classes", CLASSES)
    marks = ", ".join("?" for _ in classes)
    rows = ask(store, f"{PAIRS} ({marks})", claim["mode"], claim["than"], *classes)
    by_class = {
        name: {seed.split("/")[2]: a - b for of, seed, a, b in rows if of == name} for name in classes
    }
    table = np.array([[by_class[name][str(number)] for name in classes] for number in range(RUNS)])
    estimate, margin, level = table.mean(), claim.get("margin", 0) / 100, LEVEL / 2
    if table.sum(axis=1).var() / table.var(axis=0).sum() > bound:
        found = ttest_1samp(table.mean(axis=1), margin, alternative="less")
        ends = ttest_1samp(table.mean(axis=1), margin).confidence_interval(1 - 2 * level)
        p, variance = found.pvalue, "rounds"
    else:
        counts = [((column == 1).sum(), (column == -1).sum(), len(column)) for column in table.T]

        def score(delta: float) -> float:
            spread = sum(likeliest(*each, delta) / each[2] for each in counts)
            return float(len(counts) * (estimate - delta) / np.sqrt(spread))

        z = norm.ppf(1 - level)
        ends = [brentq(lambda delta, end=end: score(delta) - end, -0.99, 0.99) for end in (z, -z)]
        p, variance = norm.cdf(score(margin)), "pairs"
    return {"difference": 100 * estimate, "p": p, "variance": variance,
            "interval": "{:+.2f} to {:+.2f}".format(*(100 * np.array(ends)))}  # fmt: skip


@pytest.mark.parametrize(("alike", "bound"), [(False, 9.0), (True, 1.15)], ids=["pairs", "rounds"])
def test_estimates_intervals_and_verdicts(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch,
                                          tmp_path: Path, alike: bool, bound: float) -> None:  # fmt: skip
    commit = committed(tmp_path)
    monkeypatch.setattr(protocol_claims, "CHECKOUT", tmp_path)
    protocol = {"tag": "protocol/first", "commit": commit, "runs": RUNS, "alpha": LEVEL, "dispersion": bound,
                "claims": CLAIMS}  # fmt: skip
    rows = [*drawn(alike), *controls()]
    # One run never gives a result.
    lost = {key: rows[2][key] for key in ("mode", "fault_class", "seed")} | {"position": 2}
    rows = [*({"position": n} | row for n, row in enumerate(rows) if n != 2),
            *(lost | {"outcome": "infra_error", "attempt": n} for n in (1, 2, 3, 4))]  # fmt: skip
    seed = int(hashlib.sha256(commit.encode()).hexdigest()[:8], 16)
    fill(store, *rows, modes=list(SHARES), classes=CLASSES, seed=str(seed), name="first",
         spec=yaml.safe_dump({"protocol": protocol}))  # fmt: skip
    # Beside it, 7 panics of each arm.
    (tmp_path / "panics").mkdir()
    panics = [{"mode": mode, "fault_class": "panic"} for mode in SHARES for _ in range(7)]
    beside = open_store(str(tmp_path / "panics/store.sqlite"), create=True)
    fill(beside, *panics, name="panics", modes=list(SHARES), classes=["panic"])
    path.rename(tmp_path / "store.sqlite")
    path = tmp_path / "store.sqlite"
    found = {claim.key: claim.value for claim in folder_claims(tmp_path)}
    states = {}
    for number, claim in enumerate(CLAIMS, 1):
        wanted = recomputed(path, claim, bound)
        mine = {key: found[f"claim_{number}_{key}"] for key in wanted}
        assert mine.pop("interval") == wanted.pop("interval")
        assert (
            mine.pop("variance") == wanted.pop("variance") == ("rounds" if alike and number < 3 else "pairs")
        )
        assert mine == pytest.approx(wanted, rel=1e-4)
        states[number] = (
            "shown" if wanted["p"] <= LEVEL / 2 else "refuted" if wanted["p"] >= 1 - LEVEL / 2 else "open"
        )
    assert states == {number: found[f"claim_{number}_state"] for number in states}
    assert states[1] == states[3] == "shown" and states[2] == "refuted"
    assert (found["claims_decided"], found["claim_1_no_result"], found["claim_2_no_result"]) == (3, 1, 0)
    judged = "outcome <> 'infra_error' AND fault_class NOT IN ('none', 'panic', 'planted')"
    ((least,),) = ask(path, f"""SELECT min(n) FROM (SELECT count(*) AS n FROM trials WHERE {judged}
        AND mode <> ? GROUP BY mode, fault_class)""", MATCHED)  # fmt: skip
    assert found["judged_per_cell"] == least == RUNS - 1
    assert found["matched_judged"] == RUNS * len(CLASSES)
    assert found["judged_share"] == pytest.approx(1 - 1 / (RUNS * len(CLASSES) * len(SHARES)), rel=1e-4)
    means = dict(ask(path, f"""SELECT t.mode || t.fault_class, sum(f.activated) * 1.0 / count(DISTINCT t.id)
        FROM trials t JOIN faults f ON f.trial_id = t.id WHERE t.{judged.replace('AND ', 'AND t.')}
        GROUP BY 1"""))  # fmt: skip
    ratios = [means[W + name] / means[R + name] for name in CLASSES if name != "kernel_heap"]
    wanted_ratio = min(min(ratio, 1 / ratio) for ratio in ratios)
    assert found["activated_ratio_min"] == pytest.approx(wanted_ratio, rel=1e-4)
    # Two alarms of ten runs.
    assert found["control_false_positives_upper_max"] == pytest.approx(beta.ppf(0.975, 3, 8), rel=1e-4)
    assert (found["planted_missed"], found["seed_matches_commit"]) == (1, 1)
    # The trials of the builders are older than the commit.
    assert found["protocol_commit_before_first_trial"] == 0
    monkeypatch.setattr(protocol_claims, "CHECKOUT", tmp_path / "panics" / "none")
    with pytest.raises(StoreError, match="git does not find it in none; fetch the tags"):
        folder_claims(tmp_path)
