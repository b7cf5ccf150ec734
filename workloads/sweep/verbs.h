/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VERBS_H
#define VERBS_H

/* Carry out one step, a verb and its operands; does not return if it is wrong or fails. */
void carry_out(int count, char **words);

#endif
