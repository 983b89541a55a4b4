/* NUMA placement by hwloc: see placement.h. */
#include "placement.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if ZC_HAVE_HWLOC
#include <hwloc.h>
#endif

struct zc_placement {
    int node;               /* -1: nothing is bound */
    char why[128];          /* how the rule got there */
#if ZC_HAVE_HWLOC
    hwloc_bitmap_t before;  /* CPUs of the creating thread; NULL: unknown */
#endif
};

#if ZC_HAVE_HWLOC

/* Loaded once: it takes tens of milliseconds. Read-only afterwards, so any thread may use it. */
static hwloc_topology_t topology;
static pthread_once_t topology_once = PTHREAD_ONCE_INIT;

static void topology_load(void)
{
    if (hwloc_topology_init(&topology) != 0)
        topology = NULL;
    else if (hwloc_topology_load(topology) != 0) {
        hwloc_topology_destroy(topology);
        topology = NULL;
    }
}

static hwloc_topology_t the_topology(void)
{
    pthread_once(&topology_once, topology_load);
    return topology;
}

static hwloc_obj_t find_node(int node)
{
    return the_topology() && node >= 0 ? hwloc_get_numanode_obj_by_os_index(topology, (unsigned)node) : NULL;
}

/* The number of the only node; -1 if there are several. */
static int only_node(void)
{
    if (!the_topology() || hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE) != 1)
        return -1;
    return (int)hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, 0)->os_index;
}

static bool node_exists(int node)
{
    return find_node(node) != NULL;
}

static const char *known_nodes(char *text, size_t size)
{
    snprintf(text, size, "none");
    if (the_topology())
        hwloc_bitmap_list_snprintf(text, size, hwloc_topology_get_topology_nodeset(topology));
    return text;
}

static void remember_cpus(struct zc_placement *placement)
{
    placement->before = the_topology() ? hwloc_bitmap_alloc() : NULL;
    if (placement->before && hwloc_get_cpubind(topology, placement->before, HWLOC_CPUBIND_THREAD) != 0) {
        hwloc_bitmap_free(placement->before);
        placement->before = NULL;
    }
}

static void restore_cpus(struct zc_placement *placement)
{
    if (placement->before) {
        hwloc_set_cpubind(topology, placement->before, HWLOC_CPUBIND_THREAD);
        hwloc_bitmap_free(placement->before);
    }
}

int zc_placement_apply(const struct zc_placement *placement)
{
    if (placement->node < 0)
        return 0;
    const hwloc_obj_t node = find_node(placement->node);
    if (!node || hwloc_bitmap_iszero(node->cpuset))     /* a node of memory alone */
        return -ENODEV;
    return hwloc_set_cpubind(topology, node->cpuset, HWLOC_CPUBIND_THREAD) == 0 ? 0 : errno ? -errno : -EIO;
}

bool zc_placement_bind_memory(void *address, size_t length_bytes, int numa_node)
{
    const hwloc_obj_t node = find_node(numa_node);
    return node && hwloc_set_area_membind(topology, address, length_bytes, node->nodeset, HWLOC_MEMBIND_BIND,
                                          HWLOC_MEMBIND_BYNODESET | HWLOC_MEMBIND_STRICT) == 0;
}

#else

static bool node_exists(int node) { (void)node; return false; }
static int only_node(void) { return -1; }
static const char *known_nodes(char *text, size_t size) { snprintf(text, size, "none, built without hwloc"); return text; }
static void remember_cpus(struct zc_placement *placement) { (void)placement; }
static void restore_cpus(struct zc_placement *placement) { (void)placement; }
int zc_placement_apply(const struct zc_placement *placement) { (void)placement; return 0; }

bool zc_placement_bind_memory(void *address, size_t length_bytes, int numa_node)
{
    (void)address, (void)length_bytes, (void)numa_node;
    return false;
}

#endif

static int place_on(struct zc_placement *placement, const char *numa, struct zc_error *err)
{
    const int node = atoi(numa);
    char known[64];
    if (!node_exists(node))
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, "numa", "numa: there is no NUMA node %d to bind to (nodes: %s)", node,
                            known_nodes(known, sizeof(known)));
    placement->node = node;
    snprintf(placement->why, sizeof(placement->why), "as asked");
    return 0;
}

static void place_near(struct zc_placement *placement, const struct zc_device_info *device)
{
    if (node_exists(device->numa_node)) {
        placement->node = device->numa_node;
        snprintf(placement->why, sizeof(placement->why), "where %s is", device->name);
    } else if (only_node() >= 0) {
        placement->node = only_node();
        snprintf(placement->why, sizeof(placement->why), "the only one");
    } else {
        snprintf(placement->why, sizeof(placement->why), ZC_HAVE_HWLOC ? "the node of %s is unknown" : "no hwloc to place near %s",
                 device->name);
    }
}

int zc_placement_create(const char *numa, const struct zc_device_info *device, struct zc_placement **placement,
                        struct zc_error *err)
{
    struct zc_placement *const made = calloc(1, sizeof(*made));
    int rc = 0;
    if (!made)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for the placement of a run");
    made->node = -1;
    if (strcmp(numa, "none") == 0)
        snprintf(made->why, sizeof(made->why), "as asked");
    else if (strcmp(numa, "auto") == 0)
        place_near(made, device);
    else
        rc = place_on(made, numa, err);
    if (rc < 0) {
        free(made);
        return rc;
    }
    remember_cpus(made);
    *placement = made;
    return 0;
}

void zc_placement_destroy(struct zc_placement *placement)
{
    if (!placement)
        return;
    restore_cpus(placement);
    free(placement);
}

int zc_placement_node(const struct zc_placement *placement)
{
    return placement->node;
}

const char *zc_placement_text(const struct zc_placement *placement, bool threads_bound, bool memory_bound, char *text, size_t size)
{
    if (placement->node < 0) {
        snprintf(text, size, "nothing bound: %s", placement->why);
        return text;
    }
    snprintf(text, size, "%s on NUMA node %d, %s%s", threads_bound && memory_bound ? "threads and memory"
             : threads_bound ? "threads" : memory_bound ? "memory" : "nothing", placement->node, placement->why,
             threads_bound && memory_bound ? "" : threads_bound ? "; binding memory is not permitted"
             : memory_bound ? "; binding threads is not permitted" : "; binding is not permitted");
    return text;
}
