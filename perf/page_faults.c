#include "perf/page_faults.h"

struct page_fault_lack page_faults_lack(const struct page_faults *faults)
{
    (void)faults;
    return (struct page_fault_lack){.kernel = false};
}
