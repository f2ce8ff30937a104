/* The verbs; one file each. Each returns an exit code. */
#pragma once

#include "cli/options.h"

int verb_on(const struct options *options, pid_t pid);
int verb_off(const struct options *options, pid_t pid);
int verb_dump(const struct options *options, pid_t pid);
int verb_record(const struct options *options, pid_t pid);
int verb_leak(const struct options *options, pid_t pid);
int verb_mallctl(const struct options *options, pid_t pid);
int verb_reset(const struct options *options, pid_t pid);
int verb_purge(const struct options *options, pid_t pid);
int verb_ps(const struct options *options, pid_t pid); /* pid: 0, it is about all */
int verb_status(const struct options *options, pid_t pid);
int verb_top(const struct options *options, pid_t pid);
int verb_stats(const struct options *options, pid_t pid);
int verb_watch(const struct options *options, pid_t pid);
/* Of a file: the pid is not used. */
int verb_report(const struct options *options, pid_t pid);
