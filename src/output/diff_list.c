/* SPDX-License-Identifier: MIT */
/* Lists what a run counted by function (diff_list.h). */
#include "output/diff_list.h"

#include "support/list.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lists the files of all processes, each path once, for their build ids. */
int diff_list_files(struct diff_list *list)
{
	struct ptah_counts_process p;

	for (size_t i = 0; ptah_counts_process(list->counts, i, &p); i++) {

		for (size_t k = 0; k < p.file_count; k++) {
			size_t known = 0;

			while (known < list->file_count &&
			       strcmp(list->files[known].path, p.files[k].path))
				known++;
			if (known < list->file_count)
				continue;
			if (!LIST_ADD(list->files, list->file_count))
				return PTAH_E_NOMEM;
			list->files[list->file_count - 1] = p.files[k];
		}
	}
	return 0;
}

void diff_list_identify(const struct diff_list *list, struct diff_entry *entry)
{
	for (size_t i = 0; i < list->file_count; i++) {
		if (strcmp(list->files[i].path, entry->path))
			continue;
		entry->build_id = list->files[i].build_id;
		entry->build_id_size = list->files[i].build_id_size;
		return;
	}
}

int diff_list_reserve(struct diff_list *list, size_t n, size_t texts)
{
	list->entries = calloc(n + 1, sizeof(*list->entries));
	list->texts = calloc(texts * n + 1, sizeof(*list->texts));
	return list->entries && list->texts ? 0 : PTAH_E_NOMEM;
}

const char *diff_list_text(struct diff_list *list, const char *format, ...)
{
	va_list args;
	char *text;
	int n;

	va_start(args, format);
	n = vasprintf(&text, format, args);
	va_end(args);
	if (n < 0)
		return NULL;
	list->texts[list->text_count++] = text;
	return text;
}

int diff_list_functions(struct diff_list *list)
{
	struct hotspots *counter = NULL;
	size_t n = 0;
	int status = diff_list_files(list);

	if (status >= 0)
		status = hotspots_new(&counter);
	if (status < 0)
		return status;
	status = hotspots_add_counts(counter, list->counts);
	if (status >= 0)
		status = hotspots_functions(counter, list->names, &list->functions, &n);
	hotspots_free(counter);
	if (status < 0)
		return status;
	status = diff_list_reserve(list, n, 0);
	for (size_t i = 0; i < n && status >= 0; i++) {
		const struct hotspot *f = &list->functions[i];
		struct diff_entry *e = &list->entries[list->count++];

		*e = (struct diff_entry){.path = f->name.path ? f->name.path : f->name.dso,
					 .name = f->name.mangled ? f->name.mangled : "",
					 .shown = f->name.symbol,
					 .other_name = f->name.symbol && !f->name.named ? "" : NULL,
					 .value = f->instructions,
					 .calls = f->calls};
		diff_list_identify(list, e);
	}
	return status;
}

void diff_list_fini(struct diff_list *list)
{
	free(list->entries);
	for (size_t i = 0; i < list->text_count; i++)
		free(list->texts[i]);
	free(list->texts);
	annotation_free(list->annotation);
	free(list->functions);
	free(list->files);
	*list = (struct diff_list){0};
}
