#include "profile/symbols/libdw.h"

#include <dlfcn.h>

bool libdw_load(struct libdw *library)
{
    void *handle = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!handle)
        return false;
#define RESOLVE(function)                                                                          \
    if (!(library->function = (__typeof__(library->function))dlsym(handle, #function)))            \
        return false;
    LIBDW_FUNCTIONS(RESOLVE) /* libelf's functions are found through libdw, which depends on it */
#undef RESOLVE
    return library->elf_version(EV_CURRENT) != EV_NONE;
}
