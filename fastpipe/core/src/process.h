/* process.h: tells a child of fork from its parent. */
#ifndef FPC_PROCESS_H
#define FPC_PROCESS_H

#if defined(_WIN32)

static inline long fpc_process(void) { return 0; }

#else

#include <unistd.h>

/* A number that is another one in a child of fork. */
static inline long fpc_process(void) { return (long)getpid(); }

#endif
#endif
