/*
 * A tool that AppArmor confines by a profile without a rule for ptrace, as a container's profile
 * does: then not even root may attach. The initramfs has the compiled profile.
 */
#include "guest.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define POLICY "/apparmor.policy"
#define LOAD   "/sys/kernel/security/apparmor/.replace"

/* The kernel accepts a policy only in one write. */
static bool load_policy(void)
{
    static char policy[1 << 20];
    int from = open(POLICY, O_RDONLY | O_CLOEXEC), to = open(LOAD, O_WRONLY | O_CLOEXEC);
    ssize_t len = from >= 0 ? read(from, policy, sizeof(policy)) : -1;
    bool good = to >= 0 && len > 0 && write(to, policy, (size_t)len) == len;

    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    return good;
}

static void confined(void)
{
    static const char *const words[] = {"apparmor", "confined", NULL};
    struct start start = {.label = "confined"};
    struct victim victim;

    if (access(POLICY, R_OK) != 0 || access(LOAD, F_OK) != 0) {
        check_skip("no AppArmor here, or no compiler for its profiles");
        return;
    }
    REQUIRE(load_policy(), "the profile cannot be loaded");
    if (!victim_start(&victim, "nanosleep", "30", NULL))
        return;
    const char *pid = text_of(victim.pid);
    struct result result =
        tool_run(&start, (const char *const[]){"jeattach", "on", "--call", pid, NULL});
    result_is(&result, 4, words);
    victim_unharmed(&victim);
}

const struct check apparmor_checks[] = {
    {"apparmor", confined, false},
    {NULL, NULL, false},
};
