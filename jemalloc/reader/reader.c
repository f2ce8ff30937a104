#include "jemalloc/reader/reader.h"
#include "jemalloc/faults.h"

#include <string.h>

fault_code reader_open(struct reader *reader, const struct reader_source *source,
                       struct fault *fault)
{
    memset(reader, 0, sizeof *reader);
    reader->source = *source;
    return fault_set(fault, FAULT_UNREADABLE, 0, "read the profile", "not yet");
}

fault_code reader_read(struct reader *reader, struct sink *sink, struct reading *reading,
                       struct fault *fault)
{
    (void)reader;
    (void)sink;
    memset(reading, 0, sizeof *reading);
    return fault_set(fault, FAULT_UNREADABLE, 0, "read the profile", "not yet");
}

void reader_close(struct reader *reader)
{
    memset(reader, 0, sizeof *reader);
}
