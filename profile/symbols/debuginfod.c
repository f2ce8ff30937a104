#include "profile/symbols/debuginfod.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

/* As in <elfutils/debuginfod.h>, which is in a separate package. */
struct client;

struct library {
    struct client *(*begin)(void);
    int (*find)(struct client *client, const unsigned char *id, int len, char **path);
    void (*end)(struct client *client);
};

static bool debuginfod_load(struct library *library)
{
    void *handle = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!handle)
        return false;
#define RESOLVE(name, function)                                                                    \
    if (!(library->name = (__typeof__(library->name))dlsym(handle, function)))                     \
        return false;
    RESOLVE(begin, "debuginfod_begin")
    RESOLVE(find, "debuginfod_find_debuginfo")
    RESOLVE(end, "debuginfod_end")
#undef RESOLVE
    return true;
}

/* Sets the library's own limits, in seconds, unless the operator has set them (debuginfod(8)). */
static void set_limits(void)
{
    setenv("DEBUGINFOD_TIMEOUT", "10", 0); /* without progress */
    setenv("DEBUGINFOD_MAXTIME", "60", 0); /* for one file */
}

int debuginfod_open(const struct build_id *id)
{
    struct library library;
    struct client *client;
    int fd;

    if (!debuginfod_load(&library))
        return -ENOSYS;
    set_limits();
    client = library.begin();
    if (!client)
        return -ENOMEM;
    fd = library.find(client, id->bytes, (int)id->len, NULL);
    library.end(client);
    return fd;
}
