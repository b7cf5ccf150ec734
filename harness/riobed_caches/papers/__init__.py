# SPDX-License-Identifier: Apache-2.0
"""Papers: the points of published figures and tables that riobed compares its own with."""
