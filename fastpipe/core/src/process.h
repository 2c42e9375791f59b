/* process.h: tells a child of fork from its parent. */
#ifndef FPC_PROCESS_H
#define FPC_PROCESS_H

#if defined(_WIN32)

static inline long fpc_process(void) { return 0; }

#else

#include <unistd.h>

/* The number of this process; a child of fork has another. */
static inline long fpc_process(void) { return (long)getpid(); }

#endif
#endif
