// SPDX-License-Identifier: MIT

// Go's stacks, which are copied when they grow, panics that are recovered, deferred functions,
// goroutines and channels. Only the functions of the first goroutine, which keeps its thread, have a
// log. It has the format of call_log.h.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"sync"
	"syscall"
)

const (
	enter  = uint64(0) << 56
	exit   = uint64(1) << 56
	unwind = uint64(3) << 56
)

var entries [1 << 16]uint64
var count int

//go:noinline
func add(entry uint64) {
	entries[count] = entry
	count++
}

//go:noinline
func calls_enter(function uint64) { add(enter | function) }

//go:noinline
func calls_exit(function uint64) { add(exit | function) }

func address(function any) uint64 { return uint64(reflect.ValueOf(function).Pointer()) }

var deep_, grow_, fails_, recovers_, deferred_, talks_, sorts_ uint64

//go:noinline
func deep(n int) int {
	calls_enter(deep_)
	result := 0
	if n > 0 {
		result = deep(n-1) + 1
	}
	calls_exit(deep_)
	return result
}

// A frame of four kilobytes: the stack is copied to a larger one again and again.
//
//go:noinline
func grow(n int) int {
	calls_enter(grow_)
	var room [512]int
	room[n%512] = n
	if n > 0 {
		room[n%512] += grow(n - 1)
	}
	calls_exit(grow_)
	return room[n%512]
}

//go:noinline
func fails(n int) int {
	calls_enter(fails_)
	if n == 0 {
		panic("none")
	}
	result := fails(n-1) + 1
	calls_exit(fails_)
	return result
}

//go:noinline
func deferred() {
	calls_enter(deferred_)
	deep(1)
	calls_exit(deferred_)
}

//go:noinline
func recovers(n int) (result int) {
	calls_enter(recovers_)
	mark := uint64(count)
	defer func() {
		if recover() != nil {
			add(unwind | mark)
			result = 7
		}
		calls_exit(recovers_)
	}()
	if n%2 == 0 {
		return deep(n)
	}
	return fails(n)
}

// Other goroutines run on other threads, which have no log.
//
//go:noinline
func talks(n int) int {
	calls_enter(talks_)
	var group sync.WaitGroup
	results := make(chan int)
	for i := 0; i < n; i++ {
		group.Add(1)
		go func(i int) { results <- i * i; group.Done() }(i)
	}
	sum := 0
	for i := 0; i < n; i++ {
		sum += <-results + deep(1)
	}
	group.Wait()
	calls_exit(talks_)
	return sum
}

func write() {
	var out bytes.Buffer
	fmt.Fprintf(&out, "object 0 \n")
	fmt.Fprintf(&out, "tid %d %d\n", syscall.Gettid(), count)
	binary.Write(&out, binary.LittleEndian, entries[:count])
	os.WriteFile(fmt.Sprintf("%s.%d", os.Getenv("CALL_LOG"), os.Getpid()), out.Bytes(), 0o644)
}

func main() {
	runtime.LockOSThread()
	deep_, grow_, fails_ = address(deep), address(grow), address(fails)
	recovers_, deferred_, talks_ = address(recovers), address(deferred), address(talks)
	sum := deep(5) + grow(40) + deep(3)
	for i := 0; i < 20; i++ {
		sum += recovers(i)
		func() {
			defer deferred()
			sum += deep(2)
		}()
	}
	sum += talks(6) + grow(90)
	runtime.GC()
	sum += deep(4)
	if sum > 0 {
		write()
	}
}
