/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PMEMOBJ_JSON_H
#define PMEMOBJ_JSON_H

#include <stdio.h>

/*
 * Prints @text as a JSON string. It may hold any bytes, as names on a damaged
 * disk do: what is not printable ASCII becomes \u00XX, XX being the byte.
 */
void json_string(FILE *out, const char *text);

#endif
