/* The names of faults in JSON: part of the interface, never changed. */
#pragma once

#include "base/fault.h"

/* "denied_uid"; "failed" for one that has no name of its own. */
const char *fault_name(fault_code code);
