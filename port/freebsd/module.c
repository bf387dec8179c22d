/* SPDX-License-Identifier: MIT */
/* The kernel module: it registers the backend with hwt, and unloads only while nothing is traced. */
#include "port.h"

MALLOC_DEFINE(M_PTAH, "ptah", "Intel Processor Trace");

struct ptah_engine *pt_engine;

static struct hwt_backend pt_backend = {.name = "pt", .ops = &pt_ops, .kva_req = true};

static int load_module(void)
{
	const struct ptah_caps *caps;
	int error;

	pt_pools_init();
	error = pt_backend_init();
	if (!error && ptah_engine_new(&pt_hal, NULL, &pt_engine) < 0)
		error = ENOMEM;
	if (!error) {
		caps = ptah_engine_caps(pt_engine, 0);
		if (!caps || caps->obstacle) {
			printf("ptah: %s\n", caps ? ptah_caps_advice(caps->obstacle) : "no cpu 0");
			error = ENXIO;
		} else {
			error = hwt_backend_register(&pt_backend);
		}
		if (error)
			ptah_engine_free(pt_engine);
	}
	if (error)
		pt_backend_fini();
	return error;
}

/* hwt does not know whether a backend is in use; the engine does. */
static int unload_module(void)
{
	struct ptah_engine *engine = pt_engine;
	int error = hwt_backend_unregister(&pt_backend);

	if (error)
		return error;
	pt_pools_fini();
	if (ptah_engine_free(engine) < 0) {
		hwt_backend_register(&pt_backend);
		return EBUSY;
	}
	pt_engine = NULL;
	pt_backend_fini();
	return 0;
}

static int handle_event(module_t module, int event, void *argument)
{
	(void)module, (void)argument;
	switch (event) {
	case MOD_LOAD:
		return load_module();
	case MOD_UNLOAD:
		return unload_module();
	default:
		return 0;
	}
}

static moduledata_t pt_module = {"ptah_hwt", handle_event, NULL};

DECLARE_MODULE(ptah_hwt, pt_module, SI_SUB_DRIVERS, SI_ORDER_FIRST);
MODULE_DEPEND(ptah_hwt, hwt, 1, 1, 1);
MODULE_VERSION(ptah_hwt, 1);
