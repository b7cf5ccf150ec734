/* SPDX-License-Identifier: Apache-2.0 */
/* What a pool has, compared with the model. */
#ifndef PMEMOBJ_COMPARE_H
#define PMEMOBJ_COMPARE_H

#include "api.h"
#include "report.h"

/* Whether a slot has what the model has there. */
bool slot_equal(const struct held *held, const struct slot *want, uint64_t seed, unsigned int slot);

/*
 * Compares everything with the model after @model's steps, and adds differences to the report. If @in_flight
 * is not NULL it has the operations of the next step, each of which may be done or not, and an update in part
 * if @tears.
 */
void compare(struct report *report, const struct contents *contents, const struct model *model,
	     const struct operation *in_flight, bool tears);

#endif
