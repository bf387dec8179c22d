/* SPDX-License-Identifier: MIT */
/* Finds Ptah's plugins for QEMU, which lie beside the library or the command. */
#ifndef PTAH_RECORD_PLUGIN_PATH_H
#define PTAH_RECORD_PLUGIN_PATH_H

/*
 * The path of the plugin with this file name: beside the library or the command, or where it was
 * installed. The caller frees it. NULL: it is in none of these places, or out of memory.
 */
char *record_find_plugin(const char *name);

#endif
