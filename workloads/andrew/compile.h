/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ANDREW_COMPILE_H
#define ANDREW_COMPILE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Compiles one C file, or links @count > 1 objects to a program, with libtcc. Paths are relative to the current
 * directory, and are part of the result. NULL if the compiler does not accept them; else to be freed, and its
 * length is in *@length.
 */
uint8_t *compile(char *const *inputs, size_t count, size_t *length);

/* Exit status of `andrew cc` when the compiler failed; a smaller one but 0 is an errno. */
#define STATUS_COMPILER 200

/* andrew cc [--fsync] OUTPUT INPUT... */
int command_cc(int argc, char **argv);

#endif
