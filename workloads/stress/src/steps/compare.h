// SPDX-License-Identifier: Apache-2.0
#ifndef COMPARE_H
#define COMPARE_H

#include <stdio.h>

#include "model.h"

/*
 * Compare the tree in the current folder with the model, write a line for each difference, return their number.
 * Node `mixed` may hold any mixture of its content and of `old`'s; NULL: none may.
 */
int compare(struct model *model, int mixed, const struct node *old, FILE *differences);

#endif
