# SPDX-License-Identifier: Apache-2.0
"""pytest-riobed: do a program's files survive an operating-system crash? See docs/pytest.md."""
