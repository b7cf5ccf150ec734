# SPDX-License-Identifier: Apache-2.0
"""Counted instructions are those of the work: as many for the same work, more for more of it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from riobed.bench import load_bench
from riobed.bench.before import Steps, prepare
from riobed.errors import InfraError
from riobed.guest.assembly import GuestSetup
from riobed.guest.guest import Guest
from riobed.measure import Measurement, measure
from riobed.measure.counter import counter
from riobed.plan import generator
from riobed.products import CHECKOUT
from riobed.trial.observe.evidence import read_evidence
from riobed.vm.emulator import plugins
from riobed.vm.emulator.command import COUNTED
from riobed.vm.emulator.plugins import compiled

from .conftest import GuestIn, opened

PTE = load_bench(CHECKOUT / "harness/specs/cost.yaml").mode("pte")


@pytest.fixture(scope="module")
def guest(setup: GuestSetup) -> Iterator[Guest]:
    counted = replace(setup, accelerator=COUNTED)
    plugin = counter(setup.manifest, setup.products(PTE).kernel)
    with opened(counted, PTE, "test-cost", plugin) as made:
        yield made


def steps(guest: Guest, count: int | str, before: Steps | None = None) -> Measurement:
    guest.setup = replace(guest.setup, options={"steps": count})
    guest.workload = guest.setup.workload_in(guest.mode)
    guest.ready()
    prepare(guest, before or Steps())
    return measure(guest, 1)


def instructions(found: Measurement) -> float:
    return found.seconds - found.idle_s


@pytest.mark.extended
def test_instructions_follow_the_work(guest: Guest) -> None:
    few, again, more = steps(guest, 250), steps(guest, 250), steps(guest, 500)
    assert instructions(again) == pytest.approx(instructions(few), rel=0.03)
    assert instructions(more) > 1.3 * instructions(few)
    # The clock and the emulator's plugin count the same.
    assert few.events["instructions"] == pytest.approx(instructions(few) * 1e9, rel=0.05)
    assert few.events["repetitions"] > 250
    # Nearly all of them are Rio's, which counts its own from a little before the work to a little after it.
    invalidations = few.after["invalidations"] - few.before["invalidations"]
    assert 0 < few.events["invlpg"] == pytest.approx(invalidations, rel=0.1)
    assert few.events["invlpg"] < more.events["invlpg"]
    updates, of_more = (
        found.after["registry_updates"] - found.before["registry_updates"] for found in (few, more)
    )
    assert 0 < updates < of_more
    assert few.after["windows"] > few.before["windows"]
    assert few.after["nr_written"] == few.before["nr_written"]


@pytest.mark.extended
def test_work_that_fails_is_no_measurement(guest: Guest) -> None:
    with pytest.raises(InfraError, match=r"failed with status 2: .*--steps must be a number"):
        steps(guest, "none")


@pytest.mark.extended
def test_faults_that_wait_are_in_place_and_never_come(setup: GuestSetup, guest_in: GuestIn) -> None:
    spec = load_bench(CHECKOUT / "harness/specs/cost-faults.yaml")
    rio = guest_in("rio")
    for name, each in spec.before.items():
        before = each.steps(setup.manifest.kernel, generator(spec.seed, "probes", name))
        steps(rio, 20, before)
        evidence = read_evidence(rio.machine.evidence.text())
        assert len(evidence.injected) == max(0, before.batch.count("\n") - 1), name
        if name != "text":
            assert not evidence.activated, name
    rio.setup, rio.workload = setup, setup.workload_in(rio.mode)


@pytest.mark.extended
def test_a_plugin_may_be_built_by_several_at_the_same_time(
    setup: GuestSetup, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(plugins, "cache_dir", lambda: tmp_path)
    with ThreadPoolExecutor(4) as several:
        built = list(several.map(lambda _: compiled(setup.manifest, "counter"), range(4)))
    assert len({path.read_bytes() for path in built}) == 1
