/* SPDX-License-Identifier: MIT */
/* Functions of `ptah calls` by their place in a file, so that all processes' calls of one add up.
 */
#include "calls_view.h"
#include "time_head.h"

#include "output/pretty.h"
#include "support/list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
	return hash;
}

/*
 * What makes two functions the same. Code that was generated while the program ran has no place: a
 * function that was compiled again is elsewhere.
 */
struct identity {
	const char *mangled, *path;
	uint64_t place;
};

static bool is_same(const struct calls_key *key, const struct identity *id)
{
	return key->place == id->place && !strcmp(key->mangled, id->mangled) &&
	       !strcmp(key->path, id->path);
}

/* The slot of a function, or the free one where it belongs. */
static size_t find_key_slot(const struct calls_view *v, const struct identity *id)
{
	const uint64_t hash =
	    hash_text(hash_text(UINT64_C(0xcbf29ce484222325) ^ id->place, id->mangled), id->path);
	size_t i = (size_t)(hash ^ hash >> 32) & (v->slot_count - 1);

	while (v->slots[i] && !is_same(&v->keys[v->slots[i] - 1], id))
		i = (i + 1) & (v->slot_count - 1);
	return i;
}

static bool grow_slots(struct calls_view *v)
{
	const size_t count = v->slot_count ? 2 * v->slot_count : 1024;
	uint32_t *slots = calloc(count, sizeof(*slots));

	if (!slots)
		return false;
	free(v->slots);
	v->slots = slots;
	v->slot_count = count;
	for (size_t i = 0; i < v->key_count; i++) {
		const struct calls_key *k = &v->keys[i];

		slots[find_key_slot(v, &(struct identity){k->mangled, k->path, k->place})] =
		    (uint32_t)i + 1;
	}
	return true;
}

static bool has_name(const struct calls_view *v, const struct calls_key *key, const char *name)
{
	return ptah_symbol_matches(key->mangled, name) ||
	       ptah_symbol_matches(key->function, name) ||
	       names_is_alias(v->names, key->path, key->place, name);
}

static bool is_wanted(const struct calls_view *v, const struct calls_key *key)
{
	for (int i = 0; i < v->wanted_count; i++)
		if (has_name(v, key, v->wanted[i]))
			return true;
	return false;
}

static size_t add_key(struct calls_view *v, const struct name *name, const struct identity *id,
		      uint64_t ip)
{
	struct calls_key *key;

	if (!LIST_ROOM(v->keys, v->key_count, v->key_room))
		return SIZE_MAX;
	key = &v->keys[v->key_count];
	*key = (struct calls_key){.function = strdup(name->symbol ? name->symbol : id->mangled),
				  .mangled = strdup(id->mangled),
				  .path = strdup(id->path),
				  .object = strdup(name->dso),
				  .place = id->place,
				  .ip = ip};
	if (!key->function || !key->mangled || !key->path || !key->object) {
		free((char *)key->function);
		free((char *)key->mangled);
		free((char *)key->path);
		free((char *)key->object);
		return SIZE_MAX;
	}
	key->wanted = is_wanted(v, key);
	return v->key_count++;
}

size_t calls_key_of(struct calls_view *v, int32_t space, uint64_t function)
{
	const struct name *name = names_find(v->names, space, function);
	struct identity id = {.mangled = name->mangled ? name->mangled : name->symbol,
			      .path = name->path ? name->path : "",
			      .place =
				  name->path && !name->generated ? name->place - name->offset : 0};
	char address[32];
	size_t slot, key;

	if (!id.mangled) {
		snprintf(address, sizeof(address), "0x%" PRIx64, function);
		id.mangled = address;
	}
	if (2 * v->key_count >= v->slot_count && !grow_slots(v))
		return SIZE_MAX;
	slot = find_key_slot(v, &id);
	if (v->slots[slot])
		return v->slots[slot] - 1;
	key = add_key(v, name, &id, function);
	if (key != SIZE_MAX)
		v->slots[slot] = (uint32_t)key + 1;
	return key;
}

void calls_free_keys(struct calls_view *v)
{
	for (size_t i = 0; i < v->key_count; i++) {
		free((char *)v->keys[i].function);
		free((char *)v->keys[i].mangled);
		free((char *)v->keys[i].path);
		free((char *)v->keys[i].object);
	}
	free(v->keys);
	free(v->slots);
}

int calls_check_wanted(const struct calls_view *v)
{
	for (int i = 0; i < v->wanted_count; i++) {
		size_t k = 0;

		while (k < v->key_count && !has_name(v, &v->keys[k], v->wanted[i]))
			k++;
		if (k == v->key_count)
			return is_readable(v->wanted[i])
				   ? fail_file(&command_calls, v->wanted[i])
				   : fail_function(&command_calls, v->wanted[i]);
	}
	return EXIT_OK;
}

uint64_t calls_figure(const struct calls_view *v, const struct ptah_call_figures *figures)
{
	switch (v->options->value) {
	case PTAH_CALL_VALUE_CYCLES:
		return figures->cycles;
	case PTAH_CALL_VALUE_TIME:
		return figures->time;
	default:
		return figures->instructions;
	}
}

const char *calls_text(const struct calls_view *v, uint64_t figure, char text[32])
{
	if (v->options->value != PTAH_CALL_VALUE_TIME)
		return pretty_number(figure, text);
	return v->estimated ? pretty_estimate(figure, text) : pretty_time(figure, text);
}

void calls_put_time_head(const struct calls_view *v)
{
	if (v->options->value == PTAH_CALL_VALUE_TIME)
		time_head_put(v->out, v->session);
}

void calls_put_time_json(const struct calls_view *v, struct json *json)
{
	if (v->options->value != PTAH_CALL_VALUE_TIME)
		return;
	time_head_put_json(json, v->session);
	json_bool(json, "estimated", v->estimated);
}

unsigned calls_asked(const struct calls_view *v)
{
	if (v->options->value != PTAH_CALL_VALUE_TIME)
		return 0;
	return CALLS_TIMES | (v->bounded ? CALLS_BOUNDS : 0);
}

const char *calls_kind_name(const struct calls_view *v)
{
	return ptah_session_times(v->session).name;
}

const char *calls_value_name(const struct calls_view *v)
{
	static const char *const names[] = {"instructions", "cycles", "time"};

	return names[v->options->value];
}
