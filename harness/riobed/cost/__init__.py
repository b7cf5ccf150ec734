# SPDX-License-Identifier: Apache-2.0
"""What Rio costs: a fixed piece of work in guests that differ in one of its parts each."""
