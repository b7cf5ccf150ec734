// SPDX-License-Identifier: GPL-2.0-only
/*
 * The I/O scheduler "riobed": a disk that serves one request after another, each of
 * which takes a time of its own and a time for each of its bytes, as with one arm.
 *
 * A request is held back before the device gets it. What the device and the way to it
 * then take in the mean is subtracted, so that from one completion to the next it is
 * the time of the model, as long as the device itself is faster.
 */
#include <linux/hrtimer.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "blk.h"
#include "elevator.h"

/* Of the mean of what comes on top, the weight of the newest is 1 / 8. */
#define NEWEST_SHIFT	3

struct disk {
	struct request_queue *queue;
	struct hrtimer timer;

	/* By direction, READ or WRITE; 0 bytes a second are no limit. Set through sysfs. */
	u64 request_ns[2];
	u64 bytes_per_s[2];

	/* All below is changed with this held; due is read without. */
	spinlock_t lock;
	struct list_head waiting;
	/* The request that is served: held back, or at the device if it is NULL. */
	struct request *held;
	bool serving;
	/* It is not to be held back any longer. */
	bool due;
	ktime_t begun_at;
	ktime_t due_at;
	s64 over_ns;
	/* Of all requests: what they take in the model, and what they took. */
	u64 model_ns;
	u64 taken_ns;
};

static struct disk *disk_of(struct request_queue *queue)
{
	return queue->elevator->elevator_data;
}

static u64 cost_ns(struct disk *disk, struct request *request)
{
	int way = rq_data_dir(request);
	u64 rate = READ_ONCE(disk->bytes_per_s[way]);
	u64 cost = READ_ONCE(disk->request_ns[way]);

	if (rate)
		cost += mul_u64_u64_div_u64(blk_rq_bytes(request), NSEC_PER_SEC, rate);
	return cost;
}

static void serve_next(struct disk *disk)
{
	u64 cost;

	lockdep_assert_held(&disk->lock);
	if (disk->serving || list_empty(&disk->waiting))
		return;
	disk->held = list_first_entry(&disk->waiting, struct request, queuelist);
	list_del_init(&disk->held->queuelist);
	disk->serving = true;
	cost = cost_ns(disk, disk->held);
	WRITE_ONCE(disk->model_ns, disk->model_ns + cost);
	disk->begun_at = ktime_get();
	disk->due_at = ktime_add_ns(disk->begun_at, max_t(s64, cost - disk->over_ns, 0));
	hrtimer_start(&disk->timer, disk->due_at, HRTIMER_MODE_ABS);
}

static enum hrtimer_restart served(struct hrtimer *timer)
{
	struct disk *disk = container_of(timer, struct disk, timer);

	WRITE_ONCE(disk->due, true);
	blk_mq_run_hw_queues(disk->queue, true);
	return HRTIMER_NORESTART;
}

static void disk_insert(struct blk_mq_hw_ctx *hctx, struct list_head *list, blk_insert_t flags)
{
	struct disk *disk = disk_of(hctx->queue);
	unsigned long irq;

	spin_lock_irqsave(&disk->lock, irq);
	if (flags & BLK_MQ_INSERT_AT_HEAD)
		list_splice_init(list, &disk->waiting);
	else
		list_splice_tail_init(list, &disk->waiting);
	serve_next(disk);
	spin_unlock_irqrestore(&disk->lock, irq);
}

static bool disk_merge(struct request_queue *queue, struct bio *bio, unsigned int segments)
{
	struct disk *disk = disk_of(queue);
	unsigned long irq;
	bool merged;

	spin_lock_irqsave(&disk->lock, irq);
	merged = blk_bio_list_merge(queue, &disk->waiting, bio, segments);
	spin_unlock_irqrestore(&disk->lock, irq);
	return merged;
}

static bool disk_has_work(struct blk_mq_hw_ctx *hctx)
{
	return READ_ONCE(disk_of(hctx->queue)->due);
}

static struct request *disk_dispatch(struct blk_mq_hw_ctx *hctx)
{
	struct disk *disk = disk_of(hctx->queue);
	struct request *request = NULL;
	unsigned long irq;

	spin_lock_irqsave(&disk->lock, irq);
	if (disk->due) {
		swap(request, disk->held);
		WRITE_ONCE(disk->due, false);
	}
	spin_unlock_irqrestore(&disk->lock, irq);
	return request;
}

static void disk_completed(struct request *request, u64 now)
{
	struct disk *disk = disk_of(request->q);
	unsigned long irq;
	ktime_t ended_at;
	s64 over;

	spin_lock_irqsave(&disk->lock, irq);
	ended_at = ktime_get();
	over = ktime_to_ns(ktime_sub(ended_at, disk->due_at));
	disk->over_ns += (over - disk->over_ns) >> NEWEST_SHIFT;
	WRITE_ONCE(disk->taken_ns, disk->taken_ns + ktime_to_ns(ktime_sub(ended_at, disk->begun_at)));
	disk->serving = false;
	serve_next(disk);
	spin_unlock_irqrestore(&disk->lock, irq);
}

/* The block layer wants one. Nothing is kept for a request. */
static void disk_finish(struct request *request)
{
}

static int disk_init(struct request_queue *queue, struct elevator_type *type)
{
	struct elevator_queue *elevator = elevator_alloc(queue, type);
	struct disk *disk;

	if (!elevator)
		return -ENOMEM;
	disk = kzalloc_node(sizeof(*disk), GFP_KERNEL, queue->node);
	if (!disk) {
		kobject_put(&elevator->kobj);
		return -ENOMEM;
	}
	disk->queue = queue;
	spin_lock_init(&disk->lock);
	INIT_LIST_HEAD(&disk->waiting);
	hrtimer_init(&disk->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	disk->timer.function = served;
	elevator->elevator_data = disk;
	queue->elevator = elevator;
	return 0;
}

/* The queue is frozen: no request is left. */
static void disk_exit(struct elevator_queue *elevator)
{
	struct disk *disk = elevator->elevator_data;

	WARN_ON_ONCE(disk->serving || !list_empty(&disk->waiting));
	hrtimer_cancel(&disk->timer);
	kfree(disk);
}

#define DISK_ATTR_RO(__name, __field)							\
static ssize_t show_##__name(struct elevator_queue *elevator, char *page)		\
{											\
	struct disk *disk = elevator->elevator_data;					\
											\
	return sysfs_emit(page, "%llu\n", READ_ONCE(disk->__field));			\
}

#define DISK_ATTR(__name, __field)							\
DISK_ATTR_RO(__name, __field)								\
											\
static ssize_t store_##__name(struct elevator_queue *elevator, const char *page,	\
			      size_t count)						\
{											\
	struct disk *disk = elevator->elevator_data;					\
	u64 value;									\
	int error = kstrtou64(page, 10, &value);					\
											\
	if (!error)									\
		WRITE_ONCE(disk->__field, value);					\
	return error ?: count;								\
}

DISK_ATTR(read_ns, request_ns[READ])
DISK_ATTR(write_ns, request_ns[WRITE])
DISK_ATTR(read_bytes_per_s, bytes_per_s[READ])
DISK_ATTR(write_bytes_per_s, bytes_per_s[WRITE])
DISK_ATTR_RO(model_ns, model_ns)
DISK_ATTR_RO(taken_ns, taken_ns)

static struct elv_fs_entry disk_attrs[] = {
	__ATTR(read_ns, 0644, show_read_ns, store_read_ns),
	__ATTR(write_ns, 0644, show_write_ns, store_write_ns),
	__ATTR(read_bytes_per_s, 0644, show_read_bytes_per_s, store_read_bytes_per_s),
	__ATTR(write_bytes_per_s, 0644, show_write_bytes_per_s, store_write_bytes_per_s),
	__ATTR(model_ns, 0444, show_model_ns, NULL),
	__ATTR(taken_ns, 0444, show_taken_ns, NULL),
	__ATTR_NULL
};

static struct elevator_type riobed_disk_type = {
	.ops = {
		.init_sched = disk_init,
		.exit_sched = disk_exit,
		.bio_merge = disk_merge,
		.insert_requests = disk_insert,
		.has_work = disk_has_work,
		.dispatch_request = disk_dispatch,
		.completed_request = disk_completed,
		.finish_request = disk_finish,
	},
	.elevator_attrs = disk_attrs,
	.elevator_name = "riobed",
	.elevator_owner = THIS_MODULE,
};

static int __init riobed_disk_init(void)
{
	return elv_register(&riobed_disk_type);
}
module_init(riobed_disk_init);

static void __exit riobed_disk_exit(void)
{
	elv_unregister(&riobed_disk_type);
}
module_exit(riobed_disk_exit);

MODULE_DESCRIPTION("Disk that serves one request after another");
MODULE_LICENSE("GPL");
