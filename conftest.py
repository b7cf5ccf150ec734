# SPDX-License-Identifier: Apache-2.0
"""Order of the whole test run: what boots guests comes last."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move integration tests behind all others; a failing unit test is then seen first."""
    items.sort(key=lambda item: item.get_closest_marker("integration") is not None)
