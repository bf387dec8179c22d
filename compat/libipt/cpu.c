/* SPDX-License-Identifier: MIT */
/* pt_cpu_*: which errata a processor has. */
#include <ptah/base.h>

#include <intel-pt.h>

int pt_cpu_errata(struct pt_errata *errata, const struct pt_cpu *cpu)
{
	uint32_t bits;

	if (!errata || !cpu)
		return -pte_invalid;
	memset(errata, 0, sizeof(*errata));
	if (cpu->vendor != pcv_intel)
		return -pte_bad_cpu;
	bits = ptah_cpu_errata(&(struct ptah_cpu){cpu->family, cpu->model, cpu->stepping});
	if (!bits) /* every known processor has some */
		return -pte_bad_cpu;
	errata->bdm70 = bits >> PTAH_ERRATUM_BDM70 & 1;
	errata->bdm64 = bits >> PTAH_ERRATUM_BDM64 & 1;
	errata->skd007 = bits >> PTAH_ERRATUM_SKD007 & 1;
	errata->skd022 = bits >> PTAH_ERRATUM_SKD022 & 1;
	errata->skd010 = bits >> PTAH_ERRATUM_SKD010 & 1;
	errata->skl014 = bits >> PTAH_ERRATUM_SKL014 & 1;
	errata->apl12 = bits >> PTAH_ERRATUM_APL12 & 1;
	errata->apl11 = bits >> PTAH_ERRATUM_APL11 & 1;
	errata->skl168 = bits >> PTAH_ERRATUM_SKL168 & 1;
	errata->skz84 = bits >> PTAH_ERRATUM_SKZ84 & 1;
	return 0;
}
