/* The visible state of AppArmor and SELinux. */
#include "check.h"
#include "host/rights.h"
#include "proc_text.h"
#include "tree.h"

static struct tree tree;
static struct procfs proc;

static void test_kinds(void)
{
    static const char context[] = "system_u:system_r:container_t:s0:c1,c2";
    static const struct {
        const char *own, *enforce; /* NULL: no such file */
        enum lsm_kind kind;
    } rows[] = {
        {"", NULL, LSM_NONE},
        {"unconfined\n", NULL, LSM_NONE},
        {"docker-default (enforce)\n", NULL, LSM_APPARMOR},
        {"/usr/bin/x//null-y (kill)\n", NULL, LSM_APPARMOR},
        {"docker-default (complain)\n", NULL, LSM_NONE},
        {"cri-containerd.apparmor.d (enforce)", "1", LSM_APPARMOR},
        {context, "1", LSM_SELINUX},
        {context, "0", LSM_NONE},
        {context, NULL, LSM_SELINUX}, /* hidden in a container */
        {"unconfined_u:unconfined_r:unconfined_t:s0", "1", LSM_SELINUX},
        {"kernel", "1", LSM_NONE},
    };
    char name[48], path[TREE_PATH_MAX];
    struct lsm lsm;

    snprintf(name, sizeof name, "%d/attr/current", NO_PID);
    CHECK(tree_write(&tree, name, "its (enforce)\n"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK(tree_write(&tree, "self/attr/current", rows[i].own));
        if (rows[i].enforce)
            CHECK(tree_write(&tree, "self/root/sys/fs/selinux/enforce", rows[i].enforce));
        else
            unlink(tree_name(&tree, "self/root/sys/fs/selinux/enforce", path));
        lsm_read(&lsm, &proc, NO_PID);
        if (!CHECK(lsm.kind == rows[i].kind))
            fprintf(stderr, "  row %zu: %d\n", i, (int)lsm.kind);
        CHECK(strncmp(lsm.own, rows[i].own, strlen(lsm.own)) == 0 && !strchr(lsm.own, '\n'));
        CHECK(strcmp(lsm.its, "its (enforce)") == 0);
    }
    lsm_read(&lsm, &proc, NO_PID + 1);
    CHECK(lsm.its[0] == '\0');
}

static void test_absent(void)
{
    struct lsm lsm;
    char path[TREE_PATH_MAX];

    unlink(tree_name(&tree, "self/attr/current", path));
    lsm_read(&lsm, &proc, NO_PID);
    CHECK(lsm.kind == LSM_NONE && lsm.own[0] == '\0');
}

int main(void)
{
    if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0))
        return check_result();
    test_kinds();
    test_absent();
    procfs_close(&proc);
    tree_remove(&tree);
    return check_result();
}
