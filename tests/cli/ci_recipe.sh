#!/bin/sh
# SPDX-License-Identifier: MIT
# docs/ci.md: the commands of both jobs, from the worktrees on, in a project with two branches.
. "$PTAH_SOURCE/tests/cli/common.sh"
need qemu-x86_64
need git
need make

# The commands of the job of GitHub, and of GitLab.
awk '/^### GitHub/ { on = 1 } /^### GitLab/ { on = 0 }
	on && /^          git worktree/ { take = 1 } on && /^      - uses/ { take = 0 } take' \
	"$PTAH_SOURCE/docs/ci.md" >github
awk '/^### GitLab/ { on = 1 } on && /^  script:/ { take = 1; next } on && /^  artifacts:/ { exit }
	take { sub(/^    - /, ""); print }' "$PTAH_SOURCE/docs/ci.md" >gitlab
equal "commands of GitHub" "$(wc -l <github)" 7
equal "commands of GitLab" "$(wc -l <gitlab)" 7

export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
mkdir origin
cd origin
git init -q -b main .
printf 'app: app.c\n\t%s -O1 -o app app.c\n' "$CC" >Makefile
echo 100000 >input.txt
version() { # ROUNDS: the program's work is so many rounds for each unit of input
	cat >app.c <<END
#include <stdio.h>
__attribute__((noinline)) static int work(int n)
{
	volatile int sum = 0;

	for (int i = 0; i < n; i++)
		sum += i;
	return sum;
}
int main(void)
{
	FILE *f = fopen("input.txt", "r");
	int n = 0, sum = 0;

	if (!f || fscanf(f, "%d", &n) != 1)
		return 1;
	for (int i = 0; i < $1; i++)
		sum += work(n / 100);
	return sum == 1;
}
END
	git add .
	git commit -q -m "$1 rounds"
}
version 100
git checkout -q -b slower
version 105
git checkout -q -b other main
echo 'The program is the same.' >README
git add README
git commit -q -m "a text"
cd ..

mkdir bin
ln -s "$PTAH" bin/ptah
PATH=$PWD/bin:$PATH
export GITHUB_BASE_REF=main CI_MERGE_REQUEST_TARGET_BRANCH_NAME=main
for job in github gitlab; do
	for branch in slower other; do
		git clone -q -b $branch origin "$job-$branch"
		status=0
		(cd "$job-$branch" && sh -e "../$job") >log 2>&1 || status=$?
		case $branch in
		slower) wanted=1 ;;
		*) wanted=0 ;;
		esac
		[ $status = $wanted ] || fail "$job, $branch: status $status: $(cat log)"
		[ -s "$job-$branch/diff.txt" ] || fail "$job, $branch: no diff.txt"
	done
	grep -q '  work (app)$' "$job-slower/diff.txt" || fail "$job: $(cat "$job-slower/diff.txt")"
	grep -q '^nothing changed$' "$job-other/diff.txt" || fail "$job: $(cat "$job-other/diff.txt")"
done
