// SPDX-License-Identifier: Apache-2.0

// Bench measures the Go client: go run ./bench URL MESSAGES PLACES...
//
// It prints a JSON line after each part: sends in batches of 1,000, then a worker with so many
// places. tools/bench-clients runs it beside the others.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"sluice"
)

type row struct {
	Part    string  `json:"part"`
	Count   int     `json:"count"`
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"`
	Memory  int     `json:"memory"`
	Threads int     `json:"threads"` // goroutines
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func cpu() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func report(part string, count int, began time.Time, used float64) {
	text, err := os.ReadFile("/proc/self/statm")
	check(err)
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	check(err)
	line, _ := json.Marshal(row{part, count, time.Since(began).Seconds(), cpu() - used, pages * os.Getpagesize(),
		runtime.NumGoroutine()})
	fmt.Println(string(line))
}

func send(q *sluice.Queue, count int) {
	for count > 0 {
		part := make([]sluice.Message, 1000)
		if count < len(part) {
			part = part[:count]
		}
		for i := range part {
			part[i].Body = strings.Repeat("x", 300)
		}
		_, err := q.SendMany(context.Background(), part)
		check(err)
		count -= len(part)
	}
}

func work(c *sluice.Client, queue string, places, count int) {
	ctx, cancel := context.WithCancel(context.Background())
	left := int64(count)
	check(sluice.NewWorker(c, queue, func(context.Context, *sluice.Job) (any, error) {
		if atomic.AddInt64(&left, -1) == 0 {
			cancel()
		}
		return nil, nil
	}, &sluice.WorkerOptions{Concurrency: places}).Run(ctx))
}

func main() {
	count, err := strconv.Atoi(os.Args[2])
	check(err)
	c, err := sluice.Open(os.Args[1], nil)
	check(err)
	q, err := c.Create(context.Background(), "bench-go", nil)
	check(err)
	for _, text := range os.Args[3:] {
		places, err := strconv.Atoi(text)
		check(err)
		began, used := time.Now(), cpu()
		send(q, count)
		report("send", count, began, used)
		began, used = time.Now(), cpu()
		work(c, q.Name, places, count)
		report("work "+text, count, began, used)
	}
}
