// SPDX-License-Identifier: Apache-2.0
#include "ring.h"

#include <err.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "step.h"

static int ring = -1;
static struct io_uring_params params;
static unsigned char *submissions, *completions;
static struct io_uring_sqe *entries;

static void *map(size_t size, off_t what)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, what);

	if (at == MAP_FAILED)
		err(LACKS, "io_uring");
	return at;
}

static void set_up(void)
{
	ring = (int)syscall(SYS_io_uring_setup, 1, &params);
	if (ring < 0)
		err(LACKS, "io_uring");
	submissions = map(params.sq_off.array + params.sq_entries * sizeof(uint32_t), IORING_OFF_SQ_RING);
	completions = map(params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
	entries = map(params.sq_entries * sizeof(*entries), IORING_OFF_SQES);
}

static uint32_t *word(unsigned char *where, uint32_t offset)
{
	return (void *)(where + offset);
}

/* One entry at a time: both queues are empty before and after. */
ssize_t ring_write(int file, const void *bytes, size_t length, off_t offset)
{
	uint32_t tail, head;
	const struct io_uring_cqe *done;

	if (ring < 0)
		set_up();
	entries[0] = (struct io_uring_sqe){
		.opcode = IORING_OP_WRITE, .fd = file, .addr = (uintptr_t)bytes, .len = (uint32_t)length,
		.off = (uint64_t)offset,
	};
	tail = *word(submissions, params.sq_off.tail);
	*(word(submissions, params.sq_off.array) + (tail & *word(submissions, params.sq_off.ring_mask))) = 0;
	__atomic_store_n(word(submissions, params.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
		err(1, "io_uring_enter");
	head = *word(completions, params.cq_off.head);
	if (head == __atomic_load_n(word(completions, params.cq_off.tail), __ATOMIC_ACQUIRE))
		errx(1, "io_uring: no completion");
	done = (const void *)(completions + params.cq_off.cqes);
	done += head & *word(completions, params.cq_off.ring_mask);
	if (done->res < 0)
		errno = -done->res;
	ssize_t result = done->res < 0 ? -1 : done->res;
	__atomic_store_n(word(completions, params.cq_off.head), head + 1, __ATOMIC_RELEASE);
	return result;
}
