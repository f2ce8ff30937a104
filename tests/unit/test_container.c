/* The container of a process, by recorded cgroups and mounts; names and shortened ids. */
#include "check.h"
#include "host/container.h"
#include "proc_text.h"
#include "tree.h"

#include <stdlib.h>
#include <string.h>

#define ID        "4f1c2d3e5a6b7c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f"
#define ID2       "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define UID       "8f3e1c2d-0a1b-4c5d-9e8f-102030405060"
#define NAME_64   "a-name-of-16-byta-name-of-16-byta-name-of-16-byta-name-of-16-byt"
#define UID_SLICE "8f3e1c2d_0a1b_4c5d_9e8f_102030405060"

/* /proc/PID/cgroup of one process of each engine. */
static const struct {
    const char *what, *text, *engine, *id;
} records[] = {
    {"docker, v2", "0::/system.slice/docker-" ID ".scope\n", "docker", ID},
    {"docker, v1", "12:memory:/docker/" ID "\n1:name=systemd:/docker/" ID "\n0::/\n", "docker", ID},
    {"docker, hybrid", "5:cpu,cpuacct:/docker/" ID "\n0::/system.slice/containerd.service\n",
     "docker", ID},
    {"podman", "0::/machine.slice/libpod-" ID ".scope/container\n", "podman", ID},
    {"podman without systemd", "9:memory:/libpod_parent/libpod-" ID "\n0::/\n", "podman", ID},
    {"containerd",
     "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_SLICE
     ".slice/cri-containerd-" ID ".scope\n",
     "containerd", ID},
    {"cri-o", "0::/kubepods.slice/kubepods-pod" UID_SLICE ".slice/crio-" ID ".scope/container\n",
     "cri-o", ID},
    {"kubelet without systemd", "4:pids:/kubepods/besteffort/pod" UID "/" ID "\n", "container", ID},
    {"nspawn, a unit", "0::/machine.slice/systemd-nspawn@web.service/payload/init.scope\n",
     "nspawn", "web"},
    {"nspawn, by hand", "0::/machine.slice/machine-web\\x2d1.scope/payload\n", "nspawn", "web-1"},
    {"nspawn, v1", "1:name=systemd:/machine.slice/machine-db.scope\n0::/\n", "nspawn", "db"},
    {"nspawn, the longest name", "0::/machine.slice/machine-" NAME_64 ".scope\n", "nspawn",
     NAME_64},
    {"lxc", "0::/lxc.payload.mail/system.slice/postfix.service\n", "lxc", "mail"},
};

static void test_records(void)
{
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        const char *text = records[i].text, *id = records[i].id;
        struct container found;
        bool good = CHECK(container_of_groups(cursor_of(text, strlen(text)), &found)) &&
                    CHECK(strcmp(found.engine, records[i].engine) == 0) &&
                    CHECK(strcmp(found.id, id) == 0) &&
                    CHECK(container_in_groups(cursor_of(text, strlen(text)), id, &found)) &&
                    CHECK(strcmp(found.id, id) == 0) &&
                    CHECK(!container_in_groups(cursor_of(text, strlen(text)), ID2, &found)) &&
                    CHECK(!container_in_groups(cursor_of(text, strlen(text)), "nosuch", &found));
        if (!good)
            fprintf(stderr, "  %s\n", records[i].what);
    }
}

/* From four digits on; a name is never cut. */
static void test_short_ids(void)
{
    static const char docker[] = "0::/system.slice/docker-" ID ".scope\n";
    static const char nspawn[] = "0::/machine.slice/systemd-nspawn@cafe1.service/payload\n";
    struct container found;

    CHECK(container_in_groups(cursor_of(docker, strlen(docker)), "4f1c", &found) &&
          strcmp(found.id, ID) == 0);
    CHECK(container_in_groups(cursor_of(docker, strlen(docker)), "4f1c2d3e5a6b", &found));
    CHECK(!container_in_groups(cursor_of(docker, strlen(docker)), "4f1", &found));
    CHECK(!container_in_groups(cursor_of(docker, strlen(docker)), "", &found));
    CHECK(!container_in_groups(cursor_of(docker, strlen(docker)), "4f1d", &found));
    CHECK(!container_in_groups(cursor_of(docker, strlen(docker)), "1c2d3e5a", &found));
    CHECK(!container_in_groups(cursor_of(docker, strlen(docker)), ID "0", &found));
    CHECK(!container_in_groups(cursor_of(nspawn, strlen(nspawn)), "cafe", &found));
    CHECK(container_in_groups(cursor_of(nspawn, strlen(nspawn)), "cafe1", &found));
    CHECK(strcmp(container_id("docker/4f1c"), "4f1c") == 0);
    CHECK(strcmp(container_id("containerd://" ID), ID) == 0);
    CHECK(strcmp(container_id(ID), ID) == 0);
}

/* A container inside a container matches both. */
static void test_nested(void)
{
    static const char text[] = "0::/docker/" ID2 "/kubelet/kubepods/pod" UID "/" ID "\n";
    struct container found;

    CHECK(container_in_groups(cursor_of(text, strlen(text)), ID2, &found) &&
          strcmp(found.id, ID2) == 0);
    CHECK(container_in_groups(cursor_of(text, strlen(text)), ID, &found) &&
          strcmp(found.id, ID) == 0);
    CHECK(container_of_groups(cursor_of(text, strlen(text)), &found) && strcmp(found.id, ID) == 0);
}

static void test_no_container(void)
{
    static const char *const texts[] = {
        "0::/machine.slice/libpod-conmon-" ID ".scope\n",
        "0::/machine.slice/machine-qemu\\x2d1\\x2dwin.scope\n",
        "0::/machine.slice/machine-.scope\n",
        "0::/system.slice/systemd-nspawn@.service\n",
        "0::/system.slice/machine-x.service\n",
        "0::/machine.slice/machine-" NAME_64 "x.scope\n",
        "0::/\n",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct container found;
        if (!CHECK(!container_of_groups(cursor_of(texts[i], strlen(texts[i])), &found)) ||
            !CHECK(!container_in_groups(cursor_of(texts[i], strlen(texts[i])), ID, &found)))
            fprintf(stderr, "  %s", texts[i]);
    }
}

#define MOUNT(root, point) "36 35 8:1 " root " " point " rw,relatime master:1 - ext4 /dev/sda1 rw\n"

static bool mounted(const char *text, struct container *out)
{
    size_t len = strlen(text);
    char *copy = malloc(len + 1); /* exactly as long: a read beyond it is noticed */
    bool found = copy && container_of_mounts(cursor_of(memcpy(copy, text, len), len), out);

    free(copy);
    return found;
}

/* Files that engines mount into a container whose cgroups do not name it. */
static void test_mounts(void)
{
    struct container found;

    CHECK(mounted(MOUNT("/", "/proc")
                      MOUNT("/var/lib/docker/containers/" ID "/hostname", "/etc/hostname"),
                  &found));
    CHECK(strcmp(found.engine, "docker") == 0 && strcmp(found.id, ID) == 0 && !found.pod[0]);
    CHECK(mounted(MOUNT("/containers/" ID "/hostname", "/etc/hostname"), &found));
    CHECK(mounted(MOUNT("/containers/storage/overlay-containers/" ID "/userdata/.containerenv",
                        "/run/.containerenv"),
                  &found));
    CHECK(strcmp(found.engine, "podman") == 0 && strcmp(found.id, ID) == 0);
    CHECK(mounted(MOUNT("/var/lib/kubelet/pods/" UID "/etc-hosts", "/etc/hosts")
                      MOUNT("/containers/storage/overlay-containers/" ID "/userdata/.containerenv",
                            "/run/.containerenv"),
                  &found));
    CHECK(!found.engine && !found.id[0] && strcmp(found.pod, UID) == 0);
    /* On the host: the engine's own files are no sign of a container. */
    CHECK(!mounted(MOUNT("/", "/var/lib/docker/containers/" ID "/mounts/shm"), &found));
    CHECK(!mounted(MOUNT("/var/lib/docker/containers/" ID "/hostname", "/mnt"), &found));
    CHECK(!mounted(MOUNT("/var/lib/docker/containers/abc/hostname", "/etc/hostname"), &found));
    CHECK(!mounted("", &found) && !mounted("\n\n", &found) && !mounted("36 35 8:1 /a", &found));
    CHECK(!mounted("36 35 8:1 /containers/" ID "/x /etc/hostnam", &found));
}

static void test_process(void)
{
    struct tree tree;
    struct procfs proc;
    struct container found;

    if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0))
        return;
    CHECK(!container_read(&proc, NO_PID, &found) && !found.engine && !found.pod[0]);
    CHECK(!container_has(&proc, NO_PID, ID, &found));
    CHECK(tree_write(&tree, "5000000/cgroup", "0::/\n"));
    CHECK(!container_read(&proc, NO_PID, &found));
    CHECK(tree_write(&tree, "5000000/mountinfo",
                     MOUNT("/var/lib/docker/containers/" ID "/hostname", "/etc/hostname")));
    CHECK(container_read(&proc, NO_PID, &found) && strcmp(found.id, ID) == 0);
    CHECK(container_has(&proc, NO_PID, "4f1c", &found) && strcmp(found.engine, "docker") == 0);
    CHECK(!container_has(&proc, NO_PID, ID2, &found));
    /* cgroups that name a container have priority over mounts. */
    CHECK(tree_write(&tree, "5000000/cgroup", "0::/docker/" ID2 "\n"));
    CHECK(container_read(&proc, NO_PID, &found) && strcmp(found.id, ID2) == 0);
    CHECK(container_has(&proc, NO_PID, ID2, &found) && !container_has(&proc, NO_PID, ID, &found));
    procfs_close(&proc);
    tree_remove(&tree);
}

int main(void)
{
    test_records();
    test_short_ids();
    test_nested();
    test_no_container();
    test_mounts();
    test_process();
    return check_result();
}
