# SPDX-License-Identifier: Apache-2.0
"""What all tests have: their tiers, and a PostgreSQL server (harness/tests/plugins)."""

pytest_plugins = ["tiers", "postgres"]
