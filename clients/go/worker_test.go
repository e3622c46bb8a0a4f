// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice"
	"sluice/api"
	"sluice/sluicetest"
)

var quiet = log.New(io.Discard, "", 0)

// running is a worker that runs in the background.
type running struct {
	*sluice.Worker
	stop  context.CancelFunc
	ended chan error
}

func startWorker(t testing.TB, w *sluice.Worker) *running {
	run, stop := context.WithCancel(ctx)
	r := &running{w, stop, make(chan error, 1)}
	go func() { r.ended <- w.Run(run) }()
	t.Cleanup(func() {
		stop()
		w.StopNow()
	})
	return r
}

func (r *running) wait(t testing.TB) error {
	t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(40 * time.Second):
		t.Fatal("the worker did not end")
		return nil
	}
}

func node(t testing.TB) (*sluicetest.Process, *sluice.Client) {
	p := sluicetest.Start(t, "mem:", "127.0.0.1:0")
	return p, sluicetest.Client(t, p.URL, &sluice.Options{Logger: quiet})
}

func TestAWorkerDoesJobsAndReturnsResults(t *testing.T) {
	_, c := node(t)
	q := newQueue(t, c, nil)
	var messages []sluice.Message
	for i := 0; i < 50; i++ {
		messages = append(messages, sluice.Message{Body: i})
	}
	sent := must[[]sluice.Sent](t)(q.SendMany(ctx, messages))
	startWorker(t, sluice.NewWorker(c, "mail", func(_ context.Context, job *sluice.Job) (any, error) {
		var n int
		err := job.Decode(&n)
		return object{"twice": 2 * n}, err
	}, &sluice.WorkerOptions{Concurrency: 8}))
	var ids []string
	for _, s := range sent {
		ids = append(ids, s.ID)
	}
	for i, result := range must[[]*sluice.Result](t)(q.Collect(ctx, ids)) {
		var value struct{ Twice int }
		if err := result.Decode(&value); err != nil || value.Twice != 2*i || result.State != "processed" {
			t.Errorf("result %d is %+v (%v)", i, result.Ended, err)
		}
	}
}

func TestAWorkerGoesOnWhenANodeDies(t *testing.T) {
	t.Parallel()
	store := "file://" + t.TempDir()
	a, b := sluicetest.Start(t, store, "127.0.0.1:0"), sluicetest.Start(t, store, "127.0.0.1:0")
	c := sluicetest.Client(t, a.URL+","+strings.TrimPrefix(b.URL, "http://"), &sluice.Options{Logger: quiet})
	q := newQueue(t, c, sluice.Settings{"shards": 4})
	var messages []sluice.Message
	for i := 0; i < 60; i++ {
		messages = append(messages, sluice.Message{Body: i})
	}
	var ids []string
	for _, sent := range must[[]sluice.Sent](t)(q.SendMany(ctx, messages)) {
		ids = append(ids, sent.ID)
	}
	var done atomic.Int32
	startWorker(t, sluice.NewWorker(c, "mail", func(context.Context, *sluice.Job) (any, error) {
		if done.Add(1) == 20 {
			a.Kill()
		}
		return nil, nil
	}, &sluice.WorkerOptions{Concurrency: 2}))
	for _, result := range must[[]*sluice.Result](t)(q.Collect(ctx, ids)) {
		if result.State != "processed" || result.Attempts != 1 {
			t.Errorf("%s is %s after %d attempts", result.ID, result.State, result.Attempts)
		}
	}
}

func TestAnErrorFailsTheJob(t *testing.T) {
	_, c := node(t)
	q := newQueue(t, c, sluice.Settings{"failureStrategy.maxRetries": 1, "failureStrategy.backoff.initial": "0ms"})
	id := must[*sluice.Sent](t)(q.Send(ctx, "x", nil)).ID
	startWorker(t, sluice.NewWorker(c, "mail", func(_ context.Context, job *sluice.Job) (any, error) {
		if job.Attempt == 1 {
			return nil, errors.New("disk full")
		}
		panic("no more")
	}, nil))
	_, err := q.Result(ctx, id)
	if err == nil || !strings.Contains(err.Error(), "ended as dead: panic: no more") {
		t.Errorf("the error is %v", err)
	}
	m := must[*api.Message](t)(q.Show(ctx, id))
	if len(m.Failures) != 2 || m.Failures[0].Reason != "disk full" {
		t.Errorf("the failures are %+v", m.Failures)
	}
}

func TestASnoozeCountsNoAttempt(t *testing.T) {
	_, c := node(t)
	q := newQueue(t, c, nil)
	id := must[*sluice.Sent](t)(q.Send(ctx, "x", nil)).ID
	var calls atomic.Int32
	startWorker(t, sluice.NewWorker(c, "mail", func(_ context.Context, job *sluice.Job) (any, error) {
		if calls.Add(1) < 3 {
			return nil, fmt.Errorf("not yet: %w", sluice.Snooze(time.Millisecond))
		}
		return job.Attempt, nil
	}, nil))
	var attempt int
	if err := must[*sluice.Result](t)(q.Result(ctx, id)).Decode(&attempt); err != nil || attempt != 1 {
		t.Errorf("the attempt is %d (%v)", attempt, err)
	}
}

func TestAHandlerThatBlocksKeepsItsLock(t *testing.T) {
	t.Parallel()
	_, c := node(t)
	q := newQueue(t, c, sluice.Settings{"visibilityTimeout": "600ms"})
	id := must[*sluice.Sent](t)(q.Send(ctx, "x", nil)).ID
	var begun atomic.Int32
	for i := 0; i < 2; i++ { // the second worker would get the message
		startWorker(t, sluice.NewWorker(c, "mail", func(_ context.Context, job *sluice.Job) (any, error) {
			begun.Add(1)
			time.Sleep(1800 * time.Millisecond) // three lease times
			return job.Attempt, nil
		}, nil))
	}
	var attempt int
	if err := must[*sluice.Result](t)(q.Result(ctx, id)).Decode(&attempt); err != nil || attempt != 1 || begun.Load() != 1 {
		t.Errorf("attempt %d, %d handlers (%v)", attempt, begun.Load(), err)
	}
}

func TestALostLockEndsTheContextAndSendsNoOutcome(t *testing.T) {
	p, direct := node(t)
	proxy, record := recordingProxy(t, p.URL)
	c := sluicetest.Client(t, proxy, &sluice.Options{Logger: quiet})
	q := newQueue(t, c, sluice.Settings{"visibilityTimeout": "300ms"})
	id := must[*sluice.Sent](t)(q.Send(ctx, "x", nil)).ID
	type lost struct {
		err   error
		token string
	}
	got := make(chan lost, 1)
	startWorker(t, sluice.NewWorker(c, "mail", func(ctx context.Context, job *sluice.Job) (any, error) {
		if job.ID != id {
			return "done", nil
		}
		// Another holder of the token gives the message away.
		_, err := direct.API().ReleaseMessages(context.Background(), &api.ReleaseMessagesRequest{Queue: "mail",
			Token: job.Token, Delay: api.Duration(time.Hour)})
		if err != nil {
			return nil, err
		}
		<-ctx.Done()
		got <- lost{job.Err(), job.Token}
		return "done", nil
	}, nil))
	x := <-got
	if x.err != sluice.ErrLockLost {
		t.Errorf("the reason is %v", x.err)
	}
	// Outcomes travel in the order of their jobs. That of a second job shows that the first had none.
	second := must[*sluice.Sent](t)(q.Send(ctx, "y", nil)).ID
	must[*sluice.Result](t)(q.Result(ctx, second))
	if m := must[*api.Message](t)(q.Show(ctx, id)); m.State != "delayed" || record.has(x.token, "ack", "fail", "release") {
		t.Errorf("the message is %s, or its outcome was sent", m.State)
	}
}

func TestAHandlerIsToldBeforeItsLockEnds(t *testing.T) {
	p, c := node(t)
	q := newQueue(t, c, sluice.Settings{"visibilityTimeout": "1s"})
	must[*sluice.Sent](t)(q.Send(ctx, "x", nil))
	type told struct{ deadline, at time.Time }
	got := make(chan told, 1)
	startWorker(t, sluice.NewWorker(c, "mail", func(ctx context.Context, job *sluice.Job) (any, error) {
		p.Pause() // no renewal is answered from now on
		<-ctx.Done()
		got <- told{time.UnixMilli(job.Deadline), time.Now()}
		return nil, nil
	}, nil))
	x := <-got
	p.Continue()
	if left := x.deadline.Sub(x.at); left <= 0 || left > 500*time.Millisecond {
		t.Errorf("the handler was told %v before the deadline", left)
	}
}

func TestAnInterruptEndsTheContextAndTheMessage(t *testing.T) {
	_, c := node(t)
	q := newQueue(t, c, nil)
	id := must[*sluice.Sent](t)(q.Send(ctx, "x", nil)).ID
	begun, got := make(chan bool), make(chan error, 1)
	startWorker(t, sluice.NewWorker(c, "mail", func(ctx context.Context, job *sluice.Job) (any, error) {
		close(begun)
		<-ctx.Done()
		got <- job.Err()
		return "its outcome is not sent", nil
	}, nil))
	<-begun
	if err := q.Interrupt(ctx, id, "wrong input", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != sluice.ErrInterrupted {
		t.Errorf("the reason is %v", err)
	}
	_, err := q.Result(ctx, id)
	var end *sluice.EndError
	if !errors.As(err, &end) || end.Result.State != "cancelled" {
		t.Errorf("the error is %v", err)
	}
}

func TestSignalsReachTheHandler(t *testing.T) {
	_, c := node(t)
	q := newQueue(t, c, nil)
	id := must[*sluice.Sent](t)(q.Send(ctx, "x", nil)).ID
	begun := make(chan bool)
	startWorker(t, sluice.NewWorker(c, "mail", func(ctx context.Context, job *sluice.Job) (any, error) {
		close(begun)
		var steer struct{ Pace int }
		for {
			select {
			case <-ctx.Done():
				return nil, job.Err()
			case s := <-job.Signals():
				switch s.Kind {
				case "steer":
					if err := s.Decode(&steer); err != nil {
						return nil, err
					}
					if err := s.Ack(ctx, nil); err != nil {
						return nil, err
					}
				case "ask":
					return steer.Pace, s.Ack(ctx, "step 3")
				}
			}
		}
	}, nil))
	<-begun
	must[string](t)(q.Steer(ctx, id, object{"pace": 5}))
	question := must[string](t)(q.Ask(ctx, id, "how far?"))
	if answer := must[*api.Signal](t)(q.Answer(ctx, question)); answer.State != "acked" || string(answer.Answer) != `"step 3"` {
		t.Errorf("the answer is %+v", answer)
	}
	var pace int
	if err := must[*sluice.Result](t)(q.Result(ctx, id)).Decode(&pace); err != nil || pace != 5 {
		t.Errorf("the pace is %d (%v)", pace, err)
	}
}

func TestProgressTravelsWithRenewals(t *testing.T) {
	_, c := node(t)
	q := newQueue(t, c, sluice.Settings{"visibilityTimeout": "600ms"})
	id := must[*sluice.Sent](t)(q.Send(ctx, "x", nil)).ID
	seen := make(chan bool)
	startWorker(t, sluice.NewWorker(c, "mail", func(_ context.Context, job *sluice.Job) (any, error) {
		job.Progress(42, "half way")
		<-seen
		return nil, nil
	}, nil))
	eventually(t, "the message has a progress", func() bool {
		m := must[*api.Message](t)(q.Show(ctx, id))
		return m.Progress == 42 && m.ProgressText == "half way"
	})
	close(seen)
}

func TestAWorkerStopsInOrder(t *testing.T) {
	_, c := node(t)
	q := newQueue(t, c, nil)
	ids := []string{}
	for _, body := range []string{"quick", "slow"} {
		ids = append(ids, must[*sluice.Sent](t)(q.Send(ctx, body, nil)).ID)
	}
	var begun sync.WaitGroup
	begun.Add(2)
	finish := make(chan bool)
	w := startWorker(t, sluice.NewWorker(c, "mail", func(ctx context.Context, job *sluice.Job) (any, error) {
		begun.Done()
		if string(job.Bytes()) == "quick" {
			<-finish
			return nil, ctx.Err()
		}
		<-ctx.Done() // the grace is over
		return nil, job.Err()
	}, &sluice.WorkerOptions{Concurrency: 4, Name: "w1", Grace: 300 * time.Millisecond}))
	begun.Wait()
	must[*sluice.Sent](t)(q.Send(ctx, "quick", nil)) // it may come, or not
	begun.Add(1)
	w.stop()
	close(finish)
	if err := w.wait(t); err != nil {
		t.Fatal(err)
	}
	if m := must[*api.Message](t)(q.Show(ctx, ids[0])); m.State != "processed" {
		t.Errorf("the job that ended in the grace is %s", m.State)
	}
	if m := must[*api.Message](t)(q.Show(ctx, ids[1])); m.State != "ready" || m.Attempt != 0 {
		t.Errorf("the other one is %s, attempt %d", m.State, m.Attempt)
	}
	if s := must[*api.Stats](t)(q.Stats(ctx)); s.Locked != 0 {
		t.Errorf("%d messages are locked", s.Locked)
	}
	for _, row := range must[[]api.Worker](t)(q.Workers(ctx)) {
		if row.Capacity != 0 {
			t.Errorf("%s is still registered", row.Name)
		}
	}
}

func TestAnIdleWorkerStopsAtOnce(t *testing.T) {
	_, c := node(t)
	q := newQueue(t, c, nil)
	w := startWorker(t, sluice.NewWorker(c, "mail", func(context.Context, *sluice.Job) (any, error) { return nil, nil }, nil))
	eventually(t, "the worker waits", func() bool {
		rows := must[[]api.Worker](t)(q.Workers(ctx))
		return len(rows) == 1 && rows[0].Waiting == 1
	})
	began := time.Now()
	w.stop()
	if err := w.wait(t); err != nil || time.Since(began) > 2*time.Second {
		t.Errorf("it ended after %v (%v)", time.Since(began), err)
	}
	// A node that is busy notices the end of a connection a little later. Until then the receive waits.
	eventually(t, "no receive waits", func() bool {
		for _, row := range must[[]api.Worker](t)(q.Workers(ctx)) {
			if row.Waiting > 0 {
				return false
			}
		}
		return true
	})
	must[*sluice.Sent](t)(q.Send(ctx, "x", nil))
	if job := receiveOne(t, q); job.Attempt != 1 { // the receive that was given up took nothing
		t.Errorf("attempt %d", job.Attempt)
	}
}

// A message that was locked for a receive which the worker gives up is given back.
func TestAStopGivesBackWhatAReceiveHasLocked(t *testing.T) {
	p, direct := node(t)
	q := newQueue(t, direct, nil)
	id := must[*sluice.Sent](t)(q.Send(ctx, "x", nil)).ID
	held := make(chan bool)
	var first sync.Once
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		onward, _ := http.NewRequest(r.Method, p.URL+r.URL.Path+"?"+r.URL.RawQuery, bytes.NewReader(body))
		onward.Header = r.Header
		answer, err := http.DefaultClient.Do(onward)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		if strings.HasSuffix(r.URL.Path, "/receive") {
			first.Do(func() { // the answer is on its way for a long time
				close(held)
				<-r.Context().Done()
			})
		}
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	}))
	defer proxy.Close()
	c := sluicetest.Client(t, proxy.URL, &sluice.Options{Logger: quiet})
	w := startWorker(t, sluice.NewWorker(c, "mail", func(context.Context, *sluice.Job) (any, error) {
		return nil, errors.New("it must not begin")
	}, nil))
	<-held
	w.stop()
	if err := w.wait(t); err != nil {
		t.Error(err)
	}
	if m := must[*api.Message](t)(q.Show(ctx, id)); m.State != "ready" || m.Attempt != 0 {
		t.Errorf("the message is %s, attempt %d", m.State, m.Attempt)
	}
}

func TestOrdersOfAnOperator(t *testing.T) {
	_, c := node(t)
	q := newQueue(t, c, nil)
	done := make(chan string, 10)
	w := startWorker(t, sluice.NewWorker(c, "mail", func(_ context.Context, job *sluice.Job) (any, error) {
		done <- job.ID
		return nil, nil
	}, &sluice.WorkerOptions{Name: "w1", Labels: "kind=gpu", Concurrency: 3}))
	worker := func() (row api.Worker) {
		for _, r := range must[[]api.Worker](t)(q.Workers(ctx)) {
			if r.Name == "w1" {
				row = r
			}
		}
		return row
	}
	eventually(t, "the worker is registered", func() bool { return worker().Capacity == 3 && worker().Waiting == 1 })
	if row := worker(); row.Labels != "kind=gpu" {
		t.Errorf("the row is %+v", row)
	}
	if err := c.API().PauseWorker(ctx, &api.PauseWorkerRequest{Queue: "mail", Worker: "w1"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the worker is paused and does not wait", func() bool { return worker().Mode == "paused" && worker().Waiting == 0 })
	id := must[*sluice.Sent](t)(q.Send(ctx, "x", &sluice.SendOptions{Requires: "kind=gpu"})).ID
	if s := must[*api.Stats](t)(q.Stats(ctx)); s.Ready != 1 {
		t.Errorf("%d are ready", s.Ready)
	}
	if err := c.API().ResumeWorker(ctx, &api.ResumeWorkerRequest{Queue: "mail", Worker: "w1"}); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got != id {
		t.Errorf("%s came", got)
	}
	if err := c.API().DrainWorker(ctx, &api.DrainWorkerRequest{Queue: "mail", Worker: "w1"}); err != nil {
		t.Fatal(err)
	}
	if err := w.wait(t); err != nil {
		t.Errorf("after a drain: %v", err)
	}
}

func TestAnEvictedWorkerEnds(t *testing.T) {
	_, c := node(t)
	q := newQueue(t, c, sluice.Settings{"visibilityTimeout": "900ms"})
	must[*sluice.Sent](t)(q.Send(ctx, "x", nil))
	begun, got := make(chan bool), make(chan error, 1)
	w := startWorker(t, sluice.NewWorker(c, "mail", func(ctx context.Context, job *sluice.Job) (any, error) {
		close(begun)
		<-ctx.Done()
		got <- job.Err()
		return nil, nil
	}, &sluice.WorkerOptions{Name: "w1"}))
	<-begun
	if err := c.API().EvictWorker(ctx, &api.EvictWorkerRequest{Queue: "mail", Worker: "w1"}); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != sluice.ErrLockLost {
		t.Errorf("the reason is %v", err)
	}
	if err := w.wait(t); !errors.Is(err, sluice.ErrFenced) {
		t.Errorf("the worker ended with %v", err)
	}
}

func TestTypesShareAQueue(t *testing.T) {
	_, c := node(t)
	q := newQueue(t, c, nil)
	send := func(kind string) string {
		return must[*sluice.Sent](t)(q.Send(ctx, kind, &sluice.SendOptions{Type: kind})).ID
	}
	letter, parcel, plain := send("letter"), send("parcel"), send("")
	w := sluice.NewWorker(c, "mail", func(context.Context, *sluice.Job) (any, error) { return "plain", nil }, nil)
	w.Handle("letter", func(context.Context, *sluice.Job) (any, error) { return "a letter", nil })
	sluicetest.RunUntilEmpty(t, w)
	for id, want := range map[string]string{letter: "a letter", plain: "plain"} {
		var got string
		if err := must[*sluice.Result](t)(q.Result(ctx, id)).Decode(&got); err != nil || got != want {
			t.Errorf("the result is %q (%v)", got, err)
		}
	}
	if m := must[*api.Message](t)(q.Show(ctx, parcel)); m.State != "delayed" || m.Attempt != 0 {
		t.Errorf("the message of unknown type is %s, attempt %d", m.State, m.Attempt)
	}
}

func TestTraceparentTravels(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	_, c := node(t)
	q := newQueue(t, c, nil)
	next := must[*sluice.Queue](t)(c.Create(ctx, "next", nil))
	must[*sluice.Sent](t)(q.Send(sluice.WithTraceparent(ctx, trace), "x", nil))
	sluicetest.RunUntilEmpty(t, sluice.NewWorker(c, "mail", func(ctx context.Context, job *sluice.Job) (any, error) {
		_, err := next.Send(ctx, "y", nil)
		return nil, err
	}, nil))
	if job := receiveOne(t, next); job.Headers["traceparent"] != trace {
		t.Errorf("the headers are %v", job.Headers)
	}
}

func TestAHandlerMaySettleItsJob(t *testing.T) {
	_, c := node(t)
	q := newQueue(t, c, nil)
	id := must[*sluice.Sent](t)(q.Send(ctx, "x", nil)).ID
	sluicetest.RunUntilEmpty(t, sluice.NewWorker(c, "mail", func(ctx context.Context, job *sluice.Job) (any, error) {
		_, err := job.Ack(ctx, "by hand")
		return nil, err
	}, nil))
	var got string
	if err := must[*sluice.Result](t)(q.Result(ctx, id)).Decode(&got); err != nil || got != "by hand" {
		t.Errorf("the result is %q (%v)", got, err)
	}
}

func TestAResultThatIsTooLargeFailsTheJob(t *testing.T) {
	_, c := node(t)
	q := newQueue(t, c, sluice.Settings{"failureStrategy.maxRetries": 0})
	id := must[*sluice.Sent](t)(q.Send(ctx, "x", nil)).ID
	startWorker(t, sluice.NewWorker(c, "mail", func(context.Context, *sluice.Job) (any, error) {
		return strings.Repeat("x", 300<<10), nil
	}, nil))
	if _, err := q.Result(ctx, id); err == nil || !strings.Contains(err.Error(), "result") {
		t.Errorf("the error is %v", err)
	}
}

// recorder keeps the bodies of requests by the end of their path.
type recorder struct {
	mutex  sync.Mutex
	bodies map[string][]string
}

func (r *recorder) count(path string) int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return len(r.bodies[path])
}

// has returns whether a request to one of the paths had the text.
func (r *recorder) has(text string, paths ...string) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, path := range paths {
		for _, body := range r.bodies[path] {
			if strings.Contains(body, text) {
				return true
			}
		}
	}
	return false
}

// recordingProxy passes requests on to the node and keeps them.
func recordingProxy(t testing.TB, node string) (string, *recorder) {
	target := must[*url.URL](t)(url.Parse(node))
	record := &recorder{bodies: map[string][]string{}}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorLog = quiet
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		path := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		record.mutex.Lock()
		record.bodies[path] = append(record.bodies[path], string(body))
		record.mutex.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL, record
}

func TestAcksTravelWithTheNextReceive(t *testing.T) {
	p, direct := node(t)
	q := newQueue(t, direct, nil)
	for i := 0; i < 30; i++ {
		must[*sluice.Sent](t)(q.Send(ctx, i, nil))
	}
	proxy, record := recordingProxy(t, p.URL)
	c := sluicetest.Client(t, proxy, &sluice.Options{Logger: quiet})
	w := startWorker(t, sluice.NewWorker(c, "mail", func(context.Context, *sluice.Job) (any, error) { return nil, nil }, nil))
	eventually(t, "all are processed", func() bool { return must[*api.Stats](t)(q.Stats(ctx)).Processed == 30 })
	if acks, receives := record.count("ack"), record.count("receive"); acks != 0 || receives > 32 {
		t.Errorf("%d acks and %d receives", acks, receives)
	}
	w.stop()
	if err := w.wait(t); err != nil {
		t.Error(err)
	}
}

func TestAnAckTravelsAloneIfNoReceiveTakesIt(t *testing.T) {
	p, direct := node(t)
	q := newQueue(t, direct, nil)
	proxy, record := recordingProxy(t, p.URL)
	c := sluicetest.Client(t, proxy, &sluice.Options{Logger: quiet})
	finish := make(chan bool)
	startWorker(t, sluice.NewWorker(c, "mail", func(context.Context, *sluice.Job) (any, error) {
		<-finish
		return nil, nil
	}, &sluice.WorkerOptions{Concurrency: 2}))
	id := must[*sluice.Sent](t)(q.Send(ctx, "x", nil)).ID
	eventually(t, "the second place waits", func() bool {
		rows := must[[]api.Worker](t)(q.Workers(ctx))
		return len(rows) == 1 && rows[0].Open == 1 && rows[0].Waiting == 1
	})
	close(finish)
	must[*sluice.Result](t)(q.Result(ctx, id))
	if record.count("ack") != 1 {
		t.Errorf("%d acks", record.count("ack"))
	}
}

// The test program is the worker of TestSignalsOfTheSystem, too.
func TestMain(m *testing.M) {
	if url := os.Getenv("GO_TEST_WORKER"); url != "" {
		c, err := sluice.Open(url, &sluice.Options{Logger: quiet})
		signals := make(chan os.Signal, 2)
		signal.Notify(signals, syscall.SIGTERM)
		go func() {
			for range signals {
				fmt.Println("signal")
			}
		}()
		if err == nil {
			err = sluice.NewWorker(c, "mail", func(ctx context.Context, job *sluice.Job) (any, error) {
				fmt.Println("begun")
				<-ctx.Done()
				return nil, job.Err()
			}, nil).RunUntilSignal()
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestSignalsOfTheSystem(t *testing.T) {
	p, c := node(t)
	q := newQueue(t, c, nil)
	id := must[*sluice.Sent](t)(q.Send(ctx, "x", nil)).ID
	worker := exec.Command(os.Args[0])
	worker.Env = append(os.Environ(), "GO_TEST_WORKER="+p.URL)
	output := must[io.ReadCloser](t)(worker.StdoutPipe())
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	defer worker.Process.Kill()
	lines := bufio.NewReader(output)
	if line, err := lines.ReadString('\n'); err != nil || line != "begun\n" {
		t.Fatalf("%q (%v)", line, err)
	}
	began := time.Now()
	for i := 0; i < 2; i++ { // the second one means at once
		if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if line, err := lines.ReadString('\n'); i == 0 && (err != nil || line != "signal\n") {
			t.Fatalf("%q (%v)", line, err)
		}
	}
	if err := worker.Wait(); err != nil || time.Since(began) > 15*time.Second {
		t.Errorf("it ended after %v (%v)", time.Since(began), err)
	}
	if m := must[*api.Message](t)(q.Show(ctx, id)); m.State != "ready" || m.Attempt != 0 {
		t.Errorf("the message is %s, attempt %d", m.State, m.Attempt)
	}
}
