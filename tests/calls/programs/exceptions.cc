/* SPDX-License-Identifier: MIT */
/*
 * C++ exceptions: many, through several frames, nested, thrown again, out of constructors and
 * destructors, and carried from thread to thread. gcc logs the end of every function that an
 * exception leaves.
 */
#include "call_log.h"

#include <exception>
#include <functional>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static volatile unsigned sum;

struct guard {
	unsigned n;
	NOINLINE explicit guard(unsigned value) : n(value)
	{
		sum = sum + n;
	}
	NOINLINE ~guard()
	{
		sum = sum - n;
	}
};

NOINLINE static unsigned leaf(unsigned n)
{
	if (n % 3 == 1)
		throw n;
	if (n % 3 == 2)
		throw std::runtime_error(std::to_string(n));
	throw std::out_of_range("none");
}

NOINLINE static unsigned frames(unsigned depth, unsigned n)
{
	if (!depth)
		return leaf(n);
	if (depth % 2) {
		guard kept(depth);
		return frames(depth - 1, n) + kept.n;
	}
	return frames(depth - 1, n) + 1;
}

NOINLINE static void many()
{
	for (unsigned i = 0; i < 300; i++) {
		try {
			sum = sum + frames(i % 9, i);
		} catch (unsigned n) {
			sum = sum + n;
		} catch (const std::exception &e) {
			sum = sum + (e.what()[0] != 0);
		}
	}
}

/* Destructors that throw and catch while another exception is on its way. */
struct busy {
	NOINLINE ~busy()
	{
		try {
			guard kept(1);
			leaf(1);
		} catch (unsigned) {
			sum = sum + 1;
		}
	}
};

NOINLINE static void nested(unsigned n)
{
	busy one, two;

	if (!n)
		leaf(2);
	nested(n - 1);
}

NOINLINE static void again(unsigned n)
{
	try {
		if (n)
			again(n - 1);
		else
			leaf(0);
	} catch (const std::out_of_range &) {
		guard kept(n);
		throw;
	}
}

NOINLINE static void translated(unsigned n)
{
	try {
		leaf(n);
	} catch (...) {
		std::throw_with_nested(std::logic_error("around"));
	}
}

struct part {
	NOINLINE explicit part(bool fails)
	{
		if (fails)
			leaf(1);
	}
	NOINLINE ~part()
	{
		sum = sum + 1;
	}
};

struct whole {
	part first, second;
	std::string name;
	NOINLINE explicit whole(unsigned n)
	try : first(n == 0), second(n == 1), name(40, 'x') {
		if (n == 2)
			leaf(1);
	} catch (unsigned) {
		sum = sum + 2;
	}
};

NOINLINE static void constructors()
{
	for (unsigned i = 0; i < 4; i++) {
		try {
			whole made(i);
			std::vector<whole> two;
			two.emplace_back(3u);
			two.emplace_back(i);
		} catch (unsigned n) {
			sum = sum + n;
		}
	}
}

NOINLINE static void threads()
{
	std::exception_ptr carried;

	std::thread([&carried] {
		try {
			frames(5, 2);
		} catch (...) {
			carried = std::current_exception();
		}
	}).join();
	try {
		std::rethrow_exception(carried);
	} catch (const std::exception &e) {
		sum = sum + (e.what()[0] != 0);
	}
}

/* The end of a thread is an exception that every function must let through. */
NOINLINE static void leave(unsigned n)
{
	guard kept(n);

	if (!n)
		pthread_exit(nullptr);
	if (n % 2) {
		guard second(2);
		leave(n - 1);
	} else {
		leave(n - 1);
	}
	sum = sum + 1;
}

NOINLINE static void *leaves(void *argument)
{
	guard kept(7);

	leave(6);
	return argument;
}

NOINLINE static void forced()
{
	pthread_t thread;

	if (!pthread_create(&thread, nullptr, leaves, nullptr))
		pthread_join(thread, nullptr);
}

/* Several handlers in one function, and a handler in each of a function's calls of itself. */

NOINLINE static void throws(unsigned what)
{
	if (what == 1)
		throw 1;
	if (what == 2)
		throw 2L;
	if (what == 3)
		throw "three";
}

NOINLINE static unsigned layers(unsigned what)
{
	try {
		guard one(1);
		try {
			guard two(2);
			try {
				guard three(3);
				throws(what);
			} catch (int) {
				sum = sum + 1;
				throw;
			}
		} catch (long) {
			guard four(4);
			throws(1);
		}
	} catch (int) {
		return 1;
	} catch (...) {
		return 2;
	}
	return 0;
}

NOINLINE static unsigned recursive(unsigned n)
{
	try {
		guard kept(n);

		if (!n)
			throws(1);
		return recursive(n - 1);
	} catch (int) {
		guard other(5);

		if (n < 3)
			throw;
		return n;
	}
}

struct base {
	virtual unsigned run(unsigned n) = 0;
	virtual ~base()
	{
	}
};

struct derived : base {
	std::function<unsigned(unsigned)> work;
	explicit derived(std::function<unsigned(unsigned)> given) : work(std::move(given))
	{
	}
	unsigned run(unsigned n) override
	{
		guard kept(n);
		return work(n);
	}
};

NOINLINE static void virtuals()
{
	derived fails([](unsigned n) { return leaf(n); });
	base *object = &fails;

	for (unsigned i = 0; i < 6; i++) {
		try {
			object->run(i);
		} catch (...) {
			sum = sum + 1;
		}
	}
}

template <typename function> NOINLINE static void caught(function run)
{
	try {
		run();
	} catch (...) {
		sum = sum + 1;
	}
}

int main()
{
	many();
	caught([] { nested(3); });
	caught([] { again(4); });
	caught([] { translated(0); });
	caught([] {
		caught([] { leaf(1); });
		leaf(2);
	});
	constructors();
	threads();
	virtuals();
	forced();
	for (unsigned what = 0; what < 4; what++)
		sum = sum + layers(what);
	sum = sum + recursive(4);
	caught([] { frames(200, 1); });
	return 0;
}
