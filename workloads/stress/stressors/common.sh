#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What every stressor begins with; it is called STRESSOR SECONDS SEED WORKERS.
set -eu
export TIME="$1" SEED="$2" WORKERS="$3" LC_ALL=C
cd /mnt/test/work

# Exit status of a stressor whose guest lacks what it needs.
export LACKS=69

uptime_s() {
	cut -d. -f1 /proc/uptime
}

# repeat COMMAND...: again and again until the time is up, $ROUND counting from 0.
repeat() {
	end=$(($(uptime_s) + TIME))
	ROUND=0
	while [ "$(uptime_s)" -lt "$end" ]; do
		"$@"
		ROUND=$((ROUND + 1))
	done
}

# stress NAMES OPTION...: stress-ng's stressors of these names (with commas) one after the other,
# each for its part of the time.
stress() {
	names=$1
	shift
	each=$((TIME * 3 / 4 / $(echo "$names" | tr , '\n' | wc -l) + 1))
	status=0
	stress-ng --seq "$WORKERS" --with "$names" --timeout "$each" --verify --seed "$SEED" \
		--temp-path . --oomable "$@" >/tmp/stress-ng.log 2>&1 || status=$?
	cat /tmp/stress-ng.log
	leave_files "$@"
	# stress-ng skips what the kernel cannot do and calls that success.
	if grep 'skipped: [1-9]' /tmp/stress-ng.log; then
		return "$LACKS"
	fi
	case $status in
	3 | 4) return "$LACKS" ;; # no resource, not implemented
	*) return $status ;;
	esac
}

# stress-ng removes its files; a second pass is killed, so that there is something to compare.
leave_files() {
	for name in $(echo "$names" | tr , ' '); do
		stress-ng "--$name" "$WORKERS" --temp-path . "$@" >/tmp/killed.log 2>&1 &
		sleep $(((each + 2) / 3))
		kill_stressors
		wait $! || :
	done
}

# Its workers outlive a stress-ng that is killed. (Z: dead, waited for by nobody yet.)
kill_stressors() {
	# What grep's status says is of no use: processes come and go while it looks.
	while
		found=$(grep -lsE '^[0-9]+ \(stress-ng[^)]*\) [^Z]' /proc/[0-9]*/stat || :)
		[ -n "$found" ]
	do
		for stat in $found; do
			pid=${stat#/proc/}
			kill -KILL "${pid%/stat}" 2>/tmp/killed.log || :
		done
	done
}
