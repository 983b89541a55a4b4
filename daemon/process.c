/* See process.h. */
#include "process.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "result.h"

static uint64_t entries(const char *path)
{
    uint64_t count = 0;
    DIR *folder = opendir(path);
    if (!folder)
        return ZC_UNMEASURED;
    for (const struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static uint64_t resident_bytes(void)
{
    uint64_t size, resident;
    FILE *statm = fopen("/proc/self/statm", "re");
    if (!statm)
        return ZC_UNMEASURED;
    int got = fscanf(statm, "%" SCNu64 " %" SCNu64, &size, &resident);
    fclose(statm);
    return got == 2 ? resident * (uint64_t)sysconf(_SC_PAGESIZE) : ZC_UNMEASURED;
}

void process_info(struct process_info *info)
{
    uint64_t fds = entries("/proc/self/fd");
    info->rss_bytes = resident_bytes();
    info->fds = fds == ZC_UNMEASURED ? fds : fds - 1;      /* without the one that reads the folder */
    info->threads = entries("/proc/self/task");
}
