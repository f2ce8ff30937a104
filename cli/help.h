/* jeattach --help, jeattach VERB --help */
#pragma once

/* The help of one verb, or of the whole (NULL). Returns an exit code. */
int help_print(const char *verb);
/* The short usage on stderr. Returns EXIT_USAGE. */
int help_usage(void);
/* The version on stdout. */
int help_version(void);
