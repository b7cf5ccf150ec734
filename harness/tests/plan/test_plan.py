# SPDX-License-Identifier: Apache-2.0
"""The plan: a pure function of the spec, paired across modes, balanced at every length."""

import random
from collections import Counter
from dataclasses import replace
from itertools import islice

import pytest
from harness_builders import spec
from riobed.guest.settings.modes import all_modes
from riobed.plan.rounds import plan
from riobed.plan.spec import load_spec
from riobed.products import CHECKOUT

MODES = list(all_modes())
CLASSES = ["kernel_text", "delete_branch", "copy_overrun"]
# The largest disk and NVDIMM that any mode asks for.
WIDE = {
    "machine": {"disk_mib": 512, "nvdimm_mib": 512},
    "modes": MODES,
    "fault_classes": CLASSES,
    "max_trials_per_cell": 40,
}


def test_the_same_spec_gives_the_same_plan() -> None:
    first = list(plan(spec(**WIDE, seed=5)))
    draws = [(t.workload_seed, t.fault_rng().random()) for t in first]
    random.seed(99)
    state = random.getstate()
    again = list(plan(spec(**WIDE, seed=5)))
    assert (again, [(t.workload_seed, t.fault_rng().random()) for t in again]) == (first, draws)
    # Nor does it draw from the generator of all.
    assert random.getstate() == state
    assert [t.seed for t in plan(spec(**WIDE, seed=6))] != [t.seed for t in first]


def test_it_is_lazy() -> None:
    assert len(list(islice(plan(spec(max_trials_per_cell=10**12)), 3))) == 3


def test_positions_count_up_and_each_cell_has_all_its_trials() -> None:
    trials = list(plan(spec(**WIDE)))
    assert [trial.position for trial in trials] == list(range(40 * len(MODES) * len(CLASSES)))
    assert set(Counter((t.mode, t.fault_class) for t in trials).values()) == {40}


def test_whenever_it_is_stopped_it_is_balanced() -> None:
    counts = Counter({(mode, fault_class): 0 for mode in MODES for fault_class in CLASSES})
    for trial in plan(spec(**WIDE)):
        counts[trial.mode, trial.fault_class] += 1
        assert max(counts.values()) - min(counts.values()) <= 1
        by_mode = [sum(n for (m, _), n in counts.items() if m == mode) for mode in MODES]
        assert max(by_mode) - min(by_mode) <= 1


def test_controls_come_at_their_rate_from_the_first_round_on() -> None:
    trials = list(plan(spec(**WIDE, controls={"none": 2, "planted": 0.3})))
    plain = list(plan(spec(**WIDE)))
    assert [trial.position for trial in trials] == list(range(len(trials)))
    assert [replace(t, position=0) for t in trials if t.fault_class in CLASSES] == [
        replace(t, position=0) for t in plain
    ]
    counts = Counter((t.mode, t.fault_class) for t in trials)
    assert {counts[mode, "none"] for mode in MODES} == {80}
    assert {counts[mode, "planted"] for mode in MODES} == {12}
    first = [t.fault_class for t in trials if t.mode == "rio"][: len(CLASSES) + 3]
    assert first == [*CLASSES, "none", "none", "planted"]
    so_far: Counter[str] = Counter()
    for t in trials:
        so_far[t.fault_class] += t.mode == "rio"
        assert 2 * so_far[CLASSES[-1]] <= so_far["none"] + 2 and so_far["none"] <= 2 * so_far[CLASSES[0]]


def test_a_control_without_a_rate_is_none() -> None:
    assert list(plan(spec(**WIDE, controls={"none": 0}))) == list(plan(spec(**WIDE)))


def test_the_modes_get_the_same_faults_at_the_same_moments() -> None:
    alike: dict[str, set[object]] = {}
    seen: dict[str, list[str]] = {}
    for t in plan(spec(**WIDE, fresh_boot_share=0.3)):
        draws = (t.fault_class, t.warmup_s, t.fresh_boot, t.workload_seed, t.fault_rng().getrandbits(256))
        alike.setdefault(t.seed, set()).add(draws)
        seen.setdefault(t.seed, []).append(t.mode)
    assert {len(draws) for draws in alike.values()} == {1}
    assert all(modes == MODES for modes in seen.values())
    assert len(alike) == 40 * len(CLASSES)
    assert len({draws for group in alike.values() for draws in group}) == len(alike)


def test_what_a_seed_names_does_not_depend_on_the_other_classes_and_modes() -> None:
    wide = {t.seed: t for t in plan(spec(**WIDE)) if t.mode == "rio"}
    for t in plan(spec(fault_classes=["copy_overrun"], max_trials_per_cell=40)):
        assert (t.warmup_s, t.workload_seed) == (wide[t.seed].warmup_s, wide[t.seed].workload_seed)


def test_seeds_of_workload_and_faults_have_nothing_in_common() -> None:
    trial = next(plan(spec()))
    assert 0 <= trial.workload_seed < 2**63
    assert trial.fault_rng().getrandbits(63) != trial.workload_seed


def test_warm_up_is_drawn_between_its_bounds() -> None:
    drawn = [t.warmup_s for t in plan(spec(**WIDE, warmup_s=(2.0, 3.0)))]
    assert min(drawn) >= 2.0 and max(drawn) <= 3.0
    assert min(drawn) < 2.2 and max(drawn) > 2.8
    assert {t.warmup_s for t in plan(spec(warmup_s=(2.5, 2.5)))} == {2.5}


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_the_share_of_fresh_boots(share: float) -> None:
    trials = list(plan(spec(max_trials_per_cell=2000, fresh_boot_share=share)))
    # Four standard deviations of a binomial draw.
    slack = 4 * (share * (1 - share) / 2000) ** 0.5
    assert abs(sum(t.fresh_boot for t in trials) / 2000 - share) <= slack


def test_checks_of_restored_memory_are_drawn_without_changing_the_rest() -> None:
    plain = list(plan(spec(**WIDE)))
    assert not any(t.check_restore for t in plain)
    checked = list(plan(spec(**WIDE, restore_check_share=0.5)))
    assert 0.3 < sum(t.check_restore for t in checked) / len(checked) < 0.7
    assert [replace(t, check_restore=False) for t in checked] == plain


def test_the_moment_of_a_crash_in_recovery_is_drawn_without_changing_the_rest() -> None:
    plain = list(plan(spec(**WIDE)))
    assert {t.recovery_reset_s for t in plain} == {None}
    cut = list(plan(spec(**WIDE, recovery_reset_s=(0.0, 0.4))))
    moments = {t.seed: t.recovery_reset_s for t in cut}
    assert all(moments[t.seed] == t.recovery_reset_s for t in cut), "another moment in another mode"
    drawn = [moment for moment in moments.values() if moment is not None]
    assert len(drawn) == len(moments) and 0 <= min(drawn) < 0.05 and 0.35 < max(drawn) <= 0.4
    assert [replace(t, recovery_reset_s=None) for t in cut] == plain


def test_trials_of_a_round_share_their_warm_up_and_run_on_for_different_times() -> None:
    trials = list(plan(spec(**WIDE, warmup_s=(1.0, 4.0), run_on_s=(0.05, 0.3))))
    own = list(plan(spec(**WIDE, warmup_s=(1.0, 4.0))))
    assert [trial.fault_rng().random() for trial in trials] == [trial.fault_rng().random() for trial in own]
    for number in range(40):
        of_round = trials[number * len(CLASSES) * len(MODES) :][: len(CLASSES) * len(MODES)]
        assert len({(t.round_seed, t.workload_seed, t.warmup_s) for t in of_round}) == 1
        assert len({t.run_on_s for t in of_round}) == len(CLASSES)
        assert all(0.05 <= (t.run_on_s or 0) <= 0.3 for t in of_round)
    assert len({t.workload_seed for t in trials}) == 40


def test_how_a_machine_restarts_is_drawn_in_these_shares() -> None:
    trials = list(plan(spec(**WIDE | {"max_trials_per_cell": 400}, parked={"reset": 0.2, "both": 0.1})))
    drawn = Counter(trial.restart for trial in trials)
    assert drawn["reset"] == pytest.approx(0.2 * len(trials), rel=0.25)
    assert drawn["both"] == pytest.approx(0.1 * len(trials), rel=0.25)
    assert {trial.restart for trial in plan(spec(**WIDE))} == {"reset"}


def test_where_bytes_are_compared_is_drawn_in_that_share() -> None:
    trials = list(plan(spec(**WIDE | {"max_trials_per_cell": 400}, host_check={"both": 0.1})))
    drawn = Counter(trial.check for trial in trials)
    assert drawn["both"] == pytest.approx(0.1 * len(trials), rel=0.25)
    assert drawn.total() == drawn["both"] + drawn["host"]
    assert {trial.check for trial in plan(spec(**WIDE))} == {"guest"}


def test_each_trial_loses_its_power_to_a_noise_of_its_own() -> None:
    trials = list(plan(spec(**WIDE, restart="power")))
    assert {trial.restart for trial in trials} == {"power"}
    assert len({trial.noise_seed for trial in trials}) == len({trial.seed for trial in trials})


def test_a_guest_without_a_fault_is_left_alone_for_a_random_moment() -> None:
    moments = [t.undisturbed_s for t in plan(spec(fault_classes=["none"]))]
    assert 0 <= min(moments) < 0.02 and 0.08 < max(moments) <= 0.1
    assert len(set(moments)) == len(moments)


PLANTED = {"fault_classes": ["planted"], "max_trials_per_cell": 160}


def test_each_mode_plants_each_kind_that_it_has_as_often_at_rest_as_in_a_step() -> None:
    kinds = ["stray", "entry", "block", "written", "directory", "inode", "bitmap", "xattr", "journal"]
    kinds += ["canary", "writecache"]
    modes = ["write-through", "write-through-matched", "write-through-xfs", "write-through-btrfs", "rio"]
    modes += ["dax", "nv-journal", "nv-cache"]
    machine = {"disk_mib": 512, "nvdimm_mib": 64, "canary_mib": 16}
    trials = plan(spec(**PLANTED, modes=modes, machine=machine, parameters={"planted": {"kinds": kinds}}))
    counts = Counter((t.mode, t.change, t.in_step) for t in trials)
    drawn = {mode: [kind for kind in kinds if counts[mode, kind, False]] for mode in modes}
    assert drawn == {
        "write-through": kinds[2:-2],
        "write-through-matched": kinds[2:-3],
        "write-through-xfs": ["block", "written"],
        "write-through-btrfs": ["written"],
        "rio": kinds[:-3],
        "dax": kinds[2:-1],
        "nv-journal": kinds[2:-1],
        "nv-cache": kinds[2:],
    }
    for mode, there in drawn.items():
        of_mode = [counts[mode, kind, step] for kind in there for step in (False, True)]
        assert sum(of_mode) == 160 and max(of_mode) - min(of_mode) <= 1


def test_the_next_table_1_plants_each_kind_that_its_endpoint_counts_20_times() -> None:
    named = load_spec(CHECKOUT / "harness/specs/table1-v2/spec.yaml")
    counts = Counter((t.mode, t.change) for t in plan(named) if t.fault_class == "planted")
    everywhere = {"block", "written", "directory", "inode", "xattr"}
    for mode in named.modes:
        kinds = everywhere | ({"stray", "entry"} if named.mode(mode).restores_memory else set())
        assert {kind for of, kind in counts if of == mode} == kinds
    assert min(counts.values()) == 20


def test_what_every_check_finds_is_planted_unless_the_spec_says_more() -> None:
    trials = list(plan(spec(**PLANTED, modes=["rio"])))
    assert {t.change for t in trials} == {"stray", "entry", "block", "written"}
    assert {t.change for t in plan(spec(modes=["rio"]))} == {"written"}
