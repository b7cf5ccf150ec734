# SPDX-License-Identifier: Apache-2.0
"""Control: the positive control: changes one bit behind the workload's back, which an oracle must find."""
