#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The environment of a workload, which is the same in the production kernel and
# in stage 0, although stage 0 does not mount the guest's root at /.
#
# A program that is started costs the emulator a tenth of a second, so the shell does what it can.

# The values of a kernel parameter NAME=VALUE, one per line. For $(...): no file's name is a parameter.
parameter() {
	set -f
	read -r words </proc/cmdline
	for word in $words; do
		case $word in
		"$1="*) echo "${word#*=}" ;;
		esac
	done
}

# The one line of a file; nothing if it is empty.
line() {
	text=
	# The kernel ends some without a newline, which read takes for a failure.
	read -r text <"$1" || :
	echo "$text"
}

# Whether something is mounted at that place.
mounted() {
	while read -r _ at _; do
		[ "$at" != "$1" ] || return 0
	done </proc/mounts
	return 1
}

# disk SERIAL: the device of the disk with that serial number; nothing if there is none. Letters
# depend on which disks a machine has.
disk() {
	for serial in /sys/block/vd*/serial; do
		if [ "$(line "$serial")" = "$1" ]; then
			name=${serial%/serial}
			echo "/dev/${name##*/}"
		fi
	done
}

# The device of the file system under test. riobed.nvdimm says what the NVDIMM has: that file system, the
# journal of the one on the disk, a cache of the disk, which then is a part of another device, swapped memory, or
# memory.
device_under_test() {
	case $(parameter riobed.nvdimm) in
	filesystem) echo /dev/pmem0 ;;
	cache) echo /dev/dm-0 ;;
	*) echo /dev/vdb ;;
	esac
}

# Whether the NVDIMM is there, if there has to be one: a disk must never be taken for all of a file system.
nvdimm_is_there() {
	[ -n "$(parameter riobed.nvdimm)" ] || return 0
	# Its driver looks for it beside all else; this waits until it has.
	cat /sys/bus/nd/devices/ndbus0/wait_probe >/dev/null
	[ -b /dev/pmem0 ] || { [ "$(parameter riobed.nvdimm)" = memory ] && [ -c /dev/dax0.0 ]; }
}

# Add the NVDIMM to memory. What it had is not read: to the kernel these are free pages.
grow_memory() {
	# Once, the NVDIMM is made a device of bytes; it remembers that.
	[ -c /dev/dax0.0 ] ||
		ndctl create-namespace --force --reconfig=namespace0.0 --mode=devdax --map=mem >/dev/null || return 1
	# As daxctl-reconfigure-device(1), which fails where this driver is not a module.
	echo online_movable >/sys/devices/system/memory/auto_online_blocks
	echo dax0.0 >/sys/bus/dax/drivers/device_dax/unbind
	echo dax0.0 >/sys/bus/dax/drivers/kmem/new_id
	[ -e /sys/bus/dax/drivers/kmem/dax0.0 ]
}

# The devices that production swaps to, in the order in which it fills them.
swap_devices() {
	[ "$(parameter riobed.nvdimm)" != swap ] || echo /dev/pmem0
	serial=$(parameter riobed.swap)
	[ -n "$serial" ] || return 0
	device=$(disk "$serial")
	# One that is not there has a name in the message.
	echo "${device:-/dev/$serial}"
}

# dmsetup of the guest's root; no udev answers it.
device_mapper() {
	command=$1
	shift
	chroot "${ROOT:-/}" dmsetup "$command" --noudevrules --noudevsync "$@"
}

# Make one device of the disk and its cache on the NVDIMM. dm-writecache takes an NVDIMM of zeros for a new cache.
join_cache() {
	device_mapper create cached \
		--table "0 $(line /sys/block/vdb/size) writecache p /dev/vdb /dev/pmem0 4096 0"
}

# The same with a cache that is there. The disk alone is older than its cache, so nothing is made of the disk and a
# new one: then there is no device under test.
rejoin_cache() {
	[ "$(parameter riobed.nvdimm)" = cache ] || return 0
	if [ -z "$(head -c 8 /dev/pmem0 | tr -d '\0')" ]; then
		echo "riobed: the NVDIMM has no cache of the disk"
		return 1
	fi
	join_cache
}

# mount_environment ROOT: kernel file systems and writable places below ROOT ("" for
# /); the root itself stays read-only.
mount_environment() {
	ROOT=$1
	mount -t proc proc "$ROOT/proc"
	# The production kernel has mounted it by itself.
	mounted "$ROOT/dev" || mount -t devtmpfs devtmpfs "$ROOT/dev"
	mkdir -p "$ROOT/dev/pts" "$ROOT/dev/shm" "$ROOT/dev/disk/by-id" "$ROOT/dev/virtio-ports"
	chroot "${ROOT:-/}" mount -a -T /usr/lib/riobed/fstab
	# The workload's folder, when the machine has one.
	workload=$(disk workload)
	if [ -n "$workload" ]; then
		mount -t ext4 -o ro "$workload" "$ROOT/workload"
	fi
	# On other systems udev makes the names of disks and virtio ports.
	for serial in "$ROOT"/sys/block/vd*/serial; do
		name=${serial%/serial} serial=$(line "$serial")
		[ -z "$serial" ] || ln -sf "../../${name##*/}" "$ROOT/dev/disk/by-id/virtio-$serial"
	done
	for port in "$ROOT"/sys/class/virtio-ports/*; do
		[ -s "$port/name" ] || continue
		ln -sf "../${port##*/}" "$ROOT/dev/virtio-ports/$(line "$port/name")"
	done
}
