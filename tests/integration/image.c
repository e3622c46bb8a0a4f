// SPDX-License-Identifier: Apache-2.0
// The commands of the system make and mount the file.
#define _GNU_SOURCE // unshare
#include "image.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>

static bool run(const char *command)
{
    return system(command) == 0; // NOLINT(cert-env33-c)
}

bool image_mount(void)
{
    return run("mount -o loop image mounted 2>/dev/null");
}

bool image_make(struct image *i, const char *parent, const char *options)
{
    char command[256];
    NEED(scratch_make(&i->scratch, parent));
    (void)snprintf(i->mounted, sizeof i->mounted, "%s/mounted", i->scratch.path);
    (void)snprintf(command, sizeof command,
                   "truncate -s 64M image && mkdir mounted && mkfs.ext4 -q %s image 2>/dev/null",
                   options);
    return chdir(i->scratch.path) == 0 && unshare(CLONE_NEWNS) == 0 &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && run(command) && image_mount();
}

void image_done(struct image *i)
{
    (void)umount(i->mounted);
    scratch_remove(&i->scratch);
}
