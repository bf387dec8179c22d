/* SPDX-License-Identifier: MIT */
/*
 * The program of understanding.md: reads 300 orders, prices and stores them. Number 217 is slow,
 * and with the argument "crash" the last one is shipped to nowhere.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ORDERS 300
#define SLOTS  64

struct order {
	char customer[16];
	unsigned items, price;
	const char *address;
	struct order *next;
};

static struct order orders[ORDERS];
static struct order *table[SLOTS];
static unsigned seed = 1;

static unsigned next_random(void)
{
	seed = seed * 1103515245 + 12345;
	return seed >> 16;
}

static void parse(struct order *o, unsigned number)
{
	char text[64];

	snprintf(text, sizeof(text), "c%u,%u", number % 40, 1 + next_random() % 9);
	*strchr(text, ',') = '\0';
	strcpy(o->customer, text);
	o->items = (unsigned)atoi(text + strlen(text) + 1);
	o->address = "1 Main Street";
}

/* Whether an item is on sale is a matter of luck: the processor cannot predict this branch. */
static void price(struct order *o)
{
	o->price = 0;
	for (unsigned i = 0; i < o->items * 10; i++) {
		if (next_random() & 1)
			o->price += 7;
		else
			o->price += 10;
	}
}

static unsigned hash(const char *text)
{
	unsigned h = 5381;

#ifdef FASTER
	for (; *text; text++)
		h = h * 33 + (unsigned char)*text;
#else
	for (size_t i = 0; i < strlen(text); i++)
		h = h * 33 + (unsigned char)text[i];
#endif
	return h;
}

static void store(struct order *o, unsigned number)
{
	struct order **slot = &table[hash(o->customer) % SLOTS];

	/* Everything is sorted once, by hand. */
	if (number == 217)
		for (unsigned i = 0; i < ORDERS; i++)
			for (unsigned k = 0; k + 1 < ORDERS; k++)
				if (orders[k].price > orders[k + 1].price)
					orders[k].next = orders[k + 1].next;
	o->next = *slot;
	*slot = o;
}

static unsigned ship(const struct order *o)
{
	return (unsigned)o->address[0] + o->price;
}

static unsigned handle(unsigned number)
{
	struct order *o = &orders[number];

	parse(o, number);
	price(o);
	store(o, number);
	return ship(o);
}

int main(int argc, char **argv)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < ORDERS; i++)
		sum += handle(i);
	if (argc > 1 && !strcmp(argv[1], "crash")) {
		orders[ORDERS - 1].address = NULL;
		sum += ship(&orders[ORDERS - 1]);
	}
	printf("%u\n", sum);
	return 0;
}
