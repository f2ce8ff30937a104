/* /proc/PID/cgroup with the cgroups of container engines. */
#include "check.h"
#include "host/cgroup.h"
#include "host/container.h"

#include <stdlib.h>
#include <string.h>

#define ID        "4f1c2d3e5a6b7c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f"
#define ID2       "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define UID       "8f3e1c2d-0a1b-4c5d-9e8f-102030405060"
#define UID_SLICE "8f3e1c2d_0a1b_4c5d_9e8f_102030405060"

/* Parses a copy of exactly that length, so that a read beyond it is noticed. */
static bool parse_text(const char *text, struct container *out)
{
    size_t len = strlen(text);
    char *copy = malloc(len ? len : 1);
    bool inside = copy && container_of_groups(cursor_of(memcpy(copy, text, len), len), out);

    free(copy);
    return inside;
}

static bool is_container(const char *text, const char *engine, const char *id, const char *pod)
{
    struct container found;
    bool inside = parse_text(text, &found);
    bool same = inside && found.engine && strcmp(found.engine, engine) == 0 &&
                strcmp(found.id, id) == 0 && strcmp(found.pod, pod) == 0;

    if (!same)
        fprintf(stderr, "  %s  got %d %s %s pod '%s'\n", text, inside,
                found.engine ? found.engine : "(none)", found.id, found.pod);
    return same;
}

static void test_docker(void)
{
    CHECK(is_container("0::/system.slice/docker-" ID ".scope\n", "docker", ID, ""));
    CHECK(is_container("12:memory:/docker/" ID "\n11:cpu,cpuacct:/docker/" ID "\n"
                       "1:name=systemd:/docker/" ID "\n0::/system.slice/containerd.service\n",
                       "docker", ID, ""));
    /* In the container's own cgroup namespace, seen from another one. */
    CHECK(is_container("0::/../docker-" ID ".scope/init", "docker", ID, ""));
    CHECK(is_container("2:cpu:/\n1:memory:/docker/" ID "\n0::/\n", "docker", ID, ""));
}

static void test_podman(void)
{
    CHECK(is_container("0::/machine.slice/libpod-" ID ".scope/container\n", "podman", ID, ""));
    CHECK(is_container("0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID
                       ".scope\n",
                       "podman", ID, ""));
    CHECK(is_container("9:memory:/libpod_parent/libpod-" ID "\n0::/\n", "podman", ID, ""));
    CHECK(is_container("0::/libpod_parent/" ID "\n", "podman", ID, ""));
    CHECK(is_container("0::/system.slice/a.service/libpod-payload-" ID "\n", "podman", ID, ""));
}

static void test_kubernetes(void)
{
    CHECK(
        is_container("0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_SLICE
                     ".slice/cri-containerd-" ID ".scope\n",
                     "containerd", ID, UID));
    CHECK(is_container("0::/kubepods.slice/kubepods-pod" UID_SLICE ".slice/crio-" ID
                       ".scope/container\n",
                       "cri-o", ID, UID));
    CHECK(is_container("4:pids:/kubepods/besteffort/pod" UID "/" ID "\n", "container", ID, UID));
    CHECK(is_container("0::/system.slice/containerd.service/kubepods-burstable-pod" UID_SLICE
                       ".slice:cri-containerd:" ID "\n",
                       "containerd", ID, UID));
    /* A static pod's uid is a hash without hyphens. */
    CHECK(is_container("0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"
                       "00112233445566778899aabbccddeeff.slice/docker-" ID ".scope\n",
                       "docker", ID, "00112233445566778899aabbccddeeff"));
}

static void test_nested(void)
{
    CHECK(is_container("0::/docker/" ID2 "/kubelet/kubepods/pod" UID "/" ID "\n", "container", ID,
                       UID));
    CHECK(is_container("0::/system.slice/docker-" ID ".scope/system.slice/ssh.service\n", "docker",
                       ID, ""));
}

static void test_others(void)
{
    CHECK(is_container("0::/system.slice/nerdctl-" ID ".scope\n", "containerd", ID, ""));
    CHECK(is_container("0::/default/" ID "\n", "container", ID, ""));
    CHECK(is_container("0::/ecs/cluster/00112233/" ID "\n", "container", ID, ""));
}

static void test_pod_alone(void)
{
    struct container found;

    CHECK(parse_text("0::/kubepods.slice/kubepods-pod" UID_SLICE ".slice\n", &found));
    CHECK(!found.engine && !found.id[0] && strcmp(found.pod, UID) == 0);
}

static void test_none(void)
{
    static const char *const texts[] = {
        "",
        "\n",
        "0::/\n",
        "0::/init.scope\n",
        "0::/user.slice/user-1000.slice/session-3.scope\n",
        "0::/system.slice/docker.service\n",
        "4:memory:/jobs/7df5bc061760627433f3bf2a82a9377a\n",
        "0::/machine.slice/libpod-conmon-" ID ".scope\n",
        "0::/kubepods.slice/crio-conmon-" ID ".scope\n",
        "0::/user.slice/podcast-player.service\n",
        "0::/a/podabc/x\n",
        "docker/" ID,
        "0:docker/" ID,
        "0::/docker/" ID "a\n",
        "0::/docker/4F1C2D3E5A6B7C8D9E0F1A2B3C4D5E6F708192A3B4C5D6E7F8091A2B3C4D5E6F\n",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct container found;
        if (!CHECK(!parse_text(texts[i], &found)))
            fprintf(stderr, "  %s", texts[i]);
        CHECK(!found.engine && !found.id[0] && !found.pod[0]);
    }
}

/* A path that is cut off would name another cgroup. */
static void test_long_path(void)
{
    char text[256], path[64];

    for (size_t len = sizeof path - 4; len < sizeof path + 4; len++) {
        memset(text, '/', sizeof text);
        memcpy(text, "0::", 3);
        text[3 + len] = '\0';
        bool found = cgroup_path(cursor_of(text, strlen(text)), CGROUP_V2, path, sizeof path);
        CHECK(found == (len < sizeof path));
        CHECK(!found || strcmp(path, text + 3) == 0);
    }
}

int main(void)
{
    test_docker();
    test_podman();
    test_kubernetes();
    test_nested();
    test_others();
    test_pod_alone();
    test_none();
    test_long_path();
    return check_result();
}
