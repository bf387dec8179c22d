/* SPDX-License-Identifier: MIT */
/*
 * Processors by name. Leaf 14H of Broadwell, Skylake, Tiger Lake and Arrow Lake
 * is what published dumps show; that of the others is typical of their
 * generation, as far as public sources say; steppings differ, and hypervisors
 * even more. Freestanding.
 */
#include "model/processor.h"

#include <ptah/base.h>

/* CPUID.14H.0:EBX */
#define CR3	(1u << 0)
#define PSB_CYC (1u << 1)
#define IP	(1u << 2)
#define MTC	(1u << 3)
#define PTW	(1u << 4)
#define PWR	(1u << 5)
#define PSB_PMI (1u << 6)
#define EVENT	(1u << 7)
#define TNT	(1u << 8)
#define BASIC	(CR3 | PSB_CYC | IP | MTC)
/* CPUID.14H.0:ECX */
#define TOPA	(1u << 0)
#define MULTI	(1u << 1)
#define SINGLE	(1u << 2)
#define FABRIC	(1u << 3)
#define LIP	(1u << 31)
#define ALL_OUT (TOPA | MULTI | SINGLE)
/* CPUID.14H.1 of every Core processor since Skylake: 2 ranges, MTC 0 3 6 9. */
#define CORE_14_1                                                                                  \
	{                                                                                          \
		0x02490002, 0x003f3fff, 0, 0                                                       \
	}
#define HZ_19M	   19200000u
#define HZ_25M	   25000000u
#define HZ_38M	   38400000u
#define ERRATUM(n) (UINT32_C(1) << PTAH_ERRATUM_##n)

static const struct ptah_model_processor processors[] = {
    {
	.name = "broadwell",
	.product = "Broadwell, 5th generation Core: one region, no filters",
	.cpu = {6, 0x3d, 4},
	.physical_bits = 39,
	.linear_bits = 48,
	.max_leaf = 0x14,
	.perfmon = 3,
	.nominal_ratio = 26,
	.pt = true,
	.vmx = true,
	.branch_required = true,
	.pmi_margin = 128,
	.leaf_14_0 = {0, CR3, TOPA, 0},
	.errata = ERRATUM(BDM70) | ERRATUM(BDM64),
    },
    {
	.name = "skylake",
	.product = "Skylake, 6th generation Core",
	.cpu = {6, 0x5e, 3},
	.physical_bits = 39,
	.linear_bits = 48,
	.max_leaf = 0x16,
	.perfmon = 4,
	.nominal_ratio = 34,
	.pt = true,
	.xsaves = true,
	.vmx = true,
	.vmx_pt = true,
	.leaf_14_0 = {1, BASIC, ALL_OUT, 0},
	.leaf_14_1 = CORE_14_1,
	.tsc_n = 284,
	.tsc_d = 2,
	.errata = ERRATUM(BDM70) | ERRATUM(SKD007) | ERRATUM(SKD022) | ERRATUM(SKD010) |
		  ERRATUM(SKL014) | ERRATUM(SKL168),
    },
    {
	.name = "goldmont",
	.product = "Goldmont, Atom of 2016",
	.cpu = {6, 0x5c, 9},
	.physical_bits = 39,
	.linear_bits = 48,
	.max_leaf = 0x15,
	.perfmon = 4,
	.nominal_ratio = 11,
	.pt = true,
	.xsaves = true,
	.vmx = true,
	.vmx_pt = true,
	.leaf_14_0 = {1, BASIC, ALL_OUT, 0},
	.leaf_14_1 = CORE_14_1,
	.tsc_n = 171,
	.tsc_d = 3,
	.crystal_hz = HZ_19M,
	.errata = ERRATUM(APL12) | ERRATUM(APL11),
    },
    {
	.name = "goldmont-plus",
	.product = "Goldmont Plus, Atom of 2017: PTWRITE and power events",
	.cpu = {6, 0x7a, 1},
	.physical_bits = 39,
	.linear_bits = 48,
	.max_leaf = 0x18,
	.perfmon = 4,
	.nominal_ratio = 11,
	.pt = true,
	.xsaves = true,
	.vmx = true,
	.vmx_pt = true,
	.leaf_14_0 = {1, BASIC | PTW | PWR, ALL_OUT, 0},
	.leaf_14_1 = CORE_14_1,
	.tsc_n = 171,
	.tsc_d = 3,
	.crystal_hz = HZ_19M,
	.errata = ERRATUM(APL11),
    },
    {
	.name = "ice-lake",
	.product = "Ice Lake, 10th generation Core",
	.cpu = {6, 0x7e, 5},
	.physical_bits = 39,
	.linear_bits = 48,
	.max_leaf = 0x1b,
	.perfmon = 5,
	.nominal_ratio = 13,
	.pt = true,
	.xsaves = true,
	.vmx = true,
	.vmx_pt = true,
	.leaf_14_0 = {1, BASIC, ALL_OUT, 0},
	.leaf_14_1 = CORE_14_1,
	.tsc_n = 78,
	.tsc_d = 2,
	.crystal_hz = HZ_38M,
	.errata = ERRATUM(BDM70) | ERRATUM(SKL014) | ERRATUM(SKD022),
    },
    {
	.name = "tiger-lake",
	.product = "Tiger Lake, 11th generation Core",
	.cpu = {6, 0x8c, 1},
	.physical_bits = 39,
	.linear_bits = 48,
	.max_leaf = 0x1b,
	.perfmon = 5,
	.nominal_ratio = 24,
	.pt = true,
	.xsaves = true,
	.vmx = true,
	.vmx_pt = true,
	.leaf_14_0 = {1, BASIC | PSB_PMI, ALL_OUT, 0},
	.leaf_14_1 = {0x02490002, 0x003f1fff, 0, 0},
	.tsc_n = 126,
	.tsc_d = 2,
	.crystal_hz = HZ_38M,
	.errata = ERRATUM(BDM70) | ERRATUM(SKL014) | ERRATUM(SKD022),
    },
    {
	.name = "tremont",
	.product = "Tremont, Atom of 2020: PTWRITE and power events",
	.cpu = {6, 0x96, 1},
	.physical_bits = 39,
	.linear_bits = 48,
	.max_leaf = 0x1b,
	.perfmon = 5,
	.nominal_ratio = 20,
	.pt = true,
	.xsaves = true,
	.vmx = true,
	.vmx_pt = true,
	.leaf_14_0 = {1, BASIC | PTW | PWR, ALL_OUT, 0},
	.leaf_14_1 = CORE_14_1,
	.tsc_n = 104,
	.tsc_d = 2,
	.crystal_hz = HZ_38M,
	.errata = ERRATUM(APL11),
    },
    {
	.name = "alder-lake-p",
	.product = "Alder Lake, performance core: PTWRITE, PSB and PMI preserved",
	.cpu = {6, 0x97, 2},
	.core_type = 0x40,
	.physical_bits = 46,
	.linear_bits = 48,
	.max_leaf = 0x20,
	.perfmon = 5,
	.nominal_ratio = 32,
	.pt = true,
	.xsaves = true,
	.vmx = true,
	.vmx_pt = true,
	.leaf_14_0 = {1, BASIC | PTW | PSB_PMI, ALL_OUT, 0},
	.leaf_14_1 = CORE_14_1,
	.tsc_n = 166,
	.tsc_d = 2,
	.crystal_hz = HZ_38M,
	.errata = ERRATUM(BDM70) | ERRATUM(SKD022) | ERRATUM(APL11),
    },
    {
	.name = "alder-lake-e",
	.product = "Alder Lake, efficient core: what both kinds have in common",
	.cpu = {6, 0x97, 2},
	.core_type = 0x20,
	.physical_bits = 46,
	.linear_bits = 48,
	.max_leaf = 0x20,
	.perfmon = 5,
	.nominal_ratio = 24,
	.pt = true,
	.xsaves = true,
	.vmx = true,
	.vmx_pt = true,
	.leaf_14_0 = {1, BASIC | PTW | PSB_PMI, ALL_OUT, 0},
	.leaf_14_1 = CORE_14_1,
	.tsc_n = 166,
	.tsc_d = 2,
	.crystal_hz = HZ_38M,
	.errata = ERRATUM(BDM70) | ERRATUM(SKD022) | ERRATUM(APL11),
    },
    {
	.name = "arrow-lake-p",
	.product = "Arrow Lake, performance core: TNT may be off",
	.cpu = {6, 0xc6, 2},
	.core_type = 0x40,
	.physical_bits = 46,
	.linear_bits = 48,
	.max_leaf = 0x23,
	.perfmon = 6,
	.nominal_ratio = 42,
	.pt = true,
	.xsaves = true,
	.vmx = true,
	.vmx_pt = true,
	.leaf_14_0 = {1, BASIC | PTW | PSB_PMI | TNT, ALL_OUT, 0},
	.leaf_14_1 = {0x02490002, 0x003f003f, 0, 0},
	.tsc_n = 218,
	.tsc_d = 2,
	.crystal_hz = HZ_38M,
	.errata = ERRATUM(BDM70) | ERRATUM(SKD022) | ERRATUM(APL11),
    },
    {
	.name = "arrow-lake-e",
	.product = "Arrow Lake, efficient core: payloads are linear addresses",
	.cpu = {6, 0xc6, 2},
	.core_type = 0x20,
	.physical_bits = 46,
	.linear_bits = 48,
	.max_leaf = 0x23,
	.perfmon = 6,
	.nominal_ratio = 42,
	.pt = true,
	.xsaves = true,
	.vmx = true,
	.vmx_pt = true,
	.leaf_14_0 = {1, BASIC | PTW | PSB_PMI | TNT, ALL_OUT | LIP, 0},
	.leaf_14_1 = {0x02490002, 0x003f003f, 0, 0},
	.tsc_n = 218,
	.tsc_d = 2,
	.crystal_hz = HZ_38M,
	.errata = ERRATUM(BDM70) | ERRATUM(SKD022) | ERRATUM(APL11),
    },
    {
	.name = "sapphire-rapids",
	.product = "Sapphire Rapids, 4th generation Xeon: 5-level paging",
	.cpu = {6, 0x8f, 8},
	.physical_bits = 46,
	.linear_bits = 57,
	.max_leaf = 0x20,
	.perfmon = 5,
	.nominal_ratio = 20,
	.pt = true,
	.xsaves = true,
	.vmx = true,
	.vmx_pt = true,
	.leaf_14_0 = {1, BASIC | PTW | PSB_PMI, ALL_OUT, 0},
	.leaf_14_1 = CORE_14_1,
	.tsc_n = 160,
	.tsc_d = 2,
	.crystal_hz = HZ_25M,
	.errata = ERRATUM(BDM70) | ERRATUM(SKD022) | ERRATUM(SKZ84),
    },
    {
	.name = "minimal",
	.product = "No such part: one region of a table, and nothing else",
	.cpu = {6, 0xf0, 0},
	.physical_bits = 36,
	.linear_bits = 48,
	.max_leaf = 0x14,
	.perfmon = 2,
	.pt = true,
	.pmi_margin = 64,
	.leaf_14_0 = {0, 0, TOPA, 0},
    },
    {
	.name = "minimal-range",
	.product = "No such part: a single range, and nothing else",
	.cpu = {6, 0xf1, 0},
	.physical_bits = 36,
	.linear_bits = 48,
	.max_leaf = 0x14,
	.perfmon = 2,
	.pt = true,
	.leaf_14_0 = {0, 0, SINGLE, 0},
    },
    {
	.name = "maximal",
	.product = "No such part: everything that the SDM describes",
	.cpu = {6, 0xf2, 0},
	.physical_bits = 52,
	.linear_bits = 57,
	.max_leaf = 0x20,
	.perfmon = 5,
	.nominal_ratio = 30,
	.pt = true,
	.xsaves = true,
	.vmx = true,
	.vmx_pt = true,
	.leaf_14_0 = {1, BASIC | PTW | PWR | PSB_PMI | EVENT | TNT, ALL_OUT | FABRIC | LIP, 0},
	.leaf_14_1 = {0xffff0004, 0xffffffff, 0, 0},
	.tsc_n = 240,
	.tsc_d = 2,
	.crystal_hz = HZ_25M,
    },
    {
	.name = "none",
	.product = "Haswell, 4th generation Core: no Intel PT",
	.cpu = {6, 0x3c, 3},
	.physical_bits = 39,
	.linear_bits = 48,
	.max_leaf = 0x0d,
	.perfmon = 3,
	.nominal_ratio = 34,
	.vmx = true,
    },
};

static bool same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

const struct ptah_model_processor *ptah_model_named(size_t i)
{
	return i < ARRAY_SIZE(processors) ? &processors[i] : NULL;
}

const struct ptah_model_processor *ptah_model_find(const char *name)
{
	for (size_t i = 0; name && i < ARRAY_SIZE(processors); i++)
		if (same(processors[i].name, name))
			return &processors[i];
	return NULL;
}
