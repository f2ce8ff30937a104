#include "jemalloc/reader/layout.h"
#include "base/util.h"

#define V VERSION_NUMBER

/* gctx and tctx since 5.2.1-508, where each count has its unbiased form. */
#define STACKS_UNBIASED                                                                            \
    .has_unbiased = true, .gctx_tctxs = 16, .gctx_bt = 104, .gctx_vec = 120,                       \
    .tctx_thr_discrim = 16, .tctx_cnts = 32, .tctx_gctx = 96, .tctx_uid = 104, .tctx_link = 112,   \
    .tctx_state = 132, .tctx_size = 136

/* tdata up to 5.3.0-56. */
#define THREADS_NAMED_BY_POINTER                                                                   \
    .tdata_name = 24, .tdata_expired = 33, .tdata_link = 40, .tdata_table = 64, .tdata_size = 112

const struct reader_layout reader_layouts[] = {
    {
        .first = V(5, 3, 0),
        .commits = 58,
        .has_discrim = true,
        .has_inline_name = true,
        STACKS_UNBIASED,
        .tdata_name = 96,
        .tdata_expired = 118,
        .tdata_link = 24,
        .tdata_table = 48,
        .tdata_size = 120,
    },
    {
        .first = V(5, 3, 0),
        .commits = 57,
        .has_discrim = true,
        .has_inline_name = true,
        STACKS_UNBIASED,
        .tdata_name = 104,
        .tdata_expired = 25,
        .tdata_link = 32,
        .tdata_table = 56,
        .tdata_size = 120,
    },
    {
        .first = V(5, 2, 1),
        .commits = 508,
        .has_discrim = true,
        STACKS_UNBIASED,
        THREADS_NAMED_BY_POINTER,
    },
    {
        .first = V(5, 2, 1),
        .commits = 160,
        .has_discrim = true,
        .gctx_tctxs = 16,
        .gctx_bt = 72,
        .gctx_vec = 88,
        .tctx_thr_discrim = 16,
        .tctx_cnts = 32,
        .tctx_gctx = 64,
        .tctx_uid = 72,
        .tctx_link = 80,
        .tctx_state = 100,
        .tctx_size = 104,
        THREADS_NAMED_BY_POINTER,
    },
    {
        .first = V(4, 0, 4),
        .commits = 54,
        .has_discrim = true,
        .gctx_tctxs = 16,
        .gctx_bt = 72,
        .gctx_vec = 88,
        .tctx_thr_discrim = 16,
        .tctx_cnts = 24,
        .tctx_gctx = 56,
        .tctx_uid = 64,
        .tctx_link = 72,
        .tctx_state = 92,
        .tctx_size = 96,
        THREADS_NAMED_BY_POINTER,
    },
    {
        .first = V(4, 0, 0),
        .commits = 14,
        .has_nil = true,
        .has_discrim = true,
        .gctx_tctxs = 16,
        .gctx_bt = 200,
        .gctx_vec = 216,
        .tctx_thr_discrim = 16,
        .tctx_cnts = 24,
        .tctx_gctx = 56,
        .tctx_uid = 64,
        .tctx_link = 72,
        .tctx_state = 92,
        .tctx_size = 96,
        THREADS_NAMED_BY_POINTER,
    },
    {
        .first = V(4, 0, 0),
        .commits = 0,
        .has_nil = true,
        .gctx_tctxs = 16,
        .gctx_bt = 192,
        .gctx_vec = 208,
        .tctx_cnts = 16,
        .tctx_gctx = 48,
        .tctx_uid = 56,
        .tctx_link = 64,
        .tctx_state = 84,
        .tctx_size = 88,
        THREADS_NAMED_BY_POINTER,
    },
};
const size_t reader_layout_count = ARRAY_LEN(reader_layouts);

const struct reader_layout *reader_layout_of(struct version version)
{
    for (size_t i = 0; i < reader_layout_count && version.number; i++) {
        const struct reader_layout *layout = &reader_layouts[i];
        if (version_since(version, layout->first, layout->commits))
            return layout;
    }
    return NULL;
}
