/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage0-boot: start the production kernel from the recovery kernel.
 *
 * usage: stage0-boot BZIMAGE COMMAND-LINE
 *
 * kexec_file_load(2) places the new kernel in what the running one calls System
 * RAM, so it lands in the boot window. No initrd: its root is a disk.
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
	int fd;

	if (argc != 3) {
		fprintf(stderr, "usage: stage0-boot BZIMAGE COMMAND-LINE\n");
		return 2;
	}
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0 || syscall(SYS_kexec_file_load, fd, -1, strlen(argv[2]) + 1,
			      argv[2], (unsigned long)KEXEC_FILE_NO_INITRAMFS)) {
		fprintf(stderr, "stage0-boot: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	reboot(LINUX_REBOOT_CMD_KEXEC);
	fprintf(stderr, "stage0-boot: kexec: %s\n", strerror(errno));
	return 1;
}
