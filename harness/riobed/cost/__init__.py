# SPDX-License-Identifier: Apache-2.0
"""Cost: measures a fixed piece of work in guests that differ in one thing each."""

from riobed.cost.series import WORKLOADS, run_cost

__all__ = ["WORKLOADS", "run_cost"]
