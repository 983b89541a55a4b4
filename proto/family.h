/* Which family of verbs posts and polls. What a run asks for (options.h), what a QP or a CQ is used with (post.h, poller.h). */
#ifndef ZC_FAMILY_H
#define ZC_FAMILY_H

enum zc_family {
    ZC_FAMILY_AUTO,         /* extended where the device offers it for what is needed, else basic */
    ZC_FAMILY_BASIC,        /* ibv_post_send(3), ibv_poll_cq(3) */
    ZC_FAMILY_EXTENDED,     /* ibv_wr_post(3), ibv_create_cq_ex(3) */
};

#endif
