// SPDX-License-Identifier: Apache-2.0
// Finds a file of the store that every user of the machine can read. A folder that they cannot
// enter hides its content, so with the usual modes the search ends in the root.
#include "store/file/disk.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

static bool search(struct disk *d, int fd, char path[static DISK_PATH_MAX]);

static bool search_below(struct disk *d, char path[static DISK_PATH_MAX])
{
    int fd = disk_open(d, path, O_RDONLY | O_DIRECTORY);
    return fd >= 0 && search(d, fd, path);
}

// Takes fd. The length of a path limits the depth. True: path is the path of the file.
static bool search(struct disk *d, int fd, char path[static DISK_PATH_MAX])
{
    struct stat st;
    bool found = false;
    size_t len = strlen(path);
    DIR *dir = fstat(fd, &st) == 0 && (st.st_mode & 0001) ? fdopendir(fd) : NULL;
    if (!dir) {
        (void)disk_close(fd);
        return false;
    }
    for (struct dirent *row = readdir(dir); row && !found; row = readdir(dir)) {
        const char *name = row->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
        int more = snprintf(path + len, DISK_PATH_MAX - len, "%s%s", len ? "/" : "", name);
        bool fits = more > 0 && (size_t)more < DISK_PATH_MAX - len;
        if (fits && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            found = S_ISDIR(st.st_mode)   ? search_below(d, path)
                    : S_ISREG(st.st_mode) ? (st.st_mode & 0004) != 0
                                          : false;
        if (!found) path[len] = 0;
    }
    (void)closedir(dir);
    return found;
}

bool disk_is_exposed(struct disk *d, char path[static DISK_PATH_MAX])
{
    path[0] = 0;
    int fd = disk_open(d, ".", O_RDONLY | O_DIRECTORY);
    return fd >= 0 && search(d, fd, path);
}
