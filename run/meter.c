#include "run/meter.h"
#include "host/task.h"
#include "run/faults.h"
#include "run/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#define SECOND_NS ((uint64_t)1000000000)

/* Limits seldom change, and processes seldom move to another cgroup; reading mounts is slow. */
static const uint64_t LIMITS_HOLD = SECOND_NS, GROUPS_HOLD = 60 * SECOND_NS;

static bool needs_pressure(const struct rules *rules)
{
    return rules_need(rules, METRIC_PSI_SOME) || rules_need(rules, METRIC_PSI_FULL);
}

/* If the kernel refuses a trigger (window, privileges, old kernel), totals are read instead. */
static void set_alarms(struct meter *meter)
{
    for (size_t i = 0; i < meter->rules->count; i++) {
        const struct rule *rule = &meter->rules->list[i];
        int fd = -1;
        util_close(&meter->alarms[i]);
        if (rule_is_pressure(rule))
            fd = pressure_trigger(&meter->pressure, rule_pressure(rule), rule_stall_us(rule),
                                  rule->window_ns / 1000);
        meter->alarms[i] = fd < 0 ? -1 : fd;
        meter->rules->states[i].watched_by_kernel = fd >= 0;
    }
}

/* 0 or -errno */
static int open_pressure(struct meter *meter)
{
    int err = pressure_open(&meter->pressure, meter->target->proc, target_via(meter->target));

    if (!err)
        set_alarms(meter);
    return err;
}

static void renew_groups(struct meter *meter, uint64_t now)
{
    struct pressure seen;

    limits_close(&meter->limits);
    limits_open(&meter->limits, meter->target->proc, target_via(meter->target));
    if (needs_pressure(meter->rules) && !pressure_read(&meter->pressure, &seen)) {
        pressure_close(&meter->pressure);
        (void)open_pressure(meter);
    }
    meter->looked_at = meter->read_at = now;
}

static void renew_limits(struct meter *meter, uint64_t now)
{
    if (now - meter->looked_at >= GROUPS_HOLD)
        renew_groups(meter, now);
    if (now - meter->read_at < LIMITS_HOLD)
        return;
    limits_renew(&meter->limits);
    meter->read_at = now;
}

fault_code meter_open(struct meter *meter, struct rules *rules, const struct target *target,
                      struct fault *fault)
{
    memset(meter, 0, sizeof *meter);
    meter->target = target;
    meter->rules = rules;
    meter->page = (uint64_t)sysconf(_SC_PAGESIZE);
    meter->pressure.fd = meter->limits.machine_fd = -1;
    for (size_t i = 0; i < RULES_MAX; i++)
        meter->alarms[i] = -1;
    meter->statm_fd = procfs_openf(target->proc, O_RDONLY, "%d/statm", (int)target_via(target));
    if (meter->statm_fd < 0)
        return fault_set(fault, FAULT_GONE, -meter->statm_fd, "open statm", "%d", (int)target->pid);
    int err = needs_pressure(rules) ? open_pressure(meter) : 0;
    if (err)
        return fault_set(fault, FAULT_UNSUPPORTED, -err, "open the pressure",
                         "this kernel does not measure pressure (no /proc/pressure/memory: "
                         "CONFIG_PSI, or psi=1 on its command line), which a rule needs");
    renew_groups(meter, clock_now());
    return FAULT_NONE;
}

void meter_close(struct meter *meter)
{
    for (size_t i = 0; i < RULES_MAX; i++)
        util_close(&meter->alarms[i]);
    util_close(&meter->statm_fd);
    pressure_close(&meter->pressure);
    limits_close(&meter->limits);
}

static bool read_rss(const struct meter *meter, uint64_t *rss)
{
    char text[128];
    ssize_t n = pread(meter->statm_fd, text, sizeof text, 0);
    uint64_t pages;

    if (n <= 0 || !limit_statm_parse(text, (size_t)n, &pages))
        return false;
    *rss = pages * meter->page;
    return pages > 0;
}

static void read_groups(struct meter *meter, struct measures *measures)
{
    const struct rules *rules = meter->rules;
    struct limit_use use;

    measures->limit = limits_smallest(&meter->limits);
    if (!rules_need(rules, METRIC_CGROUP))
        return;
    if (limits_use(&meter->limits, rules_exact_share(rules), &use)) {
        measures->used = use.used;
        measures->used_of = use.limit;
    }
    if (rules_need_own_use(rules))
        (void)limits_own_use(&meter->limits, &measures->own_used);
}

bool meter_read(struct meter *meter, struct measures *measures)
{
    memset(measures, 0, sizeof *measures);
    measures->now_ns = clock_now();
    measures->alarms = meter->raised;
    meter->raised = 0;
    if (!read_rss(meter, &measures->rss))
        return false;
    renew_limits(meter, measures->now_ns);
    read_groups(meter, measures);
    if (rules_need(meter->rules, METRIC_GROW))
        measures->age_ns = process_age_ns(&meter->target->stat);
    if (meter->pressure.fd >= 0)
        measures->has_pressure = pressure_read(&meter->pressure, &measures->stalled);
    return true;
}

/* A removed cgroup raises POLLERR for ever: its alarm is closed. */
static void take_alarms(struct meter *meter, const struct pollfd *polled)
{
    for (size_t i = 0; i < RULES_MAX; i++) {
        if (polled[i].revents & (POLLERR | POLLNVAL)) {
            util_close(&meter->alarms[i]);
            meter->rules->states[i].watched_by_kernel = false;
        } else if (polled[i].revents & POLLPRI) {
            meter->raised |= 1u << i;
        }
    }
}

enum meter_end meter_wait(struct meter *meter, uint64_t ns,
                          const volatile sig_atomic_t *interrupted)
{
    struct timespec timeout = {(time_t)(ns / SECOND_NS), (long)(ns % SECOND_NS)};
    struct pollfd polled[RULES_MAX + 1];
    sigset_t former;
    int count = 0;

    for (size_t i = 0; i < RULES_MAX; i++)
        polled[i] = (struct pollfd){meter->alarms[i], POLLPRI, 0};
    polled[RULES_MAX] = (struct pollfd){meter->target->pidfd, POLLIN, 0};
    interrupt_block(&former);
    if (!*interrupted)
        count = ppoll(polled, RULES_MAX + 1, &timeout, &former);
    sigprocmask(SIG_SETMASK, &former, NULL);
    if (*interrupted)
        return METER_INTERRUPTED;
    if (count > 0)
        take_alarms(meter, polled);
    return count > 0 && polled[RULES_MAX].revents ? METER_ENDED : METER_TIME;
}
