/* SPDX-License-Identifier: Apache-2.0 */
/* The sub-commands; each returns the exit status. See andrew --help. */
#ifndef ANDREW_COMMANDS_H
#define ANDREW_COMMANDS_H

#include "options.h"

int command_prepare(const struct options *options);
int command_run(const struct options *options);
int command_verify(const struct options *options);
int command_contents(const struct options *options);

#endif
