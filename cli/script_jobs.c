/* SPDX-License-Identifier: MIT */
/*
 * ptah script --jobs: each job prints a segment of the stream into memory, and the main thread
 * writes the pieces in order.
 *
 * A job does not know what was before its segment. Three things in a row may depend on that: the
 * branch that ended the block before it (--branches), the thread's name where the time is not
 * known, and the address space. The main thread puts in the branch; where a job was wrong about the
 * others, the main thread prints the segment itself.
 */
#include "script_cache.h"

#include <ptah/session.h>

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Pieces are about this long; of more than a piece the text is moved. */
#define PIECE (128u << 10)

/* So many pieces of a job may wait: 32 MB. */
#define PIECES 128

/* Items between two looks at the length. */
#define BATCH 128

/* What a job has printed of some items, and the state that they leave. */
struct script_piece {
	struct script_piece *next; /* of those that are free */
	struct out *out;
	uint64_t errors;
	bool timed, found_function;
	bool guessed; /* as struct script has it */
	uint64_t tsc; /* of the last item */
	/* The address space where the piece begins, and where it ends. */
	int32_t begin_space, end_space;
	unsigned space; /* the same, as items have it */
	struct script_carry carry;
	struct script_branch branch;
};

struct script_jobs {
	struct script *main;
	struct script *model; /* a copy of it, for the jobs */
	size_t stream;
	uint64_t round; /* how many streams there were */
	pthread_mutex_t lock, names_lock;
	struct script *idle; /* of jobs that do not work now */
	struct script_piece *free;
	struct progress *progress;
};

static struct script_piece *new_piece(struct script_jobs *j)
{
	struct script_piece *piece;
	struct out *out = NULL;

	pthread_mutex_lock(&j->lock);
	piece = j->free;
	if (piece)
		j->free = piece->next;
	pthread_mutex_unlock(&j->lock);
	if (piece) {
		out = piece->out;
	} else {
		piece = malloc(sizeof(*piece));
		if (!piece || out_open_memory(&out) < 0) {
			free(piece);
			return NULL;
		}
		out_set_look(out, out_look(j->model->out));
	}
	*piece = (struct script_piece){.out = out};
	return piece;
}

static void free_piece(struct script_jobs *j, struct script_piece *piece)
{
	out_clear(piece->out);
	pthread_mutex_lock(&j->lock);
	piece->next = j->free;
	j->free = piece;
	pthread_mutex_unlock(&j->lock);
}

/* A job's own state: that of the main thread, with caches of its own. */
static struct script *new_script(struct script_jobs *j)
{
	struct script *s = malloc(sizeof(*s));

	if (!s)
		return NULL;
	*s = *j->model;
	if (script_new_lines(s) < 0 || script_cache_new(&s->cache) < 0) {
		script_free_lines(s);
		free(s);
		return NULL;
	}
	return s;
}

/* Takes out of the list the state that this thread has had, or any other. */
static struct script *take_idle(struct script_jobs *j, pthread_t owner)
{
	struct script **at = &j->idle, *s;

	while (*at && ((*at)->round != j->round || !pthread_equal((*at)->owner, owner)))
		at = &(*at)->next_job;
	if (!*at)
		at = &j->idle;
	s = *at;
	if (s)
		*at = s->next_job;
	return s;
}

static struct script *lend(struct script_jobs *j)
{
	const pthread_t owner = pthread_self();
	struct script *s;

	pthread_mutex_lock(&j->lock);
	s = take_idle(j, owner);
	pthread_mutex_unlock(&j->lock);
	if (!s)
		s = new_script(j);
	if (!s)
		return NULL;
	/* Another thread has an image of its own. */
	if (s->round != j->round || !pthread_equal(s->owner, owner))
		script_cache_forget(s->cache);
	s->round = j->round;
	s->owner = owner;
	return s;
}

static void take_back(struct script_jobs *j, struct script *s)
{
	pthread_mutex_lock(&j->lock);
	s->next_job = j->idle;
	j->idle = s;
	pthread_mutex_unlock(&j->lock);
}

/* The jobs */

/* Begins a piece; its text goes on where that of the last one ended. */
static struct script_piece *begin_piece(struct script_jobs *j, struct script *s)
{
	struct script_piece *piece = new_piece(j);

	if (!piece)
		return NULL;
	s->out = s->json.out = piece->out;
	/* Each row of JSON begins with a comma. */
	s->json.filled[s->json.depth] = true;
	s->errors = 0;
	s->timed = s->found_function = false;
	s->carry.resolved = s->guessed = false;
	piece->begin_space = s->info.space;
	return piece;
}

static int put_script_piece(struct script *s, struct ptah_segment *segment,
			    struct script_piece *piece)
{
	piece->errors = s->errors;
	piece->timed = s->timed;
	piece->found_function = s->found_function;
	piece->guessed = s->guessed;
	piece->tsc = s->at;
	piece->space = s->space;
	piece->end_space = s->info.space;
	piece->carry = s->carry;
	piece->branch = s->branch;
	return ptah_segment_put(segment, piece);
}

static void begin_segment(struct script_jobs *j, struct script *s, struct ptah_reader *reader)
{
	s->reader = reader;
	script_follow_stream(s, j->stream);
	s->at = 0;
	s->carry = (struct script_carry){.is_open = true};
}

static int print_segment(struct script_jobs *j, struct script *s, struct ptah_segment *segment,
			 struct ptah_reader *reader)
{
	struct ptah_item items[BATCH];
	struct script_piece *piece = NULL;
	int n = 1, status = 0;
	size_t length;

	begin_segment(j, s, reader);
	while (n > 0 && !status && !interrupted()) {
		if (!piece)
			piece = begin_piece(j, s);
		if (!piece)
			return PTAH_E_NOMEM;
		n = ptah_reader_read(s->reader, items, ARRAY_SIZE(items));
		if (n > 0)
			script_take_items(s, items, n);
		out_written(piece->out, &length);
		if (length < PIECE && n > 0)
			continue;
		status = put_script_piece(s, segment, piece);
		piece = NULL;
	}
	if (piece)
		free_piece(j, piece);
	if (status < 0 || n < 0)
		return status < 0 ? status : n;
	return interrupted() ? PTAH_E_EMPTY : 0;
}

static int print_script_segment(void *context, struct ptah_segment *segment,
				struct ptah_reader *reader, bool ahead)
{
	struct script_jobs *j = context;
	struct script *s;
	int status;

	if (!ahead) {
		j->main->reader = reader;
		status = script_read_items(j->main, j->progress);
		/* The segments that follow are not printed, either. */
		return status >= 0 && script_has_stopped(j->main) ? PTAH_E_EMPTY : status;
	}
	s = lend(j);
	if (!s)
		return PTAH_E_NOMEM;
	status = print_segment(j, s, segment, reader);
	take_back(j, s);
	return status;
}

/* The main thread */

/* Whether the job began with what the main thread knows. */
static bool suits(const struct script *s, const struct script_piece *piece)
{
	return !(piece->guessed && s->renamed) && s->info.space == piece->begin_space;
}

static void put_script_text(struct script *s, const char *text, size_t n)
{
	bool *filled = &s->json.filled[s->json.depth];

	if (!n)
		return;
	if (s->input->format == FORMAT_JSON && !*filled) {
		text++;
		n--;
	}
	*filled = true;
	out_pass(s->out, text, n);
}

static void put_piece_text(struct script *s, const struct script_piece *piece)
{
	size_t n, at = 0;
	const char *text = out_written(piece->out, &n);

	if (piece->carry.resolved && s->branch.is_open) {
		at = piece->carry.at;
		put_script_text(s, text, at);
		script_set_time(s, piece->carry.tsc);
		script_resolve_branch(s, piece->carry.to);
	}
	put_script_text(s, text + at, n - at);
}

/* The main thread continues as if it had printed the piece itself. */
static void adopt(struct script *s, const struct script_piece *piece)
{
	s->errors += piece->errors;
	s->timed |= piece->timed;
	s->found_function |= piece->found_function;
	if (!piece->carry.is_open)
		s->branch = piece->branch;
	script_set_time(s, piece->tsc);
	if (piece->space != UINT_MAX)
		s->space = piece->space;
	s->info.space = piece->end_space;
}

static int take_printed_segment(void *context, void *result, uint64_t offset)
{
	struct script_jobs *j = context;
	struct script_piece *piece = result;
	int status = 0;

	if (script_has_stopped(j->main))
		status = PTAH_E_EMPTY;
	else if (out_failed(piece->out))
		status = PTAH_E_NOMEM;
	else if (!suits(j->main, piece))
		status = 1;
	if (!status) {
		put_piece_text(j->main, piece);
		adopt(j->main, piece);
		progress_at(j->progress, offset);
	}
	free_piece(j, piece);
	return status;
}

static void drop_printed_segment(void *context, void *result)
{
	free_piece(context, result);
}

int script_read_with_jobs(struct script *s, size_t stream)
{
	const struct ptah_jobs jobs = {
	    .size = sizeof(jobs), .jobs = input_jobs(s->input, 1), .workers = s->workers};
	const struct ptah_segment_functions functions = {.size = sizeof(functions),
							 .run = print_script_segment,
							 .take = take_printed_segment,
							 .drop = drop_printed_segment,
							 .results = PIECES};
	int status;

	s->jobs->stream = stream;
	s->jobs->round++;
	status = ptah_session_read_segments(s->session, stream, &jobs, &functions, s->jobs);
	return status == PTAH_E_EMPTY ? 0 : status;
}

int script_new_jobs(struct script *s, struct progress *progress)
{
	struct script_jobs *j = calloc(1, sizeof(*j));
	struct script *model = malloc(sizeof(*model));

	if (!j || !model) {
		free(j);
		free(model);
		return PTAH_E_NOMEM;
	}
	pthread_mutex_init(&j->lock, NULL);
	pthread_mutex_init(&j->names_lock, NULL);
	s->names_lock = &j->names_lock;
	s->jobs = j;
	*model = *s;
	model->cache = NULL;
	model->lines = NULL;
	model->pool = NULL;
	j->main = s;
	j->model = model;
	j->progress = progress;
	return 0;
}

void script_free_jobs(struct script *s)
{
	struct script_jobs *j = s->jobs;

	if (!j)
		return;
	while (j->idle) {
		struct script *next = j->idle->next_job;

		script_free_lines(j->idle);
		script_cache_free(j->idle->cache);
		free(j->idle);
		j->idle = next;
	}
	while (j->free) {
		struct script_piece *next = j->free->next;

		out_abort(j->free->out);
		free(j->free);
		j->free = next;
	}
	pthread_mutex_destroy(&j->lock);
	pthread_mutex_destroy(&j->names_lock);
	free(j->model);
	free(j);
	s->jobs = NULL;
	s->names_lock = NULL;
}
