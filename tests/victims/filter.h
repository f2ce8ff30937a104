/* Seccomp filters that the victim installs once it has warmed up. */
#pragma once

#include <stdbool.h>

/* "kill": executable memory kills; "errno": it is refused. Unknown system calls kill in both. */
bool filter_install(const char *kind);
