/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMTEST_MOMENT_H
#define MEMTEST_MOMENT_H

#include "steps.h"

/* The model after these steps, and whether the next one may have begun. */
struct moment {
	uint64_t steps;
	bool next;
	struct failed_list failed;
};

/* The moment of the crash. Exits with EXIT_USAGE if --intent does not follow --done. */
struct moment newest_moment(const struct options *options);

/* Makes @model that of @moment. */
void moment_model(struct model *model, const struct moment *moment, const struct options *options);

#endif
