/* What a sweep advises, in plain sentences with the figures they rest on. Plain C; any thread. */
#ifndef ZC_RECOMMEND_H
#define ZC_RECOMMEND_H

#include <stddef.h>

#include "sweep.h"

enum zc_goal { ZC_GOAL_THROUGHPUT, ZC_GOAL_LATENCY, ZC_GOAL_CPU, ZC_GOAL_COUNT };
extern const char *const zc_goal_names[];       /* "throughput", "latency", "cpu", NULL */

enum { ZC_SENTENCES_MAX = 6, ZC_SENTENCE_MAX = 320, ZC_COMMAND_MAX = 640 };

struct zc_recommendation {
    enum zc_goal goal;
    enum zc_metric metric;          /* that it goes by: p99 latency where it was measured, else the median */
    size_t count;
    char sentences[ZC_SENTENCES_MAX][ZC_SENTENCE_MAX];
    char command[ZC_COMMAND_MAX];   /* the run of the best choice at the size in question; "": nothing was measured */
};

/* Both as a user types them; NULL: not given. -EINVAL, and nothing is written. */
int zc_question_parse(const char *goal_text, const char *size_text, enum zc_goal *goal, uint64_t *size_bytes, struct zc_error *err);

/* `size_bytes`: the size in question, of which the nearest measured one is taken; 0: the one at which the goal is reached best - for
 * latency, which grows with the size, the middle one. */
void zc_recommend(const struct zc_sweep *sweep, enum zc_goal goal, uint64_t size_bytes, struct zc_recommendation *recommendation);

#endif
