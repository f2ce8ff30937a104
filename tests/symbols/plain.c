/* C: names without a mangling, a function of cold code, a chain of inlined calls, a tail call. */
#include <stdio.h>
#include <stdlib.h>

static inline __attribute__((always_inline)) long innermost(long n)
{
    return n * 3 + labs(n - 7);
}

static inline __attribute__((always_inline)) long middle(long n)
{
    long sum = 0;

    for (long i = 0; i < n; i++)
        sum += innermost(i) ^ innermost(sum);
    return sum;
}

static __attribute__((noinline, cold)) void complain(long n)
{
    fprintf(stderr, "too large: %ld\n", n);
    abort();
}

static __attribute__((noinline)) long outermost(long n)
{
    if (n > 1000000)
        complain(n);
    return middle(n) + middle(n + 1);
}

long plain_entry(long n)
{
    return outermost(n) + innermost(n);
}
