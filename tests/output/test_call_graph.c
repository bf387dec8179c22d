/* SPDX-License-Identifier: MIT */
/* The graph of one function's calls counts what was folded in them, and no other calls. */
#include "../session/kernel_recording.h"

#include "output/call_graph.h"

/* Functions that are called once by ENTRY and twice by WORK: more paths than the tree may have. */
#define CALLEES 100
#define PATHS	64

static void put(struct ptah_call_tree *tree, bool end, uint64_t function, uint64_t instructions)
{
	const struct ptah_call_mark mark = {
	    .end = end, .function = function, .thread.instructions = instructions};

	assert_int_equal(ptah_call_tree_add(tree, &mark, 1), 0);
}

/* Each call takes an instruction, each return another one. */
static void call_all(struct ptah_call_tree *tree, uint64_t function, unsigned times, uint64_t *now)
{
	put(tree, false, function, ++*now);
	for (uint64_t i = 0; i < CALLEES * times; i++) {
		put(tree, false, 0x1000 + 16 * (i / times), ++*now);
		put(tree, true, 0, ++*now);
	}
	put(tree, true, 0, ++*now);
}

static struct ptah_session *open_kernel(void)
{
	const struct ptah_session_config config = {.vmlinux = "vmlinux"};
	struct perfdata_build_id id;
	struct recorded r;

	assert_int_equal(perfdata_build_id_read("vmlinux", &id), 0);
	begin_recording(&r, "k.data");
	put_kernel(&r, &id);
	visit(&r, 200);
	end_recording(&r);
	return open_with("k.data", config);
}

TEST(folded_calls_of_one_function)
{
	const struct ptah_call_tree_config small = {.size = sizeof(small), .max_paths = PATHS};
	const struct ptah_call_thread thread = {.pid = 7, .tid = 7, .space = 7};
	struct call_graph_config config = {.sort = GRAPH_FUNCTION, .function = "entry"};
	struct ptah_session *session = open_kernel();
	struct ptah_call_totals all;
	struct ptah_call_tree *tree;
	struct call_graph *graph;
	uint64_t now = 0, shown = 0;

	assert_int_equal(ptah_call_tree_new(&small, &tree), 0);
	call_all(tree, ENTRY, 1, &now);
	call_all(tree, WORK, 2, &now);
	assert_int_equal(ptah_call_tree_totals(tree, &all), 0);
	assert_int_equal(all.calls, 2 + 3 * CALLEES);
	assert_int_equal(names_new(session, NULL, &config.names), 0);
	assert_int_equal(call_graph_new(&config, &graph), 0);
	assert_int_equal(call_graph_add(graph, &thread, tree), 0);
	for (uint32_t i = 1; i < graph->node_count; i++)
		if (!graph->keys[graph->nodes[i].key].special)
			shown += graph->nodes[i].count;
	assert_true(graph->totals.folded_calls > 0 && graph->folded_elsewhere > CALLEES);
	assert_int_equal(graph->totals.calls, 1 + CALLEES);
	assert_int_equal(graph->totals.folded_calls + shown, 1 + CALLEES);
	assert_int_equal(graph->totals.folded_calls + graph->folded_elsewhere, all.folded_calls);
	assert_int_equal(graph->totals.folded.instructions, graph->totals.folded_calls);
	call_graph_free(graph);
	names_free(config.names);
	ptah_call_tree_free(tree);
	ptah_session_close(session);
}

TEST_GROUP(make_kernels, remove_kernels)
