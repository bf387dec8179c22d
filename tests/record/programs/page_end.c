/* SPDX-License-Identifier: MIT */
/*
 * Instructions of every length across the end of a page, and blocks that end
 * exactly there; in anonymous memory and in the file.
 */
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096

typedef unsigned function(unsigned);

struct piece {
	const char *bytes;
	unsigned size;
};

#define PIECE(text)                                                                                \
	{                                                                                          \
		text, sizeof(text) - 1                                                             \
	}

/* Each leaves edi + 1 in eax or jumps over harmless bytes; ret follows. */
static const struct piece pieces[] = {
    PIECE("\x90\x8d\x47\x01"),				       /* nop; lea eax, [rdi + 1] */
    PIECE("\x8d\x87\x01\x00\x00\x00"),			       /* lea with a long displacement */
    PIECE("\x48\xb8\0\0\0\0\0\0\0\0\x8d\x47\x01"),	       /* mov rax, imm64; lea */
    PIECE("\x8d\x47\x01\xeb\x00"),			       /* lea; jmp +0 */
    PIECE("\x8d\x47\x01\xe9\x02\x00\x00\x00\x0f\x0b"),	       /* lea; jmp over ud2 */
    PIECE("\x8d\x47\x01\x85\xff\x74\x01\x90"),		       /* lea; test; jz over nop */
    PIECE("\x8d\x47\x01\x85\xff\x0f\x84\x01\x00\x00\x00\x90"), /* the same, jz near */
    PIECE("\x8d\x47\x01\xe8\x00\x00\x00\x00\x5a"),	       /* lea; call +0; pop rdx */
    PIECE("\x8d\x47\x01\xe8\x02\x00\x00\x00\xeb\x01\xc3"),     /* lea; call ret; jmp over ret */
    PIECE("\x8d\x47\x01\x31\xc9\xf3\xa4"),		       /* lea; xor ecx, ecx; rep movsb */
    PIECE("\x56\x54\x5e\x31\xc9\xff\xc1\xf3\x48\xad\x5e\x8d\x47\x01"), /* rep lodsq once; lea */
    PIECE("\x8d\x47\x01\x66\x2e\x0f\x1f\x84\x00\0\0\0\0"),	       /* lea; a long nop */
};

/* 4096 one-byte instructions without a branch: more than any translator takes at once. */
__asm__(".pushsection .text\n"
	".globl long_run\n"
	".type long_run, @function\n"
	".p2align 12\n"
	"	.skip 4090, 0x90\n"
	"long_run:\n"
	"	.skip 4096, 0x90\n"
	"	mov $1, %eax\n" /* five bytes, of which all but one are after the page's end */
	"	.skip 4091, 0x90\n"
	"	test %edi, %edi\n"
	"	jz 1f\n"
	"	dec %edi\n"
	"1:	lea 1(%rdi), %eax\n"
	"	ret\n"
	".size long_run, . - long_run\n"
	".popsection\n");
unsigned long_run(unsigned);

static int run_at(unsigned char *page_end, const struct piece *piece, unsigned before)
{
	unsigned char *code = page_end - before;
	function *f = (function *)(void *)code;

	memset(page_end - 64, 0xcc, 128);
	memcpy(code, piece->bytes, piece->size);
	code[piece->size] = 0xc3;
	for (unsigned i = 0; i < 3; i++)
		if (f(i) != i + 1)
			return 1;
	return 0;
}

int main(void)
{
	unsigned char *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		return 1;
	for (unsigned i = 0; i < sizeof(pieces) / sizeof(*pieces); i++)
		for (unsigned before = 1; before <= pieces[i].size + 1; before++)
			if (run_at(pages + PAGE, &pieces[i], before))
				return 2;
	for (unsigned i = 0; i < 2; i++)
		if (long_run(i) != 1)
			return 3;
	return 0;
}
