#include "beats.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BEATS_LEN = 3 * sizeof(uint64_t) };

volatile uint64_t *beats;

bool map_beats(void)
{
    int fd = open("beats", O_RDWR | O_CREAT | O_CLOEXEC, 0644);

    if (fd < 0 || ftruncate(fd, BEATS_LEN) != 0)
        return false;
    beats = mmap(NULL, BEATS_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return beats != MAP_FAILED;
}

void beat(void)
{
    __atomic_add_fetch(&beats[0], 1, __ATOMIC_RELAXED);
}

void wrong(void)
{
    __atomic_add_fetch(&beats[1], 1, __ATOMIC_RELAXED);
}
