/* pool.c: threads that share lists of jobs. A job takes hundreds of microseconds, so a lock around taking the next one
 * has no measurable cost. */
#if !defined(_WIN32)
#define _POSIX_C_SOURCE 200809L
#endif
#include <stdlib.h>

#include "context.h"
#include "files.h"
#include "process.h"
#include "threads.h"

#define MOST_THREADS 1024

/* A list of jobs to run, or of files or arrays to read. The lock protects the fields after the first six. */
struct fpc_task {
    void (*one)(const fpc_task *list, fpc_context *context, size_t index);
    fpc_job *jobs;
    fpc_files *files;
    fpc_file *read;
    fpc_array *arrays;
    size_t count;
    size_t next;       /* the first entry that no thread has taken */
    size_t unfinished; /* entries that aren't done */
    int waiters;       /* callers of fpc_pool_wait; the last one frees the task */
    fpc_task *behind;  /* the next list in the queue */
};

struct fpc_pool {
    long process; /* number of the process that has its threads */
    int threads;  /* how many threads work at once, each with one of the `threads` contexts */
    fpc_lock lock;
    fpc_condition work, done;
    /* protected by the lock: */
    fpc_task *first; /* the queue: lists that have jobs nobody has taken */
    int started;     /* threads that the pool has started */
    int free;        /* unused contexts: the first `free` of `contexts` */
    int lists;       /* lists that are being waited for, or will be */
    bool ending;
    fpc_thread *own; /* room for `threads` of them */
    fpc_context *contexts[];
};

/* Runs the jobs of the queue in order until none is left; if `own` isn't NULL, only until its jobs are taken. Needs a
 * free context. The caller holds the lock, which is released while a job runs. */
static void take_jobs(fpc_pool *pool, const fpc_task *own) {
    fpc_context *context = pool->contexts[--pool->free];
    while (pool->first && (!own || own->next < own->count)) {
        fpc_task *list = pool->first;
        const size_t index = list->next++;
        if (list->next == list->count) pool->first = list->behind;
        fpc_lock_leave(&pool->lock);
        list->one(list, context, index);
        fpc_lock_take(&pool->lock);
        if (--list->unfinished == 0) fpc_condition_wake_all(&pool->done);
    }
    pool->contexts[pool->free++] = context;
}

static fpc_thread_result FPC_THREAD_CALL thread_body(void *argument) {
    fpc_pool *pool = argument;
    fpc_lock_take(&pool->lock);
    for (;;) {
        if (pool->first && pool->free > 0) {
            take_jobs(pool, NULL);
        } else if (pool->ending && !pool->first) {
            break;
        } else {
            fpc_condition_wait(&pool->work, &pool->lock);
        }
    }
    fpc_lock_leave(&pool->lock);
    return 0;
}

static void free_memory(fpc_pool *pool) {
    for (int i = 0; i < pool->threads; i++) fpc_context_destroy(pool->contexts[i]);
    free(pool->own);
    free(pool);
}

void fpc_pool_free(fpc_pool *pool) {
    if (!pool) return;
    if (pool->process != fpc_process()) {
        /* If a thread was in a job during the fork, the state of its memory is unknown, and it isn't freed. */
        if (pool->lists == 0) free_memory(pool);
        return;
    }
    fpc_lock_take(&pool->lock);
    pool->ending = true;
    fpc_condition_wake_all(&pool->work);
    fpc_lock_leave(&pool->lock);
    for (int i = 0; i < pool->started; i++) fpc_thread_join(pool->own[i]);
    fpc_condition_end(&pool->done);
    fpc_condition_end(&pool->work);
    fpc_lock_end(&pool->lock);
    free_memory(pool);
}

/* Starts threads until the pool has `wanted`; returns false on failure. The caller holds the lock, or the pool isn't
 * shared yet. */
static bool start_threads(fpc_pool *pool, int wanted) {
    while (pool->started < wanted) {
        if (!fpc_thread_start(&pool->own[pool->started], thread_body, pool)) return false;
        pool->started++;
    }
    return true;
}

static bool init_locks(fpc_pool *pool) {
    if (!fpc_lock_init(&pool->lock)) return false;
    if (fpc_condition_init(&pool->work)) {
        if (fpc_condition_init(&pool->done)) return true;
        fpc_condition_end(&pool->work);
    }
    fpc_lock_end(&pool->lock);
    return false;
}

fpc_pool *fpc_pool_new(int threads, int isa) {
    if (threads < 1 || threads > MOST_THREADS) return NULL;
    fpc_pool *pool = calloc(1, sizeof *pool + (size_t)threads * sizeof *pool->contexts);
    if (!pool) return NULL;
    pool->process = fpc_process();
    pool->threads = threads;
    pool->own = calloc((size_t)threads, sizeof *pool->own);
    bool made = pool->own != NULL;
    for (int i = 0; i < threads && made; i++) {
        pool->contexts[i] = fpc_context_new(isa);
        made = pool->contexts[i] != NULL;
    }
    if (!made || !init_locks(pool)) {
        free_memory(pool);
        return NULL;
    }
    pool->free = threads;
    if (start_threads(pool, threads - 1)) return pool;
    fpc_pool_free(pool);
    return NULL;
}

/* Puts lists of files first: jobs can only be made when their files have been read. */
static void put(fpc_pool *pool, fpc_task *list) {
    list->unfinished = list->count;
    pool->lists++;
    fpc_task **place = &pool->first;
    while (*place && !list->files) place = &(*place)->behind;
    list->behind = *place;
    *place = list;
}

/* Waits until the list is done; the caller works, too, while there is a context for it. The caller holds the lock. */
static void finish(fpc_pool *pool, const fpc_task *list) {
    while (list->unfinished > 0) {
        if (list->next == list->count || pool->free == 0) {
            fpc_condition_wait(&pool->done, &pool->lock);
            continue;
        }
        take_jobs(pool, list);
        if (pool->first) { /* jobs of other callers, who may have waited for the context */
            fpc_condition_wake_all(&pool->work);
            fpc_condition_wake_all(&pool->done);
        }
    }
}

static void run_list(fpc_pool *pool, fpc_task *list) {
    if (list->count == 0) return;
    fpc_lock_take(&pool->lock);
    put(pool, list);
    if (list->count > 1) fpc_condition_wake_all(&pool->work);
    finish(pool, list);
    pool->lists--;
    fpc_lock_leave(&pool->lock);
}

static void run_one(const fpc_task *list, fpc_context *context, size_t index) { fpc_run(context, &list->jobs[index]); }

void fpc_pool_run(fpc_pool *pool, fpc_job *jobs, size_t count) {
    if (!pool || !jobs) return;
    fpc_task list = {.one = run_one, .jobs = jobs, .count = count};
    run_list(pool, &list);
}

void fpc_pool_start(fpc_pool *pool, fpc_job *jobs, size_t count, fpc_task **cell) {
    *cell = NULL;
    if (!pool || !jobs || count == 0) return;
    fpc_task *list = calloc(1, sizeof *list);
    if (!list) return;
    list->one = run_one;
    list->jobs = jobs;
    list->count = count;
    fpc_lock_take(&pool->lock);
    start_threads(pool, pool->threads); /* if that fails, whoever waits does the work */
    *cell = list; /* before a job can begin, so that the cell's owner can always wait for the jobs */
    put(pool, list);
    fpc_condition_wake_all(&pool->work);
    fpc_lock_leave(&pool->lock);
}

void fpc_pool_wait(fpc_pool *pool, fpc_task **cell) {
    if (!pool || pool->process != fpc_process()) return;
    fpc_lock_take(&pool->lock);
    fpc_task *list = *cell;
    if (list) {
        list->waiters++;
        finish(pool, list);
        if (*cell) pool->lists--; /* the first waiter to return counts for all */
        *cell = NULL;
        if (--list->waiters == 0) free(list);
    }
    fpc_lock_leave(&pool->lock);
}

static void read_one(const fpc_task *list, fpc_context *context, size_t index) {
    (void)context;
    fpc_files_read_one(list->files, &list->read[index]);
}

void fpc_pool_read(fpc_pool *pool, fpc_files *files, fpc_file *list, size_t count) {
    if (!pool || !files || !list) return;
    fpc_files_clear(files);
    fpc_task all = {.one = read_one, .files = files, .read = list, .count = count};
    run_list(pool, &all);
}

static void read_one_array(const fpc_task *list, fpc_context *context, size_t index) {
    fpc_read_array(context, &list->arrays[index]);
}

void fpc_pool_arrays(fpc_pool *pool, fpc_array *list, size_t count) {
    if (!pool || !list) return;
    fpc_task all = {.one = read_one_array, .arrays = list, .count = count};
    run_list(pool, &all);
}
