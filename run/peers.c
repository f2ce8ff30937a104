#include "run/peers.h"
#include "host/task.h"

#include <errno.h>
#include <fcntl.h>

enum { TRIES = 5000, TRY_NS = 1000000 }; /* a run is inside for milliseconds, or while it dumps */

void peers_open(struct peers *peers, const struct target *target)
{
    if (peers->opened)
        return;
    peers->proc = target->proc;
    peers->fd = procfs_openf(target->proc, O_RDONLY, "%d/numa_maps", (int)target->pid);
    if (peers->fd == -ENOENT) /* a kernel without CONFIG_NUMA */
        peers->fd = procfs_openf(target->proc, O_RDONLY, "%d/auxv", (int)target->pid);
    peers->opened = peers->fd >= 0;
    peers->tries = TRIES;
}

void peers_close(struct peers *peers)
{
    if (peers->opened)
        util_close(&peers->fd);
    peers->opened = peers->entered = false;
}

static struct flock lock_of(enum peer_mark mark, short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)mark, .l_len = 1};
}

void peers_mark(const struct peers *peers, enum peer_mark mark, bool set)
{
    struct flock lock = lock_of(mark, set ? F_RDLCK : F_UNLCK);

    if (peers->opened)
        (void)fcntl(peers->fd, F_SETLK, &lock);
}

/* Asks for a lock that excludes the others' shared ones; the own one is no obstacle. */
bool peers_others(const struct peers *peers, enum peer_mark mark)
{
    struct flock lock = lock_of(mark, F_WRLCK);
    struct proc_status status;

    if (!peers->opened || fcntl(peers->fd, F_GETLK, &lock) || lock.l_type == F_UNLCK)
        return false;
    /* Not an effective id: that of a set-user-ID program is its owner's, whoever has started it. */
    return lock.l_pid > 0 && process_status(peers->proc, lock.l_pid, &status) == 0 &&
           (status.uid == 0 || status.uid == getuid());
}

bool peers_sample(const struct target *target)
{
    struct peers peers = {0};
    bool others;

    peers_open(&peers, target);
    others = peers_others(&peers, PEER_AT_WORK);
    peers_close(&peers);
    return others;
}

/* Of two that try at the same moment, both withdraw, and try again after different times. */
static bool try_to_enter(struct peers *peers)
{
    peers_mark(peers, PEER_INSIDE, true);
    peers->entered = !peers_others(peers, PEER_INSIDE);
    if (!peers->entered)
        peers_mark(peers, PEER_INSIDE, false);
    return peers->entered;
}

bool peers_enter(struct peers *peers, const struct deadline *deadline)
{
    const struct timespec pause = {.tv_nsec = TRY_NS + getpid() % 64 * (TRY_NS / 64)};
    const uint64_t now = clock_now();
    const uint64_t until = deadline && deadline->at > now ? now + (deadline->at - now) / 2 : 0;

    if (!peers->opened || peers->entered)
        return false;
    while (!try_to_enter(peers) && peers->tries && clock_now() < until &&
           !deadline_interrupted(deadline)) {
        peers->tries--;
        nanosleep(&pause, NULL);
    }
    return peers->entered;
}

void peers_leave(struct peers *peers)
{
    if (peers->entered)
        peers_mark(peers, PEER_INSIDE, false);
    peers->entered = false;
}
