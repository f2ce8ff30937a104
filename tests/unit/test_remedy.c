/* The fix for each cause, for the runtime where the tool runs. */
#include "attach/permit.h"
#include "base/util.h"
#include "check.h"
#include "cli/faults.h"
#include "cli/remedy.h"

#include <errno.h>
#include <string.h>

static const fault_code of_rights[] = {FAULT_DENIED_UID, FAULT_DENIED_GID, FAULT_DENIED_DUMPABLE,
                                       FAULT_DENIED_CAPS, FAULT_DENIED_YAMA};

static const char *fix(const struct remedy *remedy, fault_code code, int reason)
{
    struct fault fault = {.code = code, .reason = reason};
    const char *text;

    text = remedy_template(remedy, &fault);
    return text ? text : "";
}

static void test_rights(void)
{
    static const char *const words[] = {
        [RUNTIME_NONE] = "sudo",
        [RUNTIME_DOCKER] = "docker run --pid=container:%I --cap-add SYS_PTRACE",
        [RUNTIME_PODMAN] = "podman run --pid=container:%I --cap-add SYS_PTRACE",
        [RUNTIME_KUBERNETES] = "--profile=general",
        [RUNTIME_OTHER] = "SYS_PTRACE",
    };

    for (size_t i = 0; i < ARRAY_LEN(of_rights); i++)
        for (enum runtime runtime = RUNTIME_NONE; runtime <= RUNTIME_OTHER; runtime++) {
            struct remedy remedy = {.runtime = runtime};
            CHECK(strstr(fix(&remedy, of_rights[i], of_rights[i] == FAULT_DENIED_YAMA),
                         words[runtime]));
            remedy.bounded = true;
            CHECK(runtime == RUNTIME_NONE ||
                  strstr(fix(&remedy, of_rights[i], of_rights[i] == FAULT_DENIED_YAMA),
                         "in this container as root"));
            remedy.root = true; /* it is root already: more sudo does not help */
            CHECK(!strstr(fix(&remedy, of_rights[i], of_rights[i] == FAULT_DENIED_YAMA), "sudo"));
            CHECK(*fix(&remedy, of_rights[i], of_rights[i] == FAULT_DENIED_YAMA));
        }
}

/* Other fixes on a host differ. */
static void test_host(void)
{
    const struct remedy user = {.runtime = RUNTIME_NONE},
                        root = {.runtime = RUNTIME_NONE, .root = true};

    CHECK(strstr(fix(&user, FAULT_DENIED_UID, 0), "sudo -u '#%U'"));
    CHECK(!strstr(fix(&user, FAULT_DENIED_CAPS, 0), "-u"));
    CHECK(strstr(fix(&user, FAULT_DENIED_DUMPABLE, 0), "setcap cap_sys_ptrace+ep %J"));
    CHECK(strstr(fix(&user, FAULT_DENIED_YAMA, 1), "sysctl kernel.yama.ptrace_scope=0"));
    CHECK(!strstr(fix(&user, FAULT_DENIED_YAMA, 2), "sysctl"));
    CHECK(strstr(fix(&user, FAULT_DENIED_YAMA, 2), "sudo"));
    CHECK(strstr(fix(&root, FAULT_DENIED_YAMA, 3), "machine is restarted"));
    CHECK(strstr(fix(&root, FAULT_DENIED_UID, 0), "no CAP_SYS_PTRACE"));
}

static void test_modules(void)
{
    for (enum runtime runtime = RUNTIME_NONE; runtime <= RUNTIME_OTHER; runtime++) {
        const struct remedy remedy = {.runtime = runtime};
        CHECK(*fix(&remedy, FAULT_DENIED_LSM, LSM_APPARMOR));
        CHECK(*fix(&remedy, FAULT_DENIED_LSM, LSM_SELINUX));
        CHECK(!strstr(fix(&remedy, FAULT_DENIED_LSM, LSM_APPARMOR), "label"));
        CHECK(!strstr(fix(&remedy, FAULT_DENIED_LSM, LSM_SELINUX), "aa-"));
    }
    const struct remedy docker = {.runtime = RUNTIME_DOCKER}, pod = {.runtime = RUNTIME_KUBERNETES};
    CHECK(strstr(fix(&docker, FAULT_DENIED_LSM, LSM_APPARMOR), "apparmor=unconfined"));
    CHECK(strstr(fix(&docker, FAULT_DENIED_LSM, LSM_SELINUX), "label=disable"));
    CHECK(strstr(fix(&pod, FAULT_DENIED_LSM, LSM_APPARMOR), "appArmorProfile"));
    CHECK(strstr(fix(&pod, FAULT_DENIED_LSM, LSM_SELINUX), "seLinuxOptions"));
    CHECK(strstr(fix(&docker, FAULT_DENIED_SECCOMP, 0), "seccomp=unconfined"));
    CHECK(strstr(fix(&pod, FAULT_DENIED_SECCOMP, 0), "seccompProfile"));
    CHECK(strstr(fix(&docker, FAULT_DENIED_USERNS, 0), "--userns=host"));
}

/* A wrong function that was called is not "the target was not touched". */
static void test_called(void)
{
    const struct remedy none = {.runtime = RUNTIME_NONE};

    CHECK(strstr(fix(&none, FAULT_UNSUPPORTED, UNSUPPORTED_BY_RESULT), "was called once"));
    CHECK(!*fix(&none, FAULT_UNSUPPORTED, UNSUPPORTED_FORESEEN)); /* that of the table */
}

/* A frozen target must be thawed by the user who froze it, wherever the tool runs. */
static void test_freezer(void)
{
    const struct remedy docker = {.engine = RUNTIME_DOCKER}, podman = {.engine = RUNTIME_PODMAN},
                        other = {.engine = RUNTIME_OTHER}, none = {.engine = RUNTIME_NONE};

    CHECK(strstr(fix(&docker, FAULT_FROZEN, FREEZER_V2), "docker unpause %I"));
    CHECK(strstr(fix(&podman, FAULT_FROZEN, FREEZER_V2), "podman unpause %I"));
    CHECK(strstr(fix(&other, FAULT_FROZEN, FREEZER_V2), "%W/cgroup.freeze"));
    CHECK(strstr(fix(&none, FAULT_FROZEN, FREEZER_V1), "THAWED > %W"));
}

/* Other faults have the one fix of cli/fault_table.c. */
static void test_general(void)
{
    const struct remedy remedy = {.runtime = RUNTIME_DOCKER};

    CHECK(!*fix(&remedy, FAULT_GONE, 0) && !*fix(&remedy, FAULT_PROFILE, 0));
    CHECK(strstr(fix(&remedy, FAULT_TRACED, TRACER_JEATTACH), "another jeattach"));
    CHECK(!*fix(&remedy, FAULT_TRACED, TRACER_OTHER) && !*fix(&remedy, FAULT_INTERNAL, 0));
    CHECK(!*fix(&remedy, FAULT_DENIED_LSM, LSM_NONE)); /* an unknown one */
}

/* An output has a fix if its errno shows one. */
static void test_output(void)
{
    const struct remedy remedy = {.runtime = RUNTIME_NONE};
    static const int known[] = {ENOENT, ENOTDIR, EEXIST, EACCES, EPERM, EROFS, ENOSPC, EDQUOT};
    struct fault fault = {.code = FAULT_OUTPUT};

    CHECK(!remedy_template(&remedy, &fault));
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        fault.err = known[i];
        CHECK(remedy_template(&remedy, &fault));
    }
    fault.err = EPIPE;
    CHECK(!remedy_template(&remedy, &fault));
}

static void test_look(void)
{
    struct remedy remedy;

    remedy_look(&remedy, getpid());
    CHECK(remedy.uid == getuid() && remedy.root == (geteuid() == 0));
    CHECK(remedy.program[0] == '/' && strstr(remedy.program, "test_remedy"));
    remedy_look(&remedy, 0);
    CHECK(strcmp(remedy.id, "TARGET") == 0 && !remedy.engine);
}

int main(void)
{
    test_rights();
    test_host();
    test_modules();
    test_freezer();
    test_called();
    test_general();
    test_output();
    test_look();
    return check_result();
}
