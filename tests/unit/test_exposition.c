/* Several Prometheus expositions as one. */
#include "check.h"
#include "cli/output/exposition.h"

#include <stdio.h>
#include <string.h>

static const char first[] = "# HELP a_bytes An a.\n# TYPE a_bytes gauge\na_bytes{pid=\"1\"} 10\n"
                            "# HELP b_bytes A b.\n# TYPE b_bytes gauge\nb_bytes{pid=\"1\"} 20\n";
/* It has a metric more, between the others, and one whose name begins like another. */
static const char second[] = "# HELP a_bytes An a.\n# TYPE a_bytes gauge\na_bytes{pid=\"2\"} 11\n"
                             "# HELP a_b A c.\n# TYPE a_b gauge\na_b{pid=\"2\"} 31\n"
                             "# HELP b_bytes A b.\n# TYPE b_bytes gauge\nb_bytes{pid=\"2\"} 21\n";

static const char *joined(struct exposition *exposition)
{
    static char text[2048];

    text[0] = '\0';
    for (size_t i = 0; i < exposition->count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%.*s",
                 (int)exposition->list[i].len, exposition->list[i].text);
    return text;
}

static void test_two(void)
{
    struct exposition exposition = {0};

    CHECK(exposition_add(&exposition, first, strlen(first)));
    CHECK(strcmp(joined(&exposition), first) == 0);
    CHECK(exposition_add(&exposition, second, strlen(second)));
    CHECK(strcmp(joined(&exposition),
                 "# HELP a_bytes An a.\n# TYPE a_bytes gauge\n"
                 "a_bytes{pid=\"1\"} 10\na_bytes{pid=\"2\"} 11\n"
                 "# HELP b_bytes A b.\n# TYPE b_bytes gauge\n"
                 "b_bytes{pid=\"1\"} 20\nb_bytes{pid=\"2\"} 21\n"
                 "# HELP a_b A c.\n# TYPE a_b gauge\na_b{pid=\"2\"} 31\n") == 0);
    exposition_free(&exposition);
}

/* Nothing, and a line that was cut. */
static void test_nothing(void)
{
    struct exposition exposition = {0};

    CHECK(exposition_add(&exposition, "", 0) && exposition.count == 0);
    CHECK(exposition_add(&exposition, "# H", 3) && exposition.count == 0);
    CHECK(exposition_add(&exposition, "a 1\nb", 5) && strcmp(joined(&exposition), "a 1\n") == 0);
    CHECK(exposition_add(&exposition, "\n", 1));
    exposition_free(&exposition);
}

int main(void)
{
    test_two();
    test_nothing();
    return check_result();
}
