/* The symbol to which a name resolves in a process: the test's own, which has a dynamic linker's
   list. */
#include "check.h"
#include "elf/scope.h"
#include "own.h"

int main(void)
{
    struct own own;
    const struct module *module;

    if (!CHECK(own_open(&own)))
        return 1;
    module = scope_find(&own.modules, &own.memory, "strerrorname_np");
    CHECK(module && strncmp(module_name(module), "libc.so", 7) == 0);
    CHECK(!scope_find(&own.modules, &own.memory, "no_such_function_at_all"));
    CHECK(!scope_find(&own.modules, &own.memory, "environ")); /* data */
    /* Without the program's own mapping there is no list. */
    own.modules.list[0].inode = 0;
    CHECK(!scope_find(&own.modules, &own.memory, "strerrorname_np"));
    own_close(&own);
    return check_result();
}
