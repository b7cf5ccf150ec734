# SPDX-License-Identifier: Apache-2.0
"""pytest-riobed: test whether a program's files survive an operating-system crash. See docs/pytest.md."""
