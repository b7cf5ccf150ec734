# SPDX-License-Identifier: Apache-2.0
"""What Rio and faults cost: a fixed piece of work in guests that differ in one thing each."""
