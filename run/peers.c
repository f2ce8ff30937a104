#include "run/peers.h"

#include <fcntl.h>
#include <sys/file.h>

enum { TRIES = 5000, TRY_NS = 1000000 }; /* a run holds it for milliseconds, or while it dumps */

void peers_open(struct peers *peers, const struct target *target)
{
    if (peers->opened)
        return;
    peers->fd = procfs_openf(target->proc, O_RDONLY, "%d/maps", (int)target->pid);
    peers->opened = peers->fd >= 0;
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
        (void)fcntl(peers->fd, F_OFD_SETLK, &lock);
}

/* Asks for a lock that excludes the others' shared ones; the own one is no obstacle. */
bool peers_others(const struct peers *peers, enum peer_mark mark)
{
    struct flock lock = lock_of(mark, F_WRLCK);

    return peers->opened && fcntl(peers->fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
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

bool peers_enter(struct peers *peers, bool may_wait)
{
    const struct timespec pause = {.tv_nsec = TRY_NS};

    if (!peers->opened || peers->entered)
        return false;
    for (unsigned i = 0; i < TRIES; i++) {
        peers->entered = flock(peers->fd, LOCK_EX | LOCK_NB) == 0;
        if (peers->entered || !may_wait || errno != EWOULDBLOCK)
            break;
        nanosleep(&pause, NULL);
    }
    return peers->entered;
}

void peers_leave(struct peers *peers)
{
    if (peers->entered)
        (void)flock(peers->fd, LOCK_UN);
    peers->entered = false;
}
