/* SPDX-License-Identifier: MIT */
/*
 * Demangled names are compared with what c++filt makes of them, for each symbol of the C++ library
 * and for names of Rust. Names that would become endless stay as they are.
 */
#include "../test.h"

#include <ptah/symbol.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* From programs that rustc 1.63 and 1.95 compiled. */
static const char *const rust[] = {
    "_ZN4core3ptr85drop_in_place$LT$std..rt..lang_start$LT$$LP$$RP$$GT$..$u7b$$u7b$closure$u7d$$u7d"
    "$$GT$17h0123456789abcdefE",
    "_ZN3std2rt10lang_start17hfedcba9876543210E",
    "_ZN1a7FGzzzz_17h0123456789abcdefE", /* in the new mangling this would be many lifetimes */
    "_RNvCsfLfy6EI15iL_7___rustc14___rust_dealloc",
    "_RINvMNtCsgEmfK2I1SDS_4core6optionINtB3_6OptionReE11map_or_elseNtNtCslNYArtu3iFV_5alloc6string"
    "6StringNCNvNtB12_3fmt6format0NvYeNtNtB12_6borrow7ToOwned8to_ownedECse0t5XC0jcx_1c",
    "_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y",
};

/* Not mangled, in whole or at all. */
static const char *const plain[] = {
    "main",
    "_start",
    "_Z",
    "_R",
    "_ZN",
    "_Z3foo$",
    "_ZN3foo",
    "_Zulu",
    "fn_1234",
    "_Z1fi@plt",
    "_ZNSsC1Ev@@GLIBCXX_3.4",
    "_ZN1a1bEv.cold",
    "_ZN1a1bEi.part.0.cold",
};

static size_t names_of_library(FILE *names)
{
	FILE *f = popen("nm -D --defined-only $(g++ -print-file-name=libstdc++.so.6) | "
			"awk '{ sub(/@.*/, \"\", $3); print $3 }' | sort -u",
			"r");
	char line[4096];
	size_t n = 0;

	assert_non_null(f);
	for (; fgets(line, sizeof(line), f); n++)
		fputs(line, names);
	pclose(f);
	return n;
}

/* Compares with c++filt, whose option -i leaves out the same details as perf does. */
static void compare(const char *folder, unsigned flags, const char *options)
{
	char command[256], line[4096], expected[16384], found[16384], text[16384];
	FILE *names, *judge;
	size_t n = 0;

	snprintf(command, sizeof(command), "c++filt -i %s <%s/names", options, folder);
	judge = popen(command, "r");
	snprintf(command, sizeof(command), "%s/names", folder);
	names = fopen(command, "r");
	assert_true(judge && names);
	for (; fgets(line, sizeof(line), names); n++) {
		char *clone;

		line[strcspn(line, "\n")] = '\0';
		assert_non_null(fgets(expected, sizeof(expected), judge));
		expected[strcspn(expected, "\n")] = '\0';
		snprintf(found, sizeof(found), "%s",
			 ptah_symbol_demangle(line, flags, text, sizeof(text)));
		/* Without parameters, c++filt gives "f" and "f.cold" the same name. */
		clone = flags ? NULL : strstr(found, " [clone ");
		if (clone && !strstr(expected, " [clone "))
			*clone = '\0';
		assert_string_equal(found, expected);
	}
	assert_true(n > 4000);
	fclose(names);
	pclose(judge);
}

TEST(names_are_those_of_cxxfilt)
{
	char folder[] = "/tmp/ptah-demangle-XXXXXX", path[64];
	FILE *names;

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/names", folder);
	names = fopen(path, "w");
	assert_non_null(names);
	assert_true(names_of_library(names) > 4000);
	for (size_t i = 0; i < sizeof(rust) / sizeof(*rust); i++)
		fprintf(names, "%s\n", rust[i]);
	for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++)
		if (strcmp(plain[i], "_Z3foo$") != 0)
			fprintf(names, "%s\n", plain[i]);
	fclose(names);
	compare(folder, 0, "-p");
	compare(folder, PTAH_DEMANGLE_PARAMETERS, "");
	unlink(path);
	rmdir(folder);
}

static void assert_demangled(const char *name, unsigned flags, const char *expected)
{
	char text[256];

	assert_string_equal(ptah_symbol_demangle(name, flags, text, sizeof(text)), expected);
}

TEST(what_is_appended_is_kept)
{
	assert_demangled("_ZN1a1bEi", 0, "a::b");
	assert_demangled("_ZN1a1bEi", PTAH_DEMANGLE_PARAMETERS, "a::b(int)");
	assert_demangled("_ZN1a1bEi@plt", 0, "a::b@plt");
	assert_demangled("_ZN1a1bEi.cold", 0, "a::b [clone .cold]");
	assert_demangled("_ZN1a1bEi.part.0.cold", 0, "a::b [clone .part.0] [clone .cold]");
	assert_demangled("_Z3foo$", 0, "_Z3foo$");
	assert_demangled("a.b", 0, "a.b");
}

TEST(what_does_not_fit_stays_mangled)
{
	const char *name = "_ZN1a1bEi", *plt = "_ZN1a1bEi@plt";
	char text[16];

	for (size_t n = 1; n <= 4; n++)
		assert_ptr_equal(ptah_symbol_demangle(name, 0, text, n), name);
	assert_string_equal(ptah_symbol_demangle(name, 0, text, 5), "a::b");
	assert_ptr_equal(ptah_symbol_demangle(plt, 0, text, 8), plt);
}

/* f(pair<int, int>, X...), where each X is a pair of the one before it twice. */
static void double_cxx(char *name, size_t times)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

	strcpy(name, "_Z1fSt4pairIiiE");
	for (size_t i = 0; i < times; i++)
		sprintf(name + strlen(name), "S_IS%c_S%c_E", digits[i], digits[i]);
}

TEST(doubling_in_cxx_ends)
{
	char name[1024], text[4096];

	double_cxx(name, 1);
	assert_string_equal(
	    ptah_symbol_demangle(name, PTAH_DEMANGLE_PARAMETERS, text, sizeof(text)),
	    "f(std::pair<int, int>, std::pair<std::pair<int, int>, std::pair<int, int> >)");
	double_cxx(name, 36);
	assert_ptr_equal(ptah_symbol_demangle(name, 0, text, sizeof(text)), name);
	assert_ptr_equal(ptah_symbol_demangle(name, PTAH_DEMANGLE_PARAMETERS, text, sizeof(text)),
			 name);
	assert_false(ptah_symbol_matches(name, "f"));
}

/* Parameters of a function pointer, in a part that is not written: 63 lifetimes, and 10^15. */
TEST(lifetimes_are_not_counted_for_ever)
{
	const char *endless = "_RNvMINvC1a1bFGzzzzzzzz_EuEu1f";

	assert_demangled("_RNvMINvC1a1bFGZ_EuEu1f", 0, "<()>::f");
	assert_demangled(endless, 0, endless);
	assert_demangled("_RNvC1a9FGzzzzz_b", 0, "_RNvC1a9FGzzzzz_b");
}

/* libiberty reads these arguments twice at each level: 2^40 times in all. */
TEST(nested_conversions_end)
{
	enum {
		LEVELS = 40
	};
	char name[8 + 6 * LEVELS] = "_ZN1Acv";

	for (unsigned i = 0; i < LEVELS; i++)
		strcat(name, "T0_I");
	strcat(name, "i");
	for (unsigned i = 0; i < LEVELS; i++)
		strcat(name, "E");
	strcat(name, "Ev");
	assert_demangled(name, 0, name);
	assert_demangled("_ZN1AcvT_I1BIiEEEv", PTAH_DEMANGLE_PARAMETERS,
			 "A::operator B<int><B<int> >()");
}

static void put_base_62(char *text, size_t number)
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz"
				     "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

	/* "_" is 0, "0_" is 1, and so on. */
	if (!number)
		strcpy(text, "_");
	else if (number <= 62)
		sprintf(text, "%c_", digits[number - 1]);
	else
		sprintf(text, "%c%c_", digits[(number - 1) / 62], digits[(number - 1) % 62]);
}

/* The generic arguments (X, X), where each X is the tuple before it, and the first is `leaf`. */
static void double_rust(char *name, const char *leaf, unsigned times)
{
	size_t last, here;
	char number[8];

	strcpy(name, "_RINvC1a1f");
	last = strlen(name) - 2;
	sprintf(name + strlen(name), "T%s%sE", leaf, leaf);
	for (unsigned i = 0; i < times; i++) {
		here = strlen(name) - 2;
		put_base_62(number, last);
		sprintf(name + strlen(name), "TB%sB%sE", number, number);
		last = here;
	}
	strcat(name, "E");
}

TEST(doubling_in_rust_ends)
{
	/* The second is an identifier for which libiberty allocates memory while it writes it. */
	static const char *const leaves[] = {"u", "NtC1au8gdel_5qa"};
	char name[2048], text[4096];

	double_rust(name, "u", 1);
	assert_string_equal(ptah_symbol_demangle(name, 0, text, sizeof(text)),
			    "a::f::<((), ()), (((), ()), ((), ()))>");
	double_rust(name, leaves[1], 0);
	assert_string_equal(ptah_symbol_demangle(name, 0, text, sizeof(text)),
			    "a::f::<(a::g\303\266del, a::g\303\266del)>");
	for (size_t i = 0; i < 2; i++) {
		double_rust(name, leaves[i], 40);
		for (size_t n = 2000; n < 2100; n++)
			assert_ptr_equal(ptah_symbol_demangle(name, 0, text, n), name);
	}
}

TEST(names_can_be_given_in_any_form)
{
	assert_true(ptah_symbol_matches("_ZN1a1bEi", "_ZN1a1bEi"));
	assert_true(ptah_symbol_matches("_ZN1a1bEi", "a::b"));
	assert_true(ptah_symbol_matches("_ZN1a1bEi", "a::b(int)"));
	assert_true(ptah_symbol_matches("main", "main"));
	assert_false(ptah_symbol_matches("_ZN1a1bEi", "a::b(char)"));
	assert_false(ptah_symbol_matches("_ZN1a1bEi", "b"));
	assert_false(ptah_symbol_matches("_ZN1a1bEi", ""));
}
