/* threads.h: threads, locks and conditions, by POSIX or Windows. */
#ifndef FPC_THREADS_H
#define FPC_THREADS_H

#include <stdbool.h>

#if defined(_WIN32)

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <process.h>

typedef SRWLOCK fpc_lock;
typedef CONDITION_VARIABLE fpc_condition;
typedef HANDLE fpc_thread;
typedef unsigned fpc_thread_result;
#define FPC_THREAD_CALL __stdcall

static inline bool fpc_lock_init(fpc_lock *lock) {
    InitializeSRWLock(lock);
    return true;
}
static inline void fpc_lock_end(fpc_lock *lock) { (void)lock; }
static inline void fpc_lock_take(fpc_lock *lock) { AcquireSRWLockExclusive(lock); }
static inline void fpc_lock_leave(fpc_lock *lock) { ReleaseSRWLockExclusive(lock); }

static inline bool fpc_condition_init(fpc_condition *condition) {
    InitializeConditionVariable(condition);
    return true;
}
static inline void fpc_condition_end(fpc_condition *condition) { (void)condition; }
static inline void fpc_condition_wait(fpc_condition *condition, fpc_lock *lock) {
    SleepConditionVariableSRW(condition, lock, INFINITE, 0);
}
static inline void fpc_condition_wake_one(fpc_condition *condition) { WakeConditionVariable(condition); }
static inline void fpc_condition_wake_all(fpc_condition *condition) { WakeAllConditionVariable(condition); }

static inline bool fpc_thread_start(fpc_thread *thread, fpc_thread_result(FPC_THREAD_CALL *body)(void *),
                                    void *argument) {
    *thread = (HANDLE)_beginthreadex(NULL, 0, body, argument, 0, NULL);
    return *thread != NULL;
}
static inline void fpc_thread_join(fpc_thread thread) {
    WaitForSingleObject(thread, INFINITE);
    CloseHandle(thread);
}

#else

#include <pthread.h>
#include <signal.h>

typedef pthread_mutex_t fpc_lock;
typedef pthread_cond_t fpc_condition;
typedef pthread_t fpc_thread;
typedef void *fpc_thread_result;
#define FPC_THREAD_CALL

static inline bool fpc_lock_init(fpc_lock *lock) { return pthread_mutex_init(lock, NULL) == 0; }
static inline void fpc_lock_end(fpc_lock *lock) { pthread_mutex_destroy(lock); }
static inline void fpc_lock_take(fpc_lock *lock) { pthread_mutex_lock(lock); }
static inline void fpc_lock_leave(fpc_lock *lock) { pthread_mutex_unlock(lock); }

static inline bool fpc_condition_init(fpc_condition *condition) { return pthread_cond_init(condition, NULL) == 0; }
static inline void fpc_condition_end(fpc_condition *condition) { pthread_cond_destroy(condition); }
static inline void fpc_condition_wait(fpc_condition *condition, fpc_lock *lock) { pthread_cond_wait(condition, lock); }
static inline void fpc_condition_wake_one(fpc_condition *condition) { pthread_cond_signal(condition); }
static inline void fpc_condition_wake_all(fpc_condition *condition) { pthread_cond_broadcast(condition); }

/* Starts a thread that takes no signals; the program's own threads take them. Exceptions are the signals for the
 * thread's own errors: if they were blocked, they would end the process before Python's faulthandler can say where it
 * failed. */
static inline bool fpc_thread_start(fpc_thread *thread, fpc_thread_result (*body)(void *), void *argument) {
    sigset_t all, before;
    sigfillset(&all);
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&all, own[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(thread, NULL, body, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}
static inline void fpc_thread_join(fpc_thread thread) { pthread_join(thread, NULL); }

#endif
#endif
