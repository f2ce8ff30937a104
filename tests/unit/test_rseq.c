/* Restartable sequences on kernels that do not report them. */
#include "check.h"
#include "inject/resume.h"
#include "own.h"

#include <dlfcn.h>
#include <sys/rseq.h>

static struct own own;

static void test_kernels(void)
{
    CHECK(!rseq_kernel_tells("4.19.0-27-amd64"));
    CHECK(!rseq_kernel_tells("5.4.0-200-generic"));
    CHECK(!rseq_kernel_tells("5.10.0-35-cloud-amd64"));
    CHECK(!rseq_kernel_tells("5.12"));
    CHECK(rseq_kernel_tells("5.13.0"));
    CHECK(rseq_kernel_tells("6.1.0-40-cloud-amd64"));
    CHECK(rseq_kernel_tells("10.0"));
    CHECK(rseq_kernel_tells("unknown"));
}

/* glibc before 2.35 has no such variables: looked up, because this test must link there as well. */
static void test_told_by_the_c_library(void)
{
    struct rseq_plan plan;
    const unsigned *size = dlsym(RTLD_DEFAULT, "__rseq_size");
    const ptrdiff_t *offset = dlsym(RTLD_DEFAULT, "__rseq_offset");

    rseq_plan_learn(&plan, &own.modules, &own.target, &own.memory);
    CHECK(plan.needed);
    CHECK(plan.told == (size && *size));
    if (plan.told)
        CHECK(plan.offset == *offset);
    CHECK(!plan.impossible);
}

static struct rseq_plan learn_from(const char *name)
{
    struct rseq_plan plan = {0};

    for (size_t i = 0; i < own.modules.count; i++) {
        struct modules one = own.modules;
        if (strncmp(module_name(&own.modules.list[i]), name, strlen(name)) != 0)
            continue;
        one.list = &own.modules.list[i];
        one.count = 1;
        rseq_plan_learn(&plan, &one, &own.target, &own.memory);
    }
    return plan;
}

/* This program contains the signature, to search for it; libm does not. */
static void test_signature(void)
{
    struct rseq_plan program = learn_from("test_rseq"), library = learn_from("libm.so");

    CHECK(program.needed && !program.told && !program.impossible);
    CHECK(library.needed && !library.told && library.impossible);
}

int main(void)
{
    if (!CHECK(dlopen("libm.so.6", RTLD_NOW)) || !CHECK(own_open(&own)))
        return check_result();
    test_kernels();
    test_told_by_the_c_library();
    test_signature();
    own_close(&own);
    return check_result();
}
