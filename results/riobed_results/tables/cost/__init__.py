# SPDX-License-Identifier: Apache-2.0
"""Cost: seconds, instructions and disk use of modes and of the parts of Rio."""
