/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the states that a file had since it was last made durable it is in after a crash. */
#ifndef MEMTEST_STATES_H
#define MEMTEST_STATES_H

#include "history.h"
#include "report.h"

struct finding {
	enum state state;
	uint64_t lost;		/* the first step that is not there, or not all of it; 0: none */
	/* Of the worst blocks, from the first to the last; of a wrong size, that itself and 0. */
	uint64_t offset;
	uint64_t length;
};

/* Compares the file open as @fd with all that @object was. @seed is that of its content. */
struct finding find_state(int fd, const struct object *object, uint64_t seed);

#endif
