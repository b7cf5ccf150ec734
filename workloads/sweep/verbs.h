/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VERBS_H
#define VERBS_H

/* How often the task beside has done its steps. */
extern long turn;

/* Carry out one step, a verb and its operands; does not return if it is wrong or fails. */
void carry_out(int count, char **words);

#endif
