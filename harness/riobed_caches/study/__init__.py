# SPDX-License-Identifier: Apache-2.0
"""Study: which models a trace is run through, and the rows that this gives."""
