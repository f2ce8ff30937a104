/*
 * Whom the kernel kills at a memory limit that the tool and its target share, such as that
 * of a pod: it chooses by size, which would be the target.
 */
#pragma once

/*
 * Makes the tool the first choice (proc(5), oom_score_adj 1000), which needs no rights; what
 * it starts inherits that. A target goes on when the tool dies. Cannot fail: without a
 * writable /proc nothing changes.
 */
void oom_score_volunteer(void);
