# SPDX-License-Identifier: Apache-2.0
"""Bench: measured runs of modes, workloads, disk models and processors, from a spec, into the store.

May import measure, campaign, trial, plan, guest and vm.
"""

from riobed.bench.bench import Bench, bench_setups
from riobed.bench.plan import PlannedRun, Series, plan_runs
from riobed.bench.spec import BenchSpec, load_bench

__all__ = ["Bench", "BenchSpec", "PlannedRun", "Series", "bench_setups", "load_bench", "plan_runs"]
