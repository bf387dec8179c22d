/* SPDX-License-Identifier: MIT */
/*
 * Prints a table of the .def files in include/ptah/ as documentation; tools/make-tables
 * compiles and runs it. Nothing here knows a packet or an erratum: what is
 * printed about one comes from its line in the table.
 */
#include <stdio.h>
#include <string.h>

/* Text in which groff finds no commands: "\-" is a dash. */
static void put_man(const char *text)
{
	for (; *text; text++) {
		if (*text == '-')
			putchar('\\');
		putchar(*text);
	}
}

static void put_erratum(const char *name, const char *symptom, const char *handling)
{
	printf(".TP\n.B %s\nSymptom: ", name);
	put_man(symptom);
	printf(".\n.br\nDecoding: ");
	put_man(handling);
	puts(".");
}

static void put_errata(void)
{
	fputs(
	    ".\\\" SPDX-License-Identifier: MIT\n"
	    ".\\\" Made by tools/make-tables from include/ptah/errata.def.\n"
	    ".TH PTAH\\-ERRATA 7 \"2026-11-22\" \"Ptah 0.1.0\" \"Ptah manual\"\n"
	    ".SH NAME\n"
	    "ptah\\-errata \\- errors of Intel's processors that decoding works around\n"
	    ".SH DESCRIPTION\n"
	    "Some processors write packets that differ from what Intel's manual defines. Intel\n"
	    "calls these errors errata and lists them, by these names, in the specification\n"
	    "updates of its processors.\n"
	    ".PP\n"
	    "A recording names the processor that it was made on, and the errata of that\n"
	    "processor are worked around. A raw trace names none, and nothing is worked around\n"
	    "until\n"
	    ".B \\-\\-processor\n"
	    "names the processor or\n"
	    ".B \\-\\-errata\n"
	    "lists the errata: on another processor the same packets are damage. The exception is\n"
	    "BDM70, which the packets show by themselves and which is always worked around.\n"
	    ".BR ptah\\-caps (1)\n"
	    "prints the errata of the processor it runs on.\n"
	    ".SH ERRATA\n",
	    stdout);
#define PTAH_ERRATUM(name, text, symptom, handling) put_erratum(text, symptom, handling);
#include <ptah/errata.def>
#undef PTAH_ERRATUM
	fputs(".SH SEE ALSO\n"
	      ".BR ptah (1),\n"
	      ".BR ptah\\-caps (1),\n"
	      ".BR ptah\\-report (1),\n"
	      ".BR ptah\\-script (1)\n",
	      stdout);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "errata"))
		put_errata();
	else
		return 2;
	return fflush(stdout) ? 1 : 0;
}
