# SPDX-License-Identifier: Apache-2.0
"""Sites: the sites of text faults, from disassembly and control flow of one kernel's text.

It knows no fault class: the caller that opens a catalogue gives it the rules.
"""
