#include "host/oom_score.h"
#include "base/util.h"
#include "host/procfs.h"

#include <fcntl.h>
#include <unistd.h>

void oom_score_volunteer(void)
{
    AUTO_CLOSE int fd = -1;
    struct procfs proc;

    if (procfs_open(&proc, "/proc") == 0)
        fd = procfs_openf(&proc, O_WRONLY, "self/oom_score_adj");
    if (fd >= 0 && write(fd, "1000", 4) != 4)
        util_close(&fd);
    procfs_close(&proc);
}
