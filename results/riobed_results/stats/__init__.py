# SPDX-License-Identifier: Apache-2.0
"""Statistics of proportions and ratios: they take numbers and know no rows."""
