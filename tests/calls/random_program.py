# SPDX-License-Identifier: MIT
"""Writes random programs that count the calls of their own functions.

Each seed is a call graph of C and assembly functions: recursion, loops, switches, pointers, tail
calls (conditional ones, too), longjmp, signal handlers, coroutines, callbacks of qsort, functions
that are entered by push and return, that fall through into the next, that call labels of their
own, and code without a name. All seeds together are one program, so that building and recording
take little time; the seeds are spread over units of different compilers and flags. Every function
adds one to its counter with its first instructions; the program writes the counters when it ends.
"""

import random

HEAD = """#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <ucontext.h>
#ifdef __clang__
#define NI __attribute__((noinline))
#else
#define NI __attribute__((noinline, noclone))
#endif
extern volatile unsigned counts[];
extern volatile int fuel, sink;
"""

# %(p)s: the seed's prefix; %(a)d and so on: four times the numbers of counters.
ASSEMBLY = r"""
__asm__(".text\n"
	/* Falls through. */
	".globl %(p)sfa\n.type %(p)sfa,@function\n%(p)sfa:\n incl counts+%(a)d(%%rip)\n add $1,%%edi\n"
	".size %(p)sfa,.-%(p)sfa\n"
	".globl %(p)sfb\n.type %(p)sfb,@function\n%(p)sfb:\n incl counts+%(b)d(%%rip)\n"
	" lea (%%rdi,%%rdi),%%eax\n ret\n.size %(p)sfb,.-%(p)sfb\n"
	/* Code without a name, behind a function that returns its address. */
	".globl %(p)sget\n.type %(p)sget,@function\n%(p)sget:\n incl counts+%(c)d(%%rip)\n"
	" lea .L%(p)snameless(%%rip),%%rax\n ret\n.size %(p)sget,.-%(p)sget\n"
	".L%(p)snameless: incl sink(%%rip)\n ret\n"
	/* Calls labels of its own. */
	".globl %(p)slabels\n.type %(p)slabels,@function\n%(p)slabels:\n incl counts+%(d)d(%%rip)\n"
	" push %%rbx\n mov %%edi,%%ebx\n and $3,%%ebx\n inc %%ebx\n1: call 2f\n dec %%ebx\n jnz 1b\n"
	" call 3f\n3: pop %%rax\n pop %%rbx\n mov $5,%%eax\n ret\n2: nop\n nop\n ret\n"
	".size %(p)slabels,.-%(p)slabels\n"
	/* Is left by push and return, and by a conditional tail call; loops to its beginning. */
	".globl %(p)spush\n.type %(p)spush,@function\n%(p)spush:\n incl counts+%(e)d(%%rip)\n"
	" test $1,%%edi\n jnz %(p)sfb\n test $2,%%edi\n jz 4f\n lea %(p)sfa(%%rip),%%rax\n push %%rax\n"
	" ret\n4: jmp %(p)sloop\n.size %(p)spush,.-%(p)spush\n"
	".globl %(p)sloop\n.type %(p)sloop,@function\n%(p)sloop:\n dec %%edi\n test $3,%%edi\n"
	" jnz %(p)sloop\n incl counts+%(f)d(%%rip)\n mov %%edi,%%eax\n ret\n"
	".size %(p)sloop,.-%(p)sloop\n");
int %(p)sfa(int), %(p)sfb(int), %(p)slabels(int), %(p)spush(int), %(p)sloop(int);
void (*%(p)sget(void))(void);
"""


class Seed:
    """The functions of one seed, in the order of their counters from `first` on."""

    def __init__(self, seed, first):
        self.r = random.Random(seed)
        self.p = f"s{seed}_"
        self.first = first
        self.n = self.r.randint(4, 9)
        self.c_names = [f"{self.p}f{i}" for i in range(self.n)]
        self.names = self.c_names + [self.p + x for x in ("fa", "fb", "get", "labels", "push",
                                                            "loop", "handler", "compare", "fiber",
                                                            "run")]

    def count(self, name):
        return f"counts[{self.first + self.names.index(self.p + name)}]++;"

    def call(self, argument, of):
        """An expression in function `of` that calls something, itself through a pointer alone:
        compilers make loops of the rest."""
        r = self.r
        other = r.choice(["fa", "fb", "labels", "push", "loop"])
        name = r.choice(self.c_names) if r.random() < 0.7 else self.p + other
        if name == self.c_names[of]:
            name = self.p + other
        if r.random() < 0.2:
            return f"{self.p}table[(unsigned)({argument}) % {self.n}](y & 15)"
        return f"{name}({argument})"

    def statement(self, i):
        r = self.r
        kind = r.randrange(9)
        if kind == 0:
            return f"for (int k = 0; k < {r.randint(1, 4)}; k++) y += {self.call('y - k', i)};"
        if kind == 1:
            return (f"switch ((unsigned)y % 6) {{ case 0: y += 3; break; case 1: y = {self.call('y', i)}; break;"
                    f" case 2: sink++; case 3: y *= 5; break; case 4: y += {self.call('y + 1', i)}; break;"
                    " default: y ^= 0x55; }")
        if kind == 2:
            return f"if ({self.p}armed && (y & 7) == {r.randrange(8)}) {{ {self.p}armed = 0; longjmp({self.p}back, 1); }}"
        if kind == 3:
            return f"if ((y & 3) == {r.randrange(4)}) raise(SIGUSR1);"
        if kind == 4:
            return (f"if ((y & 3) == {r.randrange(4)}) {{ int v[5]; for (int k = 0; k < 5; k++) v[k] = k * y & 31;"
                    f" qsort(v, 5, sizeof(*v), {self.p}compare); y += v[2]; }}")
        if kind == 5:
            return f"{self.p}get()();"
        return f"y += {self.call(f'y + {r.randint(1, 9)}', i)};"

    def function(self, i):
        r = self.r
        body = [self.statement(i) for _ in range(r.randint(1, 4))]
        if r.random() < 0.5:
            end = f"if (y & {r.choice([1, 2, 4])}) return {self.call('y & 7', i)}; return {self.call('y & 15', i)};"
        else:
            end = "sink += y; return y;"
        return "\n".join([f"NI int {self.c_names[i]}(int x)", "{",
                          f"\t{self.count(f'f{i}')} int y = x; if (--fuel < 0) return x + {i};"]
                         + ["\t" + s for s in body] + ["\t" + end, "}"])

    def source(self):
        p, r = self.p, self.r
        four = {k: 4 * (self.first + self.n + i) for i, k in enumerate("abcdef")}
        out = [f"static jmp_buf {p}back; static volatile int {p}armed;",
               f"static ucontext_t {p}main, {p}other; static char {p}stack[1 << 16];"]
        out += [f"int {name}(int);" for name in self.c_names]
        out += [f"int (*const volatile {p}table[])(int) = {{{', '.join(self.c_names)}}};",
                ASSEMBLY % dict(four, p=p),
                f"NI void {p}handler(int s) {{ {self.count('handler')} sink += s; }}",
                f"NI int {p}compare(const void *a, const void *b)",
                f"{{ {self.count('compare')} return *(const int *)a - *(const int *)b; }}"]
        out += [self.function(i) for i in range(self.n)]
        out += [f"NI void {p}fiber(void)",
                f"{{ {self.count('fiber')} sink++; swapcontext(&{p}other, &{p}main); sink += {p}fb(2);"
                f" swapcontext(&{p}other, &{p}main); }}",
                f"void {p}run(void);", f"NI void {p}run(void)", "{",
                f"\t{self.count('run')} signal(SIGUSR1, {p}handler);"]
        for _ in range(r.randint(2, 4)):
            out.append(f"\tfuel = {r.randint(5, 60)};")
            call = f"sink += {r.choice(self.c_names)}({r.randint(0, 99)});"
            if r.random() < 0.5:
                call = f"if (!setjmp({p}back)) {{ {p}armed = 1; {call} }} {p}armed = 0;"
            out.append("\t" + call)
        if r.random() < 0.4:
            out += [f"\tgetcontext(&{p}other); {p}other.uc_stack.ss_sp = {p}stack;",
                    f"\t{p}other.uc_stack.ss_size = sizeof({p}stack); {p}other.uc_link = 0;",
                    f"\tmakecontext(&{p}other, {p}fiber, 0);",
                    f"\tswapcontext(&{p}main, &{p}other); sink++; swapcontext(&{p}main, &{p}other);"]
        return "\n".join(out + ["}", ""])


def write(first, last, units, folder):
    """Writes unit0.c to unitN.c and main.c. Returns the names in the order of the counters."""
    names = []
    sources = [HEAD] * units
    seeds = []
    for seed in range(first, last):
        one = Seed(seed, len(names))
        names += one.names
        seeds.append(one)
        sources[seed % units] += one.source()
    for i, text in enumerate(sources):
        with open(f"{folder}/unit{i}.c", "w", encoding="utf-8") as f:
            f.write(text)
    with open(f"{folder}/main.c", "w", encoding="utf-8") as f:
        f.write("#include <stdio.h>\n#include <string.h>\n#include <sys/mman.h>\n"
                "volatile unsigned counts[%d]; volatile int fuel, sink;\n" % len(names))
        f.write("".join(f"void {s.p}run(void);\n" for s in seeds))
        f.write("int main(int argc, char **argv)\n{\n\tFILE *f = fopen(argv[argc - 1], \"w\");\n")
        f.write("".join(f"\t{s.p}run();\n" for s in seeds))
        # Generated code without names: one function calls the other, which begins 16 bytes behind.
        f.write("\tchar *code = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n"
                "\tmemcpy(code, \"\\xe8\\x0b\\0\\0\\0\\x90\\xc3\", 7);\n"
                "\tmemcpy(code + 16, \"\\x90\\x90\\xc3\", 3);\n"
                "\tfor (int i = 0; i < 9; i++)\n\t\t((void (*)(void))(code + i % 3 % 2 * 16))();\n")
        f.write("\tfor (unsigned i = 0; i < sizeof(counts) / sizeof(*counts); i++)\n"
                "\t\tfprintf(f, \"%u\\n\", counts[i]);\n\treturn fclose(f);\n}\n")
    return names
