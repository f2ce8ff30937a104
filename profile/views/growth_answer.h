/* The growth of a process in one sentence. */
#pragma once

#include "profile/views/growth.h"

enum growth_verdict {
    GROWTH_NONE,    /* no stack has grown by more than the sampling may have caused */
    GROWTH_STOPPED, /* one has, but grows no longer */
    GROWTH_ONE_OF,  /* one of several grows; which of them is open */
    GROWTH_GOES_ON, /* one has, and still grows */
};

struct growth_answer {
    enum growth_verdict verdict;
    const struct growth_row *row; /* with the most growth of that verdict; NULL: none */
    size_t more;                  /* further rows of that verdict */
    double unseen;                /* bytes: a stack may have grown by less without being seen */
};

/* Chooses the answer from rows that growth_make has made of the samples. */
void growth_answer_choose(struct growth_answer *answer, const struct growth *growth,
                          const struct samples *samples);
/*
 * Writes it as text, truncated to size - 1 bytes. Names are those of the target:
 * they may contain any bytes. Returns out.
 */
const char *growth_answer_text(const struct growth_answer *answer, const struct growth *growth,
                               const struct samples *samples, const struct display *display,
                               char *out, size_t size);
/*
 * Returns a few words on what the growth of a comparison rests on; NULL: it needs none. For
 * programs: growth_evidence_name.
 */
const char *growth_evidence_text(const struct samples *samples);
const char *growth_evidence_name(enum trend_evidence evidence);
