/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage0-boot: start the production kernel from the recovery kernel.
 *
 * usage: stage0-boot BZIMAGE COMMAND-LINE [INITRD]
 *
 * kexec_file_load(2) places the new kernel in what the running one calls System
 * RAM, so it lands in the boot window. A kernel needs an initrd only if the
 * drivers that mount its root, a disk, are not all built in.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kexec.h>
#include <linux/reboot.h>
#include <stdio.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	unsigned long flags = 0;
	int fd, initrd = -1;

	if (argc != 3 && argc != 4) {
		fprintf(stderr, "usage: stage0-boot BZIMAGE COMMAND-LINE [INITRD]\n");
		return 2;
	}
	if (argc == 3) {
		flags = KEXEC_FILE_NO_INITRAMFS;
	} else {
		initrd = open(argv[3], O_RDONLY | O_CLOEXEC);
		if (initrd < 0) {
			fprintf(stderr, "stage0-boot: %s: %s\n", argv[3], strerror(errno));
			return 1;
		}
	}
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0 || syscall(SYS_kexec_file_load, fd, initrd, strlen(argv[2]) + 1,
			      argv[2], flags)) {
		fprintf(stderr, "stage0-boot: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	reboot(LINUX_REBOOT_CMD_KEXEC);
	fprintf(stderr, "stage0-boot: kexec: %s\n", strerror(errno));
	return 1;
}
