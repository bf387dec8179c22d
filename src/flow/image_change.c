/* SPDX-License-Identifier: MIT */
/* Forgets what a flow has learnt from its image, when the image changes or is replaced. */
#include "flow/paths.h"
#include "image/image_access.h"

/* Forgets the nodes whose bytes have changed, and no others. */
bool flow_follow_image(struct ptah_flow *f)
{
	uint64_t generation = image_generation(f->code.image);
	struct image_change changes[IMAGE_CHANGES];
	size_t before = f->code.node_count;
	int n;

	if (generation == f->generation)
		return false;
	n = image_changes(f->code.image, f->generation, changes);
	f->generation = generation;
	if (n >= 0 && code_is_untouched(&f->code, changes, (size_t)n))
		return false;
	flow_forget_nodes(f);
	if (n < 0)
		code_flush(&f->code);
	else
		code_forget(&f->code, changes, (size_t)n);
	if (f->code.node_count == before)
		return false;
	flow_paths_forget(f);
	return true;
}

int ptah_flow_set_image(struct ptah_flow *f, const struct ptah_image *image)
{
	if (!f || !image)
		return PTAH_E_INVAL;
	flow_forget_nodes(f);
	flow_drop_mark(f);
	code_flush(&f->code);
	flow_paths_forget(f);
	f->code.image = image;
	f->generation = image_generation(image);
	return 0;
}
