/* SPDX-License-Identifier: Apache-2.0 */
/* The operation log: what the operations that a crash cut short had changed is put back. */
#ifndef LOG_H
#define LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "memory.h"
#include "registry.h"

/* A record whose old bytes are to be put back. */
struct undo {
	uint64_t block;		/* of the device */
	uint64_t address;	/* of the old bytes in memory */
	uint32_t number;	/* in the order in which the log was read */
	uint16_t offset;	/* in the block */
	uint16_t length;
};

struct log_counts {
	uint64_t operations;	/* of the file system that is recovered, that had not ended */
	uint64_t undone;	/* records that are put back */
	uint64_t superseded;	/* records that are not, because a later operation says so */
	uint64_t rejected;	/* words or records that are damaged */
	uint64_t inconsistent;	/* undamaged ones that no kernel of ours writes */
	uint64_t unreadable;	/* pages */
};

/* Sorted by block, and for one block in the order in which they are put back. */
struct operation_log {
	struct undo *undos;
	uint64_t nr_undos;
	uint32_t *pages;	/* of its operations, the first one of each before the others */
	uint32_t nr_pages;
	struct log_counts counts;
};

/* Reads the log's records for one device number; 0 or -ENOMEM. */
int log_read(struct operation_log *log, const struct registry *registry, struct memory *memory,
	     uint32_t dev, uint64_t device_blocks);
/* Ends the operations that were read: what they changed is put back, and is not to be once more. */
void log_end(const struct operation_log *log, const struct registry *registry, struct memory *memory);
void log_close(struct operation_log *log);

/* Puts old bytes back into the content of a block; false if they cannot be read. */
bool log_undo(const struct operation_log *log, struct memory *memory, uint64_t block,
	      uint8_t content[RIO_PAGE_SIZE]);

#endif
