/* Seccomp filters that the victim installs once it has warmed up. */
#pragma once

#include <stdbool.h>

/* "kill": executable memory kills; "errno": it is refused. In both, unknown numbers kill. */
bool filter_install(const char *kind);
