/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PMEMOBJ_COMMANDS_H
#define PMEMOBJ_COMMANDS_H

#include "options.h"

#define POOL_NAME "pool"

/* Each returns the exit status. */
int command_prepare(const struct options *options);
int command_run(const struct options *options);
int command_places(const struct options *options);
int command_verify(const struct options *options);

/* The path of the pool in --dir, in a buffer that the next call uses again. */
const char *pool_path(const struct options *options);

#endif
