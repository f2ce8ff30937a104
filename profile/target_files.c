#include "profile/symbols.h"

#include <errno.h>

int symbols_open_in_target(void *ctx, const struct symbol_mapping *mapping)
{
    const struct symbols_target *live = ctx;
    const struct module *module = modules_at(live->modules, mapping->start);

    return module ? module_open(module, live->target, live->memory) : -ENOENT;
}
