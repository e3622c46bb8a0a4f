// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/api"
	"sluice/sluicetest"
)

const (
	stormJobs    = 200
	shortJobs    = 60
	stormLease   = 3 * time.Second
	stormWorkers = 3
)

// A line of the storm's log: what a worker's handler does. The clock is that of the machine.
type stormLine struct {
	What string // begin, end, told (its context ended), killed
	ID   string
	Pid  int
	At   int64 // microseconds
}

type stormLog struct{ file *os.File }

func openStormLog(path string) (stormLog, error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return stormLog{file}, err
}

func (l stormLog) add(what, id string, pid int) {
	line, _ := json.Marshal(stormLine{what, id, pid, time.Now().UnixMicro()})
	_, _ = l.file.Write(append(line, '\n')) // one write, so lines of several processes do not mix
}

// stormWorker is the main function of a worker process.
func stormWorker(url, path string) error {
	l, err := openStormLog(path)
	if err != nil {
		return err
	}
	c, err := sluice.Open(url, &sluice.Options{Logger: quiet})
	if err != nil {
		return err
	}
	return sluice.NewWorker(c, "storm", func(ctx context.Context, job *sluice.Job) (any, error) {
		l.add("begin", job.ID, os.Getpid())
		if string(job.Bytes()) == "block" { // it does not listen to its context
			time.Sleep(3 * stormLease)
		} else {
			select {
			case <-time.After(time.Duration(20+rand.Intn(200)) * time.Millisecond):
			case <-ctx.Done():
				l.add("told", job.ID, os.Getpid())
				return nil, job.Err()
			}
		}
		l.add("end", job.ID, os.Getpid())
		if rand.Intn(4) == 0 {
			return "a result", nil
		}
		return nil, nil
	}, &sluice.WorkerOptions{Concurrency: 4}).RunUntilSignal()
}

type stormProcess struct {
	*exec.Cmd
	ended chan struct{}
}

func startStormWorker(t *testing.T, url, path string) *stormProcess {
	p := &stormProcess{exec.Command(os.Args[0]), make(chan struct{})}
	p.Env = append(os.Environ(), "GO_STORM_WORKER="+url, "GO_STORM_LOG="+path)
	p.Stdout, p.Stderr = os.Stdout, os.Stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.ended
	})
	return p
}

func readStormLog(t *testing.T, path string) (lines []stormLine) {
	file := must[*os.File](t)(os.Open(path))
	defer file.Close()
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		var line stormLine
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v", scanner.Text(), err)
		}
		lines = append(lines, line)
	}
	return lines
}

// TestStorm kills the node every 2 s and a worker every 1.5 s. Nothing may be lost, acked twice, or
// at two workers at a time. clients/go/storm runs it.
func TestStorm(t *testing.T) {
	if os.Getenv("SLUICE_STORM") == "" {
		t.Skip("clients/go/storm runs it")
	}
	jobs, kills := stormJobs, 3
	if testing.Short() {
		jobs, kills = shortJobs, 1
	}
	store, path := "file://"+t.TempDir(), filepath.Join(t.TempDir(), "log")
	l := must[stormLog](t)(openStormLog(path))
	node := sluicetest.Start(t, store, "127.0.0.1:0")
	c := sluicetest.Client(t, node.URL, &sluice.Options{Logger: quiet})
	q := must[*sluice.Queue](t)(c.Create(ctx, "storm", sluice.Settings{"visibilityTimeout": stormLease,
		"failureStrategy.maxRetries": 1000, "failureStrategy.backoff.initial": "10ms"}))
	block := must[*sluice.Sent](t)(q.Send(ctx, "block", nil)).ID
	var workers []*stormProcess
	for i := 0; i < stormWorkers; i++ {
		workers = append(workers, startStormWorker(t, node.URL, path))
	}

	over, killed := make(chan bool), make(chan int)
	url := node.URL
	go func() { // the node
		count := 0
		for {
			select {
			case <-over:
				killed <- count
				return
			case <-time.After(2 * time.Second):
			}
			node.Kill()
			count++
			node = sluicetest.Start(t, store, strings.TrimPrefix(url, "http://"))
		}
	}()
	sent := make(chan []string)
	go func() { // the sender
		var ids []string
		for i := 0; i < jobs; i++ {
			s, err := q.Send(ctx, i, nil)
			if err != nil {
				t.Errorf("send %d: %v", i, err)
				break
			}
			ids = append(ids, s.ID)
			time.Sleep(70 * time.Millisecond) // the storm lasts for several kills
		}
		sent <- ids
	}()
	var ids []string
	workerKills := 0
	for ids == nil {
		select {
		case ids = <-sent:
		case <-time.After(1500 * time.Millisecond):
			i := rand.Intn(len(workers))
			if runsBlock(readStormLog(t, path), block, workers[i].Process.Pid) {
				continue // its handler blocks for three lease times
			}
			_ = workers[i].Process.Kill()
			<-workers[i].ended
			l.add("killed", "", workers[i].Process.Pid)
			workerKills++
			workers[i] = startStormWorker(t, url, path)
		}
	}
	ids = append(ids, block)
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	results, err := q.Collect(limited, ids)
	for errors.Is(err, sluice.ErrUnavailable) && limited.Err() == nil { // the node is killed while it waits
		results, err = q.Collect(limited, ids)
	}
	close(over)
	nodeKills := <-killed
	attempts := checkOneWorkerAtATime(t, readStormLog(t, path), block)
	if err != nil {
		t.Fatalf("not all messages ended: %v", err)
	}
	for _, r := range results {
		if r.State != "processed" {
			t.Errorf("%s is %s", r.ID, r.State)
		}
	}
	checkProcessedOnce(t, q, ids)
	t.Logf("%d jobs, %d attempts, the node was killed %d times, workers %d times", len(ids), attempts, nodeKills, workerKills)
	if nodeKills < kills || workerKills < kills {
		t.Errorf("that was no storm")
	}
}

func runsBlock(lines []stormLine, block string, pid int) bool {
	runs := false
	for _, line := range lines {
		if line.ID == block && line.Pid == pid {
			runs = line.What == "begin"
		}
	}
	return runs
}

func checkProcessedOnce(t *testing.T, q *sluice.Queue, ids []string) {
	stats := must[*api.Stats](t)(q.Stats(ctx))
	if stats.Sent != int64(len(ids)) || stats.Processed != int64(len(ids)) {
		t.Errorf("%d messages: %d were sent, %d were processed", len(ids), stats.Sent, stats.Processed)
	}
	limited, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	events := q.Events(limited, &sluice.EventOptions{Types: []string{"message-outcome"}})
	defer events.Close()
	processed := map[string]int{}
	for len(processed) < len(ids) {
		event, err := events.Next()
		if err != nil {
			t.Fatalf("%d of %d outcomes came: %v", len(processed), len(ids), err)
		}
		var data api.Event
		if err := event.Decode(&data); err != nil {
			t.Fatal(err)
		}
		if data.Status == "processed" {
			processed[data.Message]++
		}
	}
	for id, count := range processed {
		if count != 1 {
			t.Errorf("%s was acked %d times", id, count)
		}
	}
}

// checkOneWorkerAtATime compares the times at which handlers ran. A handler ends when it returns,
// when its context ends, or with its process.
func checkOneWorkerAtATime(t *testing.T, lines []stormLine, block string) (attempts int) {
	sort.SliceStable(lines, func(i, k int) bool { return lines[i].At < lines[k].At })
	holder := map[string]int{} // of a message: the process
	whole := false
	begun := int64(0)
	for _, line := range lines {
		switch line.What {
		case "begin":
			attempts++
			if pid := holder[line.ID]; pid != 0 {
				t.Errorf("%s is at the workers %d and %d", line.ID, pid, line.Pid)
			}
			holder[line.ID] = line.Pid
			if line.ID == block {
				begun = line.At
			}
		case "end", "told":
			delete(holder, line.ID)
			if line.ID == block && line.What == "end" {
				whole = line.At-begun >= (3 * stormLease).Microseconds()
			}
		case "killed":
			for id, pid := range holder {
				if pid == line.Pid {
					delete(holder, id)
				}
			}
		}
	}
	if !whole {
		t.Errorf("no handler blocked for three lease times")
	}
	return attempts
}

func init() {
	if url := os.Getenv("GO_STORM_WORKER"); url != "" {
		if err := stormWorker(url, os.Getenv("GO_STORM_LOG")); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}
