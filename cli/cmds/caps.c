/* SPDX-License-Identifier: MIT */
/* ptah caps: what the Intel PT of this processor, or of a simulated one, offers. */
#include "caps_view.h"
#include "output/fields.h"

#include <ptah/model/model.h>

#include <stdlib.h>
#include <string.h>

struct options {
	struct input input; /* of which --format and --output are offered */
	const char *model;
	bool check;
};

static const struct option_def caps_options[] = {
    {.name = "model",
     .letter = 'm',
     .kind = OPTION_TEXT,
     .at = offsetof(struct options, model),
     .arg = "NAME",
     .complete = COMPLETE_MODELS,
     .help = "of a simulated processor instead of this one; 'list' names them",
     .man = "Show a simulated processor instead. *list* lists them."},
    {.name = "check",
     .kind = OPTION_FLAG,
     .at = offsetof(struct options, check),
     .help = "exit with 1 when tracing is not possible",
     .man = "Exit with 1 when tracing is not possible."},
    {0},
};

static const struct option_def caps_format_options[] = {
    {.name = "format",
     .kind = OPTION_CHOICE,
     .at = offsetof(struct options, input.format),
     .arg = "FORMAT",
     .choices = format_choices,
     .help = "text, json or tsv (default: text)",
     .man = "*text* for people (the default), *json* or *tsv* for programs. JSON is "
	    "one document, with CPUID's words as they are in *cpuid*. TSV has a row "
	    "for each fact and for each valid value: name, value, meaning. "
	    "*obstacle* is the reason why tracing is not possible: NOT_INTEL, NO_PT, "
	    "NO_LEAF, BAD_LEAF, NO_OUTPUT, DRIVER or PERMISSION. A fact that is not "
	    "known is null, or empty."},
    {0},
};

static const struct renderer renderers[FORMAT_MAX] = {
    [FORMAT_TEXT] = {.begin = caps_put_text, .offered = true},
    [FORMAT_JSON] = {.begin = caps_put_json, .offered = true},
    [FORMAT_TSV] = {.begin = caps_put_tsv, .offered = true},
};

static int put_caps(const struct options *o, const struct caps_subject *s)
{
	const struct renderer *renderer =
	    renderer_choose(&command_caps, renderers, o->input.format, "");
	struct caps_view view = {.subject = s};
	int status;

	if (!renderer)
		return EXIT_USAGE;
	status = output_open(&command_caps, &o->input, &view.out);
	if (status)
		return status;
	renderer->begin(&view);
	return output_close(&command_caps, view.out,
			    o->check && !s->possible ? EXIT_FAILED : EXIT_OK);
}

static int show_host(const struct options *o)
{
	struct ptah_host host = {.size = sizeof(host)};
	struct caps_subject s = {.caps = &host.caps, .host = &host};

	s.possible = ptah_host_look(NULL, NULL, &host) >= 0;
	s.advice = ptah_host_advice(&host, host.obstacle ? &s.obstacle : NULL);
	if (host.obstacle == PTAH_HOST_PROCESSOR)
		s.obstacle = ptah_caps_obstacle_name(host.caps.obstacle);
	return put_caps(o, &s);
}

/* The two functions of a HAL that the discovery uses. */
static void model_cpuid(void *port, uint32_t leaf, uint32_t subleaf, uint32_t registers[4])
{
	ptah_model_cpuid(port, leaf, subleaf, registers);
}

static int model_rdmsr(void *port, uint32_t msr, uint64_t *value)
{
	return ptah_model_rdmsr(port, msr, value);
}

static int show_model(const struct options *o, const struct ptah_model_processor *processor)
{
	static const struct ptah_hal hal = {
	    .size = sizeof(hal), .rdmsr = model_rdmsr, .cpuid = model_cpuid};
	const struct ptah_model_config config = {.size = sizeof(config), .processor = processor};
	struct ptah_model *model = malloc(ptah_model_size());
	struct caps_subject s = {.name = processor->name, .product = processor->product};
	struct ptah_caps caps;
	int status;

	if (!model)
		return fail(&command_caps, "%s", ptah_strerror(PTAH_E_NOMEM));
	status = ptah_model_init(model, &config);
	if (status < 0) {
		free(model);
		return fail(&command_caps, "%s: %s", processor->name, ptah_strerror(status));
	}
	s.possible = ptah_caps_discover(&hal, model, &caps) >= 0;
	free(model);
	s.caps = &caps;
	s.advice = ptah_caps_advice(caps.obstacle);
	if (caps.obstacle)
		s.obstacle = ptah_caps_obstacle_name(caps.obstacle);
	return put_caps(o, &s);
}

/* The list of models */

static const struct field model_fields[] = {
    FIELD(struct ptah_model_processor, "name", FIELD_STRING, name),
    FIELD(struct ptah_model_processor, "product", FIELD_STRING, product),
};

static const struct row_type model_type = ROW_TYPE(model_fields);

static void put_model_text(void *view, const void *row)
{
	const struct ptah_model_processor *p = row;

	out_format(((struct caps_view *)view)->out, "%-18s %s\n", p->name, p->product);
}

static void begin_models_tsv(void *view)
{
	fields_tsv_head(((struct caps_view *)view)->out, &model_type, 0);
}

static void put_model_tsv(void *view, const void *row)
{
	fields_tsv(((struct caps_view *)view)->out, &model_type, 0, row);
}

static void begin_models_json(void *view)
{
	struct caps_view *v = view;

	json_init(&v->json, v->out);
	json_object(&v->json, NULL, false);
	json_array(&v->json, "models");
}

static void put_model_json(void *view, const void *row)
{
	fields_json(&((struct caps_view *)view)->json, &model_type, 0, row);
}

static void end_models_json(void *view)
{
	struct caps_view *v = view;

	json_end_array(&v->json);
	json_end_object(&v->json);
	json_finish(&v->json);
}

static const struct renderer model_renderers[FORMAT_MAX] = {
    [FORMAT_TEXT] = {.row = put_model_text, .offered = true},
    [FORMAT_JSON] = {.begin = begin_models_json,
		     .row = put_model_json,
		     .end = end_models_json,
		     .offered = true},
    [FORMAT_TSV] = {.begin = begin_models_tsv, .row = put_model_tsv, .offered = true},
};

static int list_caps_models(const struct options *o)
{
	const struct renderer *renderer =
	    renderer_choose(&command_caps, model_renderers, o->input.format, "--model=list");
	const struct ptah_model_processor *p;
	struct caps_view view = {.subject = NULL};
	int status;

	if (!renderer)
		return EXIT_USAGE;
	status = output_open(&command_caps, &o->input, &view.out);
	if (status)
		return status;
	RENDER(renderer, begin, &view);
	for (size_t i = 0; (p = ptah_model_named(i)); i++)
		renderer->row(&view, p);
	RENDER(renderer, end, &view);
	return output_close(&command_caps, view.out, EXIT_OK);
}

static int run_caps(int argc, char **argv)
{
	const struct ptah_model_processor *processor;
	struct options o = {0};
	int status, first = options_parse(&command_caps, argc, argv, &o, &status);

	if (first < 0)
		return status;
	if (first < argc)
		return fail_options(&command_caps, "%s: it takes no file", argv[first]);
	if (!o.model)
		return show_host(&o);
	if (!strcmp(o.model, "list"))
		return list_caps_models(&o);
	processor = ptah_model_find(o.model);
	if (processor)
		return show_model(&o, processor);
	fail(&command_caps,
	     "--model=%s: there is no such processor; 'ptah caps --model=list' names them",
	     o.model);
	return EXIT_USAGE;
}

const struct command command_caps = {
    .name = "caps",
    .usage = "[OPTIONS]",
    .summary = "what this processor's Intel PT offers",
    .details =
	"Tells what the Intel PT of this processor can do, with each value that may be asked\n"
	"for, or why it cannot be used here and what to do about it. Exits with 0 either way,\n"
	"unless --check is given.",
    .options = (const struct option_def *const[]){caps_options, caps_format_options, output_options,
						  help_options, NULL},
    .run = run_caps,
};
