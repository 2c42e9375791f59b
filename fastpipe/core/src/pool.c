/* pool.c: threads that share a list of jobs. A job takes hundreds of microseconds, so that a lock around "which one is
 * next" costs nothing that can be measured. */
#if !defined(_WIN32)
#define _POSIX_C_SOURCE 200809L
#endif
#include <stdlib.h>

#include "files.h"
#include "threads.h"

#define MOST_THREADS 1024

typedef struct worker {
    fpc_pool *pool;
    fpc_context *context;
    fpc_thread thread; /* not of the first one, which is the caller of fpc_pool_run */
} worker;

/* What is done with each of a list: jobs are run, files and arrays read. */
typedef struct task {
    void (*one)(const struct task *task, fpc_context *context, size_t index);
    fpc_job *jobs;
    fpc_files *files;
    fpc_file *list;
    fpc_array *arrays;
    size_t count;
} task;

struct fpc_pool {
    int threads;
    fpc_lock lock;
    fpc_condition work, done;
    /* under the lock: */
    task task;
    size_t next;
    int running;    /* threads that have jobs of the list in hand, or may still take one */
    uint64_t lists; /* how many lists there have been: a thread takes part in each once */
    bool ending, in_use;
    worker workers[]; /* `threads` of them */
};

/* What the list has, one after the other, until nothing is left. The lock is held before and after, but not while one
 * runs. */
static void take_jobs(fpc_pool *pool, fpc_context *context) {
    while (pool->next < pool->task.count) {
        const task now = pool->task;
        const size_t index = pool->next++;
        fpc_lock_leave(&pool->lock);
        now.one(&now, context, index);
        fpc_lock_take(&pool->lock);
    }
}

static fpc_thread_result FPC_THREAD_CALL thread_body(void *argument) {
    const worker *self = argument;
    fpc_pool *pool = self->pool;
    uint64_t seen = 0;
    fpc_lock_take(&pool->lock);
    while (!pool->ending) {
        if (seen == pool->lists) {
            fpc_condition_wait(&pool->work, &pool->lock);
            continue;
        }
        seen = pool->lists;
        pool->running++;
        take_jobs(pool, self->context);
        if (--pool->running == 0) fpc_condition_wake_one(&pool->done);
    }
    fpc_lock_leave(&pool->lock);
    return 0;
}

/* Ends the first `started` threads but the caller's, and frees everything. */
static void end_pool(fpc_pool *pool, int started) {
    fpc_lock_take(&pool->lock);
    pool->ending = true;
    fpc_condition_wake_all(&pool->work);
    fpc_lock_leave(&pool->lock);
    for (int i = 1; i < started; i++) fpc_thread_join(pool->workers[i].thread);
    for (int i = 0; i < pool->threads; i++) fpc_context_free(pool->workers[i].context);
    fpc_condition_end(&pool->done);
    fpc_condition_end(&pool->work);
    fpc_lock_end(&pool->lock);
    free(pool);
}

fpc_pool *fpc_pool_new(int threads, int isa) {
    if (threads < 1 || threads > MOST_THREADS) return NULL;
    fpc_pool *pool = calloc(1, sizeof *pool + (size_t)threads * sizeof *pool->workers);
    if (!pool) return NULL;
    pool->threads = threads;
    if (!fpc_lock_init(&pool->lock)) {
        free(pool);
        return NULL;
    }
    if (!fpc_condition_init(&pool->work)) {
        fpc_lock_end(&pool->lock);
        free(pool);
        return NULL;
    }
    if (!fpc_condition_init(&pool->done)) {
        fpc_condition_end(&pool->work);
        fpc_lock_end(&pool->lock);
        free(pool);
        return NULL;
    }
    bool made = true;
    for (int i = 0; i < threads && made; i++) {
        pool->workers[i].pool = pool;
        pool->workers[i].context = fpc_context_new(isa);
        made = pool->workers[i].context != NULL;
    }
    int started = 1;
    while (made && started < threads) {
        worker *next = &pool->workers[started];
        made = fpc_thread_start(&next->thread, thread_body, next);
        if (made) started++;
    }
    if (made) return pool;
    end_pool(pool, started);
    return NULL;
}

static void run_task(fpc_pool *pool, const task *list) {
    if (list->count == 0) return;
    fpc_lock_take(&pool->lock);
    pool->task = *list;
    pool->next = 0;
    pool->in_use = true;
    pool->lists++;
    if (list->count > 1) fpc_condition_wake_all(&pool->work);
    take_jobs(pool, pool->workers[0].context);
    /* A thread that wakes later finds nothing left to take. */
    while (pool->running > 0) fpc_condition_wait(&pool->done, &pool->lock);
    pool->task.count = pool->next = 0;
    pool->in_use = false;
    fpc_lock_leave(&pool->lock);
}

static void run_one(const task *task, fpc_context *context, size_t index) { fpc_run(context, &task->jobs[index]); }

void fpc_pool_run(fpc_pool *pool, fpc_job *jobs, size_t count) {
    if (!pool || !jobs) return;
    const task list = {run_one, jobs, NULL, NULL, NULL, count};
    run_task(pool, &list);
}

static void read_one(const task *task, fpc_context *context, size_t index) {
    (void)context;
    fpc_files_read_one(task->files, &task->list[index]);
}

void fpc_pool_read(fpc_pool *pool, fpc_files *files, fpc_file *list, size_t count) {
    if (!pool || !files || !list) return;
    fpc_files_clear(files);
    const task all = {read_one, NULL, files, list, NULL, count};
    run_task(pool, &all);
}

static void read_one_array(const task *task, fpc_context *context, size_t index) {
    fpc_read_array(context, &task->arrays[index]);
}

void fpc_pool_arrays(fpc_pool *pool, fpc_array *list, size_t count) {
    if (!pool || !list) return;
    const task all = {read_one_array, NULL, NULL, NULL, list, count};
    run_task(pool, &all);
}

void fpc_pool_free(fpc_pool *pool) {
    if (pool) end_pool(pool, pool->threads);
}

void fpc_pool_forget(fpc_pool *pool) {
    if (!pool) return;
    /* Another thread may have been within a job when the process forked: its memory may be in any state, and stays. */
    if (pool->in_use) return;
    for (int i = 0; i < pool->threads; i++) fpc_context_free(pool->workers[i].context);
    free(pool);
}
