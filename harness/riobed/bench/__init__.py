# SPDX-License-Identifier: Apache-2.0
"""Bench: makes the measured runs that follow from a spec, and stores one row each."""

from riobed.bench.bench import Bench, bench_setups
from riobed.bench.plan import PlannedRun, Series, plan_runs
from riobed.bench.spec import BenchSpec, load_bench

__all__ = ["Bench", "BenchSpec", "PlannedRun", "Series", "bench_setups", "load_bench", "plan_runs"]
