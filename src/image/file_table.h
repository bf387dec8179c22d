/* SPDX-License-Identifier: MIT */
/*
 * Files that several images have mapped: a file is mapped once, not once for each section, because
 * the kernel limits how many mappings a process may have (vm.max_map_count, 65530).
 */
#ifndef PTAH_IMAGE_FILE_TABLE_H
#define PTAH_IMAGE_FILE_TABLE_H

#include "image/backing.h"

/* Counted, and safe to use from several threads. */
struct file_table;

/* NULL: out of memory. The caller has the first reference. */
struct file_table *file_table_new(void);
struct file_table *file_table_get(struct file_table *table); /* NULL stays NULL */
void file_table_put(struct file_table *table);

/*
 * As backing_map(), but a file that is mapped already, by this path and as it is now, is not mapped
 * again. The last files stay mapped as long as the table. table NULL: backing_map().
 */
int file_table_map(struct file_table *table, const char *path, struct backing **backing);

#endif
