#include "cli/remedy.h"
#include "attach/permit.h"
#include "attach/target_paths.h"
#include "base/util.h"
#include "cli/faults.h"
#include "host/container.h"
#include "host/rights.h"
#include "host/task.h"
#include "profile/faults.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Faults with the same remedies. */
enum group {
    GROUP_NONE,
    RIGHTS,
    USER,
    YAMA,
    NAMESPACE,
    FILTER,
    MODULE,
    FREEZER,
    TRACER,
    MALLCTL,
    ABSENT
};

static const struct {
    fault_code code;
    enum group group;
} groups[] = {
    {FAULT_TRACED, TRACER},       {FAULT_DENIED_UID, USER},
    {FAULT_DENIED_GID, RIGHTS},   {FAULT_DENIED_DUMPABLE, RIGHTS},
    {FAULT_DENIED_CAPS, RIGHTS},  {FAULT_DENIED_USERNS, NAMESPACE},
    {FAULT_DENIED_YAMA, YAMA},    {FAULT_DENIED_SECCOMP, FILTER},
    {FAULT_DENIED_LSM, MODULE},   {FAULT_FROZEN, FREEZER},
    {FAULT_UNSUPPORTED, MALLCTL}, {FAULT_NO_ALLOCATOR, ABSENT},
};

static enum group group_of(fault_code code)
{
    for (size_t i = 0; i < ARRAY_LEN(groups); i++)
        if (groups[i].code == code)
            return groups[i].group;
    return GROUP_NONE;
}

enum {
    HOST = 1 << RUNTIME_NONE,
    DOCKER = 1 << RUNTIME_DOCKER,
    PODMAN = 1 << RUNTIME_PODMAN,
    KUBERNETES = 1 << RUNTIME_KUBERNETES,
    OTHER = 1 << RUNTIME_OTHER,
    ANYWHERE = ~0u >> 1,
};

enum who {
    ANYBODY,
    ROOT,
    NOT_ROOT,
    COULD_BE_ROOT, /* not root, where root would have CAP_SYS_PTRACE */
};

#define KUBECTL(profile) "kubectl debug -it POD --image=IMAGE --target=CONTAINER --profile=" profile

#define ANY_REASON (-1)
#define ANY_ENGINE RUNTIME_NONE

/* The first row that matches is used. */
static const struct row {
    enum group group;
    unsigned runtimes; /* of the tool: a set of the bits above */
    enum who who;
    int reason;          /* fault.reason, or ANY_REASON */
    enum runtime engine; /* of the target's container, or ANY_ENGINE */
    const char *text;
} rows[] = {
    {YAMA, ANYWHERE, ANYBODY, 3, ANY_ENGINE,
     "none until the machine is restarted with a lower value: it can only be raised, and no "
     "process can be attached to until then"},
    {YAMA, HOST, NOT_ROOT, 1, ANY_ENGINE,
     "run it as root (sudo jeattach ...); or, for every user until the machine restarts: sudo "
     "sysctl kernel.yama.ptrace_scope=0"},
    {USER, HOST, NOT_ROOT, ANY_REASON, ANY_ENGINE,
     "run it as root (sudo jeattach ...) or as that user (sudo -u '#%U' jeattach ...); or give it "
     "the capability: sudo setcap cap_sys_ptrace+ep %J"},
    {RIGHTS, HOST, NOT_ROOT, ANY_REASON, ANY_ENGINE,
     "run it as root (sudo jeattach ...), or give it the capability: sudo setcap "
     "cap_sys_ptrace+ep %J"},
    {RIGHTS, HOST, ROOT, ANY_REASON, ANY_ENGINE,
     "root has no CAP_SYS_PTRACE here: run it where root has it (systemd: CapabilityBoundingSet=, "
     "a container engine: --cap-add SYS_PTRACE)"},
    {USER, DOCKER | PODMAN | KUBERNETES | OTHER, COULD_BE_ROOT, ANY_REASON, ANY_ENGINE,
     "run it in this container as root, who has CAP_SYS_PTRACE here, or as that user (docker or "
     "podman exec --user 0; securityContext: {runAsUser: 0})"},
    {RIGHTS, DOCKER | PODMAN | KUBERNETES | OTHER, COULD_BE_ROOT, ANY_REASON, ANY_ENGINE,
     "run it in this container as root, who has CAP_SYS_PTRACE here (docker or podman exec --user "
     "0; securityContext: {runAsUser: 0})"},
    {RIGHTS, DOCKER, ANYBODY, ANY_REASON, ANY_ENGINE,
     "give jeattach's container the capability: docker run --pid=container:%I --cap-add SYS_PTRACE "
     "--user 0 ...; or in the target's container: docker exec --privileged --user 0 %I "
     "jeattach ...; or run it on the host as root"},
    {RIGHTS, PODMAN, ANYBODY, ANY_REASON, ANY_ENGINE,
     "give jeattach's container the capability: podman run --pid=container:%I --cap-add SYS_PTRACE "
     "--user 0 ...; or in the target's container: podman exec --privileged --user 0 %I "
     "jeattach ...; or run it on the host as root"},
    {RIGHTS, KUBERNETES, ANYBODY, ANY_REASON, ANY_ENGINE,
     KUBECTL("general") " -- jeattach ... (it adds SYS_PTRACE; the image's user must be root); or "
                        "in the pod: securityContext: {runAsUser: 0, capabilities: {add: "
                        "[SYS_PTRACE]}}"},
    {RIGHTS, OTHER, ANYBODY, ANY_REASON, ANY_ENGINE,
     "run jeattach's container as root with the capability SYS_PTRACE, or run jeattach on the host "
     "as root"},
    {NAMESPACE, DOCKER, ANYBODY, ANY_REASON, ANY_ENGINE,
     "put both containers into one user namespace: docker run --userns=host --pid=container:%I "
     "--cap-add SYS_PTRACE --user 0 ...; or run it on the host as root"},
    {NAMESPACE, PODMAN, ANYBODY, ANY_REASON, ANY_ENGINE,
     "put both containers into one user namespace: podman run --userns=container:%I "
     "--pid=container:%I --cap-add SYS_PTRACE --user 0 ...; or run it on the host as root"},
    {NAMESPACE, KUBERNETES, ANYBODY, ANY_REASON, ANY_ENGINE,
     "use a debug container of the target's own pod: " KUBECTL("general") " -- jeattach ..."},
    {FILTER, DOCKER, ANYBODY, ANY_REASON, ANY_ENGINE,
     "start jeattach's container with a seccomp profile that allows ptrace, process_vm_readv and "
     "process_vm_writev: docker run --cap-add SYS_PTRACE ... or --security-opt seccomp=unconfined"},
    {FILTER, PODMAN, ANYBODY, ANY_REASON, ANY_ENGINE,
     "start jeattach's container with a seccomp profile that allows ptrace, process_vm_readv and "
     "process_vm_writev: podman run --cap-add SYS_PTRACE ... or --security-opt seccomp=unconfined"},
    {FILTER, KUBERNETES, ANYBODY, ANY_REASON, ANY_ENGINE,
     KUBECTL("sysadmin") " -- jeattach ...; or in the pod: securityContext: {seccompProfile: "
                         "{type: Unconfined}}"},
    {MODULE, DOCKER, ANYBODY, LSM_APPARMOR, ANY_ENGINE,
     "docker run --security-opt apparmor=unconfined --cap-add SYS_PTRACE --pid=container:%I ..."},
    {MODULE, PODMAN, ANYBODY, LSM_APPARMOR, ANY_ENGINE,
     "podman run --security-opt apparmor=unconfined --cap-add SYS_PTRACE --pid=container:%I ..."},
    {MODULE, KUBERNETES, ANYBODY, LSM_APPARMOR, ANY_ENGINE,
     KUBECTL("sysadmin") " -- jeattach ...; or in the pod: securityContext: {appArmorProfile: "
                         "{type: Unconfined}}"},
    {MODULE, ANYWHERE, ANYBODY, LSM_APPARMOR, ANY_ENGINE,
     "run it outside that profile, or set the profile to complain mode: sudo aa-complain PROFILE"},
    {MODULE, DOCKER, ANYBODY, LSM_SELINUX, ANY_ENGINE,
     "docker run --security-opt label=disable --cap-add SYS_PTRACE --pid=container:%I ..."},
    {MODULE, PODMAN, ANYBODY, LSM_SELINUX, ANY_ENGINE,
     "podman run --security-opt label=disable --cap-add SYS_PTRACE --pid=container:%I ..."},
    {MODULE, KUBERNETES, ANYBODY, LSM_SELINUX, ANY_ENGINE,
     "in the pod: securityContext: {seLinuxOptions: {type: spc_t}}"},
    {MODULE, ANYWHERE, ANYBODY, LSM_SELINUX, ANY_ENGINE,
     "if deny_ptrace is on (getsebool deny_ptrace): sudo setsebool deny_ptrace off; otherwise list "
     "the denials: sudo ausearch -m avc -ts recent"},
    {TRACER, ANYWHERE, ANYBODY, TRACER_JEATTACH, ANY_ENGINE,
     "that is another jeattach: try again when it has finished"},
    {MALLCTL, ANYWHERE, ANYBODY, UNSUPPORTED_BY_RESULT, ANY_ENGINE,
     "none; that function was called once, with the arguments of mallctl: please report this with "
     "the output of -v"},
    {ABSENT, ANYWHERE, ANYBODY, NO_ALLOCATOR_OWN, ANY_ENGINE,
     "for profiles build it with jemalloc (--enable-prof) and start it with "
     "MALLOC_CONF=prof:true,prof_active:false: the program contains a malloc of its own, which "
     "LD_PRELOAD does not replace"},
    {ABSENT, ANYWHERE, ANYBODY, NO_ALLOCATOR_STATIC, ANY_ENGINE,
     "for profiles build it with jemalloc (--enable-prof) and start it with "
     "MALLOC_CONF=prof:true,prof_active:false: it is a static program, for which LD_PRELOAD does "
     "nothing"},
    {FREEZER, ANYWHERE, ANYBODY, ANY_REASON, RUNTIME_DOCKER, "docker unpause %I, then try again"},
    {FREEZER, ANYWHERE, ANYBODY, ANY_REASON, RUNTIME_PODMAN, "podman unpause %I, then try again"},
    {FREEZER, ANYWHERE, ANYBODY, FREEZER_UNSEEN, ANY_ENGINE,
     "thaw it from the host (docker unpause, podman unpause, systemctl thaw), then try again"},
    {FREEZER, ANYWHERE, ANYBODY, FREEZER_V1, ANY_ENGINE,
     "thaw it, or the frozen cgroup above it: echo THAWED > %W/freezer.state"},
    {FREEZER, ANYWHERE, ANYBODY, ANY_REASON, ANY_ENGINE,
     "thaw it, or the frozen cgroup above it: systemctl thaw UNIT, or echo 0 > "
     "%W/cgroup.freeze"},
};

void remedy_look(struct remedy *remedy, pid_t pid)
{
    struct container container;
    struct proc_status status;
    struct procfs proc;

    memset(remedy, 0, sizeof *remedy);
    remedy->root = geteuid() == 0;
    snprintf(remedy->id, sizeof remedy->id, "TARGET");
    snprintf(remedy->program, sizeof remedy->program, "jeattach");
    if (procfs_open(&proc, "/proc"))
        return;
    remedy->runtime = runtime_of_tool(&proc);
    /* Root could have CAP_SYS_PTRACE if the capability bounding set has it. */
    remedy->bounded = process_status(&proc, PROC_SELF, &status) == 0 &&
                      capabilities_have_ptrace(status.cap_bounding);
    if (procfs_readlink(&proc, remedy->program, sizeof remedy->program, "self/exe") <= 0)
        snprintf(remedy->program, sizeof remedy->program, "jeattach");
    if (process_status(&proc, pid, &status) == 0)
        remedy->uid = status.uid;
    if (container_read(&proc, pid, &container) && container.engine) {
        remedy->engine = runtime_of_engine(container.engine);
        snprintf(remedy->id, sizeof remedy->id, "%.12s", container.id);
    }
    procfs_close(&proc);
}

/* The packages are libjemalloc2 of Debian and Ubuntu, jemalloc of Fedora, Arch and Alpine. */
const char *remedy_library(pid_t pid, char *out, size_t size)
{
    static const char *const paths[] = {"/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
                                        "/usr/lib64/libjemalloc.so.2", "/usr/lib/libjemalloc.so.2"};
    struct procfs proc;
    struct target target;

    snprintf(out, size, "libjemalloc.so.2");
    if (!pid || procfs_open(&proc, "/proc"))
        return out;
    if (target_open(&target, &proc, pid, NULL) == FAULT_NONE)
        for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
            AUTO_CLOSE int fd = target_open_file(&target, paths[i]);
            if (fd < 0)
                continue;
            snprintf(out, size, "%s", paths[i]);
            break;
        }
    target_close(&target);
    procfs_close(&proc);
    return out;
}

static bool row_matches(const struct row *row, enum group group, const struct remedy *remedy,
                        const struct fault *fault)
{
    /* Without a row of its own, a refusal is remedied by the capability, as the other rights. */
    bool of_rights = row->group == RIGHTS && (group == USER || group == YAMA);

    if (row->group != group && !of_rights)
        return false;
    if (!(row->runtimes & 1u << remedy->runtime))
        return false;
    if (row->who != ANYBODY && (row->who == ROOT) != remedy->root)
        return false;
    if (row->who == COULD_BE_ROOT && !remedy->bounded)
        return false;
    if (row->reason != ANY_REASON && row->reason != fault->reason)
        return false;
    return row->engine == ANY_ENGINE || row->engine == remedy->engine;
}

struct errno_fix {
    int err;
    const char *fix;
};

/* For an output that cannot be written. */
static const struct errno_fix output_fixes[] = {
    {ENOENT, "create the directory (mkdir -p %D), or give a path in an existing one"},
    {ENOTDIR, "give a path in an existing directory"},
    {EEXIST, "give another name, or --force to replace that file"},
    {EACCES, "give a path in a directory where you may create files"},
    {EPERM, "give a path in a directory where you may create files"},
    {EROFS, "give a path in a directory where you may create files"},
    {ENOSPC, "free some space, or give a path on another file system"},
    {EDQUOT, "free some space, or give a path on another file system"},
    {EFBIG, "let jeattach write larger files: ulimit -f"},
    {0, NULL},
};

/* Where not a right is missing. */
static const struct errno_fix resource_fixes[] = {
    {EMFILE, "let jeattach open more files: ulimit -n"},
    {ENFILE, "let the host open more files: sysctl fs.file-max"},
    {ENOMEM, "free some memory, or raise the memory limit of jeattach"},
    {0, NULL},
};

/* NULL: none is known. */
static const char *errno_fix(const struct errno_fix *fixes, int err)
{
    while (fixes->fix && fixes->err != err)
        fixes++;
    return fixes->fix;
}

/* Returns the line to type for a file that is no heap profile; NULL: none is known. */
static const char *profile_fix(int reason)
{
    static const char *const fixes[] = {
        [PROFILE_PPROF] = "go tool pprof -top FILE",
        [PROFILE_GO] = "go tool pprof -top FILE",
        [PROFILE_JAVA] = "open it with VisualVM or Eclipse MAT; for the memory outside of Java's "
                         "heap: jeattach PID",
        [PROFILE_CORE] = "jeattach explain --core FILE",
        [PROFILE_PROGRAM] = "give a profile, too: jeattach report --exe PROGRAM FILE.heap",
        [PROFILE_PERF] = "perf report -i FILE",
        [PROFILE_MASSIF] = "ms_print FILE",
        [PROFILE_GZIP] = "gzip -dc FILE | jeattach report -",
        [PROFILE_ZSTD] = "zstd -dc FILE | jeattach report -",
        [PROFILE_XZ] = "xz -dc FILE | jeattach report -",
        [PROFILE_BZIP2] = "bzip2 -dc FILE | jeattach report -",
        [PROFILE_LZ4] = "lz4 -dc FILE | jeattach report -",
        [PROFILE_MIXED] = "give those of one program; two are compared by: jeattach report NEW "
                          "--base OLD",
    };

    return fixes[reason];
}

const char *remedy_template(const struct remedy *remedy, const struct fault *fault)
{
    enum group group = group_of(fault->code);

    if (fault->code == FAULT_OUTPUT)
        return errno_fix(output_fixes, fault->err);
    if (fault->code == FAULT_PROFILE)
        return fault->err ? "give the path of a profile that you may read"
                          : profile_fix(fault->reason);
    if (fault->code == FAULT_DENIED && errno_fix(resource_fixes, fault->err))
        return errno_fix(resource_fixes, fault->err);
    for (size_t i = 0; group != GROUP_NONE && i < ARRAY_LEN(rows); i++)
        if (row_matches(&rows[i], group, remedy, fault))
            return rows[i].text;
    return NULL;
}
