# SPDX-License-Identifier: Apache-2.0
"""Every figure that a published folder or the front page states is computed from the rows in the folder."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from publishing.claims import Prose, folder_claims, read_claims
from publishing.claims.campaign import compared
from publishing.claims.claim import Claim, count, part
from results_builders import Invoke, campaign, fill, planted, recovered, trial
from riobed_results.errors import StoreError
from riobed_results.store.provenance import KernelProvenance
from riobed_results.store.store import Store, open_store

RESULTS = Path(__file__).parents[1] / "published"
PUBLISHED = sorted(path for path in RESULTS.iterdir() if path.is_dir())
CLAIMS = [count("errors", 4, "infra error"), part("corrupted", 3, 17), Claim(key="bare", value=9, text="9")]


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda folder: folder.name)
def test_claims_come_out_of_the_rows_again(folder: Path) -> None:
    assert read_claims(folder) == folder_claims(folder)


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda folder: folder.name)
def test_a_readme_states_claims_alone(folder: Path) -> None:
    prose, claims = Prose((folder / "README.md").read_text()), read_claims(folder)
    assert prose.unbacked(claims) == []
    assert prose.stale() == []
    for readme in folder.glob("*/README.md"):
        if (readme.parent / "claims.json").exists():
            assert Prose(readme.read_text()).untold(read_claims(readme.parent)) == []


def test_a_readme_borrows_claims_alone() -> None:
    """Of all folders together: a folder that has not changed may borrow from one that has."""
    borrowed = [each for path in PUBLISHED for each in Prose((path / "README.md").read_text()).borrowed()]
    assert borrowed
    for other, phrase in borrowed:
        assert phrase in [claim.text for claim in read_claims(RESULTS / other)]


@pytest.mark.parametrize("page", ["README.md", "results/README.md", "guest-kernel-patches/README.md"])
def test_front_pages_state_claims_alone(page: str) -> None:
    parts = Prose((RESULTS.parents[1] / page).read_text()).parts()
    assert parts
    for name, prose in parts:
        assert prose.unbacked(read_claims(RESULTS / name)) == []
        assert prose.stale() == []


def test_every_campaign_has_a_line() -> None:
    lines = (RESULTS.parent / "README.md").read_text()
    assert [path.name for path in PUBLISHED if f"](published/{path.name}/README.md)" not in lines] == []


@pytest.mark.parametrize(
    ("text", "figure"),
    [
        ("here 4 infra\n  errors, 3 of 17 (17.6 %)", None),
        ("| 9 | at 12:30 on 2026-11-21 | `7` | [x](8) | x86-64 |\n```\n6\n```", None),
        ("<!-- not claims (the host): 2 CPUs --> 2 CPUs", None),
        ("<!-- not from rows: read -->\n5\n<!-- /not from rows -->", None),
        ("14 infra errors", "14"),
        ("4 discards", "4"),
        ("3 of 17 (17.7 %)", "3"),
        ("9 hangs", "9"),
        ("<!-- not claims (the host): 2 CPUs --> 2 workers", "2"),
    ],
)
def test_a_figure_needs_its_claim(text: str, figure: str | None) -> None:
    left = Prose(text).unbacked(CLAIMS)
    assert (figure in left[0]) if figure else left == []


def test_what_is_excused_for_nothing_is_found() -> None:
    assert Prose("<!-- not claims (the host): 2 CPUs --> 3 CPUs").stale() == ["2 CPUs"]
    told = [Claim(key=f"corruption_{n}", value="rio, pointer", text=f"{n} | rio, pointer") for n in (1, 2, 7)]
    lines = "| 1, 7 | both; pointer | why |\n| 2 | rio, stack | why |"
    causes = Prose(f"<!-- not from rows: read -->{lines}<!-- /not from rows -->")
    assert causes.untold(told) == ["| 2 | rio, pointer |"]


def test_claims_are_published_and_checked_by_a_command(
    publishing: Invoke, store: Store, path: Path, tmp_path: Path
) -> None:
    run = store.add_campaign(campaign("one", ["rio"], ["kernel_text"])).id
    store.add_trial(trial(run, 0))
    # Tried twice, and given up.
    for attempt in (1, 2):
        store.add_trial(trial(run, 1, attempt=attempt, outcome="infra_error"))
    folder = tmp_path / "one"
    assert publishing("publish", folder, "--store", path).exit_code == 0
    claims = {claim.key: claim.text for claim in read_claims(folder)}
    assert (claims["crashes"], claims["corrupted_rio"]) == ("1 crash", "0 of 1 (0.0 %)")
    assert (claims["judged_share"], claims["ends_rio"]) == ("1 of 2 (50.0 %)", "1 + 0 + 0")
    # One trial in four seconds.
    assert claims["judged_runs_per_hour"] == "900 judged runs an hour"
    (folder / "README.md").write_text("1 crash, 2 hangs\n")
    (folder / "claims.json").unlink()
    result = publishing("claims", folder)
    assert (result.exit_code, "2 hangs" in result.output, "1 crash" in result.output) == (1, True, False)
    assert len(read_claims(folder)) == len(claims)


NVDIMM_KERNEL = KernelProvenance(release="6.12.107", build_id="beef", series_commit="feed")


def publish(publishing: Invoke, folder: Path, path: Path, *rows: dict[str, Any], **campaign: Any) -> None:
    """Publish a campaign of these rows in a subfolder of its name."""
    store = path.with_name(f"{campaign['name']}.sqlite")
    fill(open_store(str(store), create=True), *rows, **campaign)
    assert publishing("publish", folder / campaign["name"], "--store", store).exit_code == 0


def test_campaigns_in_subfolders_are_summed_up(publishing: Invoke, path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pmem"
    dax = {"mode": "dax", "recovery": recovered(checksums=None)}
    late = dax | {"recovery": recovered(phase="done"), "fault_class": "pointer"}
    none = dax | {"restart": "power", "fault_class": "none"}
    axes = {"modes": ["rio", "dax"], "classes": ["kernel_text", "pointer"]}
    publish(
        publishing, folder, path,
        {}, {}, {"fault_class": "pointer"}, dax, dax | {"outcome": "stuck"}, dax | {"fault_class": "pointer"},
        late, planted("written", "none"), planted("block", "unclassified", {"where": "nvdimm"}, mode="dax"),
        name="pmem", kernels={"dax": NVDIMM_KERNEL}, **axes,
    )  # fmt: skip
    publish(
        publishing, folder, path, none, none | {"corruption": "unclassified"}, none | {"mode": "nv-cache"},
        name="pmem-power", modes=["dax", "nv-cache"], classes=["none"], spec="restart: power\n",
        kernels={"dax": NVDIMM_KERNEL, "nv-cache": NVDIMM_KERNEL},
    )  # fmt: skip
    # A bug that has to lose something is no loss of the mode.
    publish(
        publishing, folder, path, none, none | {"corruption": "unclassified"},
        name="missing-add", modes=["dax"], classes=["none"], spec="restart: power\nmust_lose: true\n",
        kernels={"dax": NVDIMM_KERNEL},
    )  # fmt: skip
    claims = {claim.key: claim.value for claim in folder_claims(folder)}
    assert (claims["modes"], claims["fault_classes"], claims["judged_per_cell_min"]) == (3, 2, 1)
    assert (claims["missing_add_caught"], claims["missing_add_caught_first"]) == (1, 2)
    assert "volatile_power_lost_share" not in claims
    assert (claims["power_no_fault_runs"], claims["power_no_fault_lost"]) == (3, 1)
    assert (claims["planted_missed"], claims["pmem_modes"], claims["pmem_power_modes"]) == (1, 2, 2)
    assert [claim.text for claim in folder_claims(folder) if claim.key == "planted_found_block_nvdimm"] == [
        "1 of 1"
    ]
    # Beside a store in the folder itself, subfolders speak for themselves.
    shutil.copytree(folder, tmp_path / "own")
    shutil.copy(folder / "pmem-power/store.sqlite.xz", tmp_path / "own")
    # The same spec, run twice.
    shutil.copytree(folder / "pmem", tmp_path / "own/again")
    own = {claim.key: claim.value for claim in folder_claims(tmp_path / "own")}
    assert (own["modes"], own["pmem_modes"], own["again_modes"]) == (2, 2, 2) and "planted_missed" not in own
    publish(publishing, folder, path, dax, name="third", **axes)
    with pytest.raises(StoreError, match="mode dax ran on kernel 0123abcd, not beef"):
        folder_claims(folder)


def test_what_crashes_did_to_an_nvdimm_and_what_they_cost(
    publishing: Invoke, path: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "costs"
    machine = "machine: {nvdimm_mib: 80, canary_mib: 16}\n"
    dax = {"mode": "dax", "recovery": recovered(checksums=None), "canary_hits": 0}
    for restart, seconds in (("reset", (2.0, 1.0, 3.0)), ("power", (2.5, 2.75))):
        rows = [
            dax | {"restart": restart, "fault_class": "none", "phases": {"warmup": 1.0, "reset": end - 1.0}}
            for end in seconds
        ]
        publish(
            publishing, folder, path, *rows, dax | {"canary_hits": 1, "restart": restart},
            name=f"by-{restart}", modes=["dax"], classes=["none"], spec=f"{machine}restart: {restart}\n",
        )  # fmt: skip
    claims = {claim.key: claim.text for claim in folder_claims(folder)}
    assert (claims["power_over_reset_s"], claims["power_over_reset"]) == ("+0.62 s", "1.31 times")
    assert claims["by_power_nvram_dax_power_canary_hit"] == "1 of 1 (100.0 %)"
    assert claims["by_reset_nvram_dax_reset_corrupted_interval"] == "0.0 to 97.5 %"


def test_a_cell_without_a_row_is_the_smallest(store: Store) -> None:
    results = fill(store, {}, modes=["rio"], classes=["kernel_text", "pointer"])
    assert {claim.key: claim.value for claim in compared(results)}["judged_per_cell_min"] == 0


def test_a_folder_without_rows_has_no_claims(tmp_path: Path) -> None:
    shutil.copy(RESULTS / "cost/README.md", tmp_path)
    with pytest.raises(StoreError, match="no rows"):
        folder_claims(tmp_path)
