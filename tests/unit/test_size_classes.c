/* The small size classes of jemalloc. */
#include "check.h"
#include "jemalloc/size_classes.h"

/* As printed by `stats_print` of 5.3.0. */
static void test_sizes(void)
{
    static const uint64_t sizes[SIZE_CLASSES] = {
        8,    16,   32,   48,   64,   80,   96,   112,  128,  160,   192,   224,
        256,  320,  384,  448,  512,  640,  768,  896,  1024, 1280,  1536,  1792,
        2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336};

    for (size_t i = 0; i < SIZE_CLASSES; i++)
        CHECK(size_class_bytes(i) == sizes[i]);
}

int main(void)
{
    test_sizes();
    return check_result();
}
