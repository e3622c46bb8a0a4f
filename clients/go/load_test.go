// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice"
	"sluice/api"
	"sluice/sluicetest"
)

const (
	loadParts  = 20
	loadFirst  = loadParts / 5 // by then the caches of the process are full
	loadPlaces = 32
	loadBatch  = 1000
	loadAhead  = 5 * loadBatch // messages that wait in the queue
	heapSpare  = 1 << 20       // of the live objects
	loadSpare  = 16 << 20      // of the resident memory, beside a fifth: the collector gives back late
)

type loadSample struct{ heap, resident, goroutines, threads int }

// procField returns a number of /proc/self/status.
func procField(t *testing.T, name string) int {
	t.Helper()
	text := must[[]byte](t)(os.ReadFile("/proc/self/status"))
	for _, line := range strings.Split(string(text), "\n") {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name+":" {
			return must[int](t)(strconv.Atoi(fields[1]))
		}
	}
	t.Fatalf("/proc/self/status has no %s", name)
	return 0
}

func takeLoadSample(t *testing.T) loadSample {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return loadSample{int(m.HeapAlloc), procField(t, "VmRSS") << 10, runtime.NumGoroutine(), procField(t, "Threads")}
}

// TestLoad gives many jobs to one worker. Memory, goroutines and threads of the process stay level
// after the first fifth. One job in ten has a result, one in a hundred fails, and one in a thousand
// shows its progress. clients/go/load runs it.
func TestLoad(t *testing.T) {
	jobs, err := strconv.Atoi(os.Getenv("SLUICE_LOAD"))
	if err != nil {
		t.Skip("clients/go/load runs it")
	}
	c := sluicetest.Client(t, sluicetest.Start(t, "file://"+t.TempDir(), "127.0.0.1:0").URL, &sluice.Options{Logger: quiet})
	q := newQueue(t, c, sluice.Settings{"failureStrategy.mode": "retry", "failureStrategy.maxRetries": 0})
	var done atomic.Int64
	began, batches := time.Now(), make(chan bool, jobs/loadBatch+1)
	var mutex sync.Mutex
	var samples []loadSample
	w := startWorker(t, sluice.NewWorker(c, "mail", func(_ context.Context, job *sluice.Job) (any, error) {
		n := int(done.Add(1))
		if n%1000 == 0 {
			job.Progress(50, "half way")
		}
		if n%loadBatch == 0 {
			batches <- true
		}
		if n%(jobs/loadParts) == 0 {
			s := takeLoadSample(t)
			mutex.Lock()
			samples = append(samples, s)
			mutex.Unlock()
			t.Logf("%d jobs, %.0f jobs/s, %d KiB live, %d KiB resident, %d goroutines, %d threads", n,
				float64(n)/time.Since(began).Seconds(), s.heap>>10, s.resident>>10, s.goroutines, s.threads)
		}
		if n%100 == 0 {
			return nil, errors.New("it is one in a hundred")
		}
		if n%10 == 0 {
			return object{"n": n}, nil
		}
		return nil, nil
	}, &sluice.WorkerOptions{Concurrency: loadPlaces}))
	for at := 0; at < jobs; at += loadBatch {
		if at > loadAhead {
			<-batches
		}
		part := make([]sluice.Message, loadBatch)
		for i := range part {
			part[i].Body = object{"n": at + i}
		}
		must[[]sluice.Sent](t)(q.SendMany(ctx, part))
	}
	stats := must[*api.Stats](t)(q.Stats(ctx))
	for stats.Ready+stats.Locked > 0 {
		time.Sleep(20 * time.Millisecond) // the node has no call that waits for an empty queue
		stats = must[*api.Stats](t)(q.Stats(ctx))
	}
	w.stop()
	if err := w.wait(t); err != nil {
		t.Fatal(err)
	}
	if failed := int64(jobs / 100); stats.Processed != int64(jobs)-failed || stats.Dead != failed {
		t.Errorf("%d jobs: %d are processed, %d are dead", jobs, stats.Processed, stats.Dead)
	}
	checkLevel(t, samples)
}

func checkLevel(t *testing.T, samples []loadSample) {
	first := samples[loadFirst-1]
	for i, s := range samples[loadFirst:] {
		if s.heap > first.heap+heapSpare || s.resident > first.resident*6/5+loadSpare {
			t.Errorf("part %d: memory grows from %+v to %+v", loadFirst+i, first, s)
		}
		if s.goroutines > first.goroutines+2*loadPlaces || s.threads > first.threads+2 {
			t.Errorf("part %d: threads grow from %+v to %+v", loadFirst+i, first, s)
		}
	}
}
