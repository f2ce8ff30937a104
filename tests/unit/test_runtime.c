/* Where the tool runs, by files that the engines create. */
#include "check.h"
#include "host/container.h"
#include "tree.h"

static const char docker_group[] =
    "0::/system.slice/docker-"
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope\n";
static const char podman_group[] =
    "5:cpu:/machine.slice/libpod-"
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope/container\n";
static const char pod_group[] =
    "0::/kubepods.slice/kubepods-burstable.slice/"
    "kubepods-burstable-pod01234567_89ab_cdef_0123_456789abcdef.slice/cri-containerd-"
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope\n";
static const char other_group[] =
    "0::/lxc/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n";

#define WORDS(text) text, sizeof(text)

static void test_places(void)
{
    static const struct {
        const char *cgroup, *environment;
        size_t environment_len;
        const char *file; /* below the root; NULL: none */
        enum runtime runtime;
    } rows[] = {
        {"0::/\n", WORDS("PATH=/bin"), NULL, RUNTIME_NONE},
        {"0::/user.slice\n", WORDS("MYcontainer=podman"), NULL, RUNTIME_NONE},
        {docker_group, WORDS(""), NULL, RUNTIME_DOCKER},
        {"0::/\n", WORDS("A=b"), ".dockerenv", RUNTIME_DOCKER},
        {podman_group, WORDS("A=b"), NULL, RUNTIME_PODMAN},
        {"0::/\n", WORDS("A=b\0container=podman"), NULL, RUNTIME_PODMAN},
        {"0::/\n", WORDS("A=b"), "run/.containerenv", RUNTIME_PODMAN},
        {pod_group, WORDS(""), NULL, RUNTIME_KUBERNETES},
        {"0::/\n", WORDS("A=b\0KUBERNETES_SERVICE_HOST=10.0.0.1"), ".dockerenv",
         RUNTIME_KUBERNETES},
        {"0::/\n", WORDS("KUBERNETES_SERVICE_HOST_X=1"), NULL, RUNTIME_NONE},
        {other_group, WORDS(""), NULL, RUNTIME_OTHER},
        {"0::/\n", WORDS("container=lxc\0A=b"), NULL, RUNTIME_OTHER},
        {"0::/\n", WORDS("container="), NULL, RUNTIME_NONE},
        {NULL, NULL, 0, NULL, RUNTIME_NONE},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tree tree;
        struct procfs proc;
        char name[64];
        if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0))
            return;
        if (rows[i].cgroup)
            CHECK(tree_write(&tree, "self/cgroup", rows[i].cgroup));
        if (rows[i].environment)
            CHECK(tree_write_bytes(&tree, "self/environ", rows[i].environment,
                                   rows[i].environment_len));
        snprintf(name, sizeof name, "self/root/%s", rows[i].file ? rows[i].file : "etc/passwd");
        CHECK(tree_write(&tree, name, ""));
        enum runtime runtime = runtime_of_tool(&proc);
        if (!CHECK(runtime == rows[i].runtime))
            fprintf(stderr, "  row %zu: %d\n", i, (int)runtime);
        procfs_close(&proc);
        tree_remove(&tree);
    }
}

int main(void)
{
    test_places();
    return check_result();
}
