# SPDX-License-Identifier: Apache-2.0
"""The sites of text faults: disassembly, control flow and the catalogue of one kernel's text.

May import products. It knows no fault class: whoever opens a catalogue gives it the rules.
"""
