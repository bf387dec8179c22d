/* SPDX-License-Identifier: MIT */
/* Keeps what the recording says of the threads' namespaces and of control groups. */
#include "session/records.h"

#include "base/bits.h"
#include "support/list.h"

int session_on_namespaces(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc)
{
	struct ptah_namespaces *n;

	if (!LIST_ROOM(s->namespaces, s->namespaces_count, s->namespaces_capacity))
		return PTAH_E_NOMEM;
	n = &s->namespaces[s->namespaces_count++];
	*n = (struct ptah_namespaces){.pid = r->pid, .tid = r->tid, .tsc = tsc};
	for (size_t i = 0; i < r->number && i < PTAH_NAMESPACE_MAX; i++) {
		n->of[i].device = load_le64(r->bytes + 16 * i);
		n->of[i].inode = load_le64(r->bytes + 16 * i + 8);
	}
	return 0;
}

int session_on_cgroup(struct ptah_session *s, const struct perfdata_record *r)
{
	const char *path = strings_keep(&s->paths, r->text, r->text_size);

	if (!path || !LIST_ROOM(s->cgroups, s->cgroup_count, s->cgroup_capacity))
		return PTAH_E_NOMEM;
	s->cgroups[s->cgroup_count++] = (struct ptah_cgroup){r->number, path};
	return 0;
}

bool ptah_session_namespaces(const struct ptah_session *s, size_t i,
			     struct ptah_namespaces *namespaces)
{
	static const char *const names[PTAH_NAMESPACE_MAX] = {"net",  "uts", "ipc",   "pid",
							      "user", "mnt", "cgroup"};

	if (!s || !namespaces || i >= s->namespaces_count)
		return false;
	*namespaces = s->namespaces[i];
	for (size_t k = 0; k < PTAH_NAMESPACE_MAX; k++)
		namespaces->of[k].name = names[k];
	return true;
}

bool ptah_session_cgroup(const struct ptah_session *s, size_t i, struct ptah_cgroup *cgroup)
{
	if (!s || !cgroup || i >= s->cgroup_count)
		return false;
	*cgroup = s->cgroups[i];
	return true;
}
