/* SPDX-License-Identifier: MIT */
/* Another image. */
#include "flow/paths.h"

int ptah_flow_set_image(struct ptah_flow *f, const struct ptah_image *image)
{
	if (!f || !image)
		return PTAH_E_INVAL;
	flow_forget_nodes(f);
	flow_drop_mark(f);
	code_flush(&f->code);
	flow_paths_forget(f);
	f->code.image = image;
	f->generation = ptah_image_generation(image);
	return 0;
}
