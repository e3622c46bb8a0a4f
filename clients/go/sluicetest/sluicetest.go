// SPDX-License-Identifier: Apache-2.0

// Package sluicetest starts Sluice nodes for tests of programs that use the package sluice.
//
//	func TestMail(t *testing.T) {
//		client := sluicetest.Node(t)
//		queue, err := client.Create(context.Background(), "mail", nil)
//		...
//		sluicetest.RunUntilEmpty(t, sluice.NewWorker(client, "mail", sendMail, nil))
//	}
package sluicetest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"sluice"
)

const stopTime = 10 * time.Second

// Process is a node that runs.
type Process struct {
	URL     string
	command *exec.Cmd
	ended   chan struct{}
}

// Start starts the program $SLUICE, or sluice, as a node with the store. The address may have the
// port 0, which chooses a free one. The node is stopped when the test ends.
func Start(t testing.TB, store, address string, arguments ...string) *Process {
	t.Helper()
	p, err := start(store, address, arguments...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

// StartNode starts a node whose store is in memory, for programs that are no tests. The caller
// calls stop.
func StartNode() (client *sluice.Client, stop func(), err error) {
	p, err := start("mem:", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	client, err = sluice.Open(p.URL, nil)
	return client, p.Stop, err
}

func start(store, address string, arguments ...string) (*Process, error) {
	program := os.Getenv("SLUICE")
	if program == "" {
		program = "sluice"
	}
	all := append([]string{"serve", "--json", "--store", store, "--listen", address}, arguments...)
	p := &Process{command: exec.Command(program, all...), ended: make(chan struct{})}
	if os.Getenv("SLUICE_TEST_LOG") != "" {
		p.command.Stderr = os.Stderr
	}
	// The node ends with the test, even if the test is killed.
	p.command.SysProcAttr = deathSignal()
	output, err := p.command.StdoutPipe()
	if err == nil {
		err = p.command.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("cannot start a node (%s): %w; set SLUICE to the program sluice", program, err)
	}
	reader := bufio.NewReader(output)
	line, err := reader.ReadBytes('\n')
	var first struct{ Address, Scheme string }
	if err == nil {
		err = json.Unmarshal(line, &first)
	}
	go func() {
		_, _ = io.Copy(io.Discard, reader)
		_ = p.command.Wait()
		close(p.ended)
	}()
	if err != nil {
		p.Stop()
		return nil, fmt.Errorf("the node has no address: %w", err)
	}
	p.URL = first.Scheme + "://" + first.Address
	return p, nil
}

// Kill ends the node at once.
func (p *Process) Kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}

// Pause stops the process of the node until Continue.
func (p *Process) Pause() { _ = p.command.Process.Signal(syscall.SIGSTOP) }

// Continue ends a pause.
func (p *Process) Continue() { _ = p.command.Process.Signal(syscall.SIGCONT) }

// Stop ends the node in order.
func (p *Process) Stop() {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(stopTime):
		p.Kill()
	}
}

// Node starts a node whose store is in memory, and returns a client of it. Both end with the test.
func Node(t testing.TB) *sluice.Client {
	t.Helper()
	return Client(t, Start(t, "mem:", "127.0.0.1:0").URL, nil)
}

// Client opens a client that is closed when the test ends.
func Client(t testing.TB, url string, options *sluice.Options) *sluice.Client {
	t.Helper()
	client, err := sluice.Open(url, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// RunUntilEmpty runs the workers until each finds no message that is ready, and has ended its jobs.
// It does not wait for delayed messages and retries.
func RunUntilEmpty(t testing.TB, workers ...*sluice.Worker) {
	t.Helper()
	for _, w := range workers {
		if err := w.RunUntilEmpty(context.Background()); err != nil {
			t.Fatalf("worker %s: %v", w.Name(), err)
		}
	}
}
