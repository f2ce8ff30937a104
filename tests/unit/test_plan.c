/* The code that a call borrows and the code that it avoids, in the test's own process. */
#include "check.h"
#include "elf/faults.h"
#include "inject/plan.h"
#include "own.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>

static struct own own;
static struct plan plan;

static remote_addr address_of(const char *name)
{
    return (remote_addr)(uintptr_t)dlsym(RTLD_DEFAULT, name);
}

static const struct module *libc(void)
{
    return modules_at(&own.modules, address_of("gnu_get_libc_version"));
}

static bool in_libc_code(remote_addr addr)
{
    return addr >= libc()->exec_start && addr < libc()->exec_end;
}

static void test_gadgets(void)
{
    unsigned char code[16];
    size_t len = sizeof code;

    CHECK(in_libc_code(plan.gadgets.syscall_return));
    CHECK(memory_read(&own.memory, plan.gadgets.syscall_return, code, len));
    CHECK(arch_find_syscall_return(code, len) == 0);
    CHECK(in_libc_code(plan.gadgets.sigreturn));
    CHECK(memory_read(&own.memory, plan.gadgets.sigreturn, code, len));
    CHECK(arch_find_sigreturn(code, len) == 0);
    CHECK(plan.errno_location == (remote_addr)(uintptr_t)&__errno_location);
}

static void test_store(void)
{
    struct arch_gadgets again = {0};
    unsigned char code[8];

    if (!CHECK(in_libc_code(plan.gadgets.store)))
        return;
    CHECK(memory_read(&own.memory, plan.gadgets.store, code, sizeof code));
    arch_decode_store(&again, plan.gadgets.store, code);
    CHECK(again.store_form == plan.gadgets.store_form);
    CHECK(again.store_disp == plan.gadgets.store_disp && again.store == plan.gadgets.store);
}

/* struct kernel_sigaction (kernel/signal.c): the restorer that the C library installs. */
static void test_sigreturn_is_restorer(void)
{
    struct {
        void *handler;
        unsigned long flags;
        void *restorer;
        uint64_t mask;
    } action = {0};

    CHECK(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
    CHECK(syscall(SYS_rt_sigaction, SIGUSR1, NULL, &action, 8) == 0);
    if (action.restorer)
        CHECK((remote_addr)(uintptr_t)action.restorer == plan.gadgets.sigreturn);
}

static void test_forbidden(void)
{
    static const char *const names[] = {
        "fork",        "vfork",  "pthread_create", "dlopen",  "dlclose", "pthread_exit",
        "posix_spawn", "malloc", "calloc",         "realloc", "free"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        remote_addr addr = address_of(names[i]);
        if (modules_at(&own.modules, addr) != libc())
            continue; /* a sanitizer's own */
        const struct code_range *range = ranges_find(&plan.forbidden, addr);
        CHECK(range != NULL && range->start <= addr && addr < range->end);
    }
    CHECK(!ranges_find(&plan.forbidden, address_of("getpid")));
    CHECK(!ranges_find(&plan.forbidden, plan.gadgets.syscall_return));
}

/* The whole loader. */
static void test_loader(void)
{
    unsigned loaders = 0;

    for (size_t i = 0; i < own.modules.count; i++) {
        const struct module *module = &own.modules.list[i];
        if (strncmp(module_name(module), "ld-linux", 8) != 0)
            continue;
        loaders++;
        const struct code_range *range = ranges_find(&plan.forbidden, module->exec_start);
        CHECK(range && strcmp(range->what, "the dynamic loader") == 0);
        CHECK(range && range->start <= module->start && range->end >= module->end);
    }
    CHECK(loaders == 1);
}

static void test_own_ranges(void)
{
    CHECK(plan_forbid(&plan, 0x1000, 0x2000, "mine", NULL) == FAULT_NONE);
    plan_seal(&plan);
    CHECK(ranges_find(&plan.forbidden, 0x1fff) && !ranges_find(&plan.forbidden, 0x2000));
    for (unsigned i = 0; i < 2 * PLAN_AVOID_MAX; i++)
        plan_avoid_thread(&plan, "jemalloc_bg_thd");
    CHECK(plan.avoid_count == PLAN_AVOID_MAX);
}

/* Nothing to borrow from. */
static void test_no_library(void)
{
    struct modules none = {0};
    struct plan empty;
    struct fault fault = {0};

    CHECK(plan_make(&empty, &none, &own.target, &own.memory, &fault) == FAULT_UNSUPPORTED);
    CHECK(fault.code == FAULT_UNSUPPORTED && empty.forbidden.list == NULL);
}

int main(void)
{
    if (!CHECK(own_open(&own)) || !CHECK(libc() != NULL))
        return check_result();
    if (!CHECK(plan_make(&plan, &own.modules, &own.target, &own.memory, NULL) == FAULT_NONE))
        return check_result();
    plan_seal(&plan);
    test_gadgets();
    test_store();
    test_sigreturn_is_restorer();
    test_forbidden();
    test_loader();
    test_own_ranges();
    test_no_library();
    plan_free(&plan);
    own_close(&own);
    return check_result();
}
