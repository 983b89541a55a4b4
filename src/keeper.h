/* Says ALIVE while the thread that owns a connection is busy for long with something else: with touching and registering large buffers
 * before the first READ, with one request of a great many bytes later. Private to src/; used by measure.c. */
#ifndef ZC_KEEPER_H
#define ZC_KEEPER_H

#include "connection.h"
#include "error.h"

struct zc_keeper;

/* A thread beside the owner's, which posts to and polls the connection alone until zc_keeper_share(); the owner does neither meanwhile.
 * *keeper is NULL if the peer wants no ALIVE. The connection is borrowed. ZC_ERR_RESOURCE. */
int zc_keeper_create(struct zc_connection *connection, struct zc_keeper **keeper, struct zc_error *err);
/* From here on the owner posts and polls, and calls zc_connection_keep(); the keeper does not poll any more, and only speaks when the
 * owner has not for too long. A completion with ZC_CONTROL_WR_ID may still come. NULL is allowed. */
void zc_keeper_share(struct zc_keeper *keeper);
void zc_keeper_destroy(struct zc_keeper *keeper);   /* before the connection is closed or handed on; NULL is allowed */

#endif
