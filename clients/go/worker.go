// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sluice/api"
)

const (
	ackDelay     = 10 * time.Millisecond  // for an ack that no receive takes along
	heldPause    = 500 * time.Millisecond // of a worker that an operator paused
	troublePause = time.Second            // after a receive that got no answer
	stopTime     = 5 * time.Second        // for handlers to end after their context ended
	settleTime   = 10 * time.Second       // for the last acks
	unknownDelay = 10 * time.Second       // for a job whose type no handler knows
	instanceLen  = 8
)

// Handler does a job. If the error is nil, the job is processed and the value is its result; nil is
// no result. Any other error fails the attempt, and its text is the reason. Snooze gives the message
// back.
//
// The context ends when the lock is lost, when a sender interrupts the job, or when the worker stops
// and its grace is over. Job.Err says why. After a lost lock or an interrupt the worker sends no
// outcome of the handler.
type Handler func(ctx context.Context, job *Job) (any, error)

type snooze struct{ delay time.Duration }

func (s *snooze) Error() string { return fmt.Sprintf("sluice: snooze for %v", s.delay) }

// Snooze is an error with which a handler gives its message back. The message is ready again after
// the delay, and no attempt is counted.
func Snooze(delay time.Duration) error { return &snooze{delay} }

// WorkerOptions of NewWorker. A nil pointer is the same as an empty struct.
type WorkerOptions struct {
	Concurrency int           // jobs at a time, default 1
	Visibility  time.Duration // how long a lock lasts between renewals; default: that of the queue
	Name        string        // default: host and process
	Labels      string        // host=a7,kind=gpu; for messages that require some
	TTL         time.Duration // of the registration, without a sign of life; default 60 s
	NoRegister  bool          // do not register
	Grace       time.Duration // for running jobs when the worker stops, default 25 s; negative: none
}

// Worker receives messages of a queue and runs a handler for each, Concurrency at a time.
//
// It renews the locks of all its jobs on a connection of its own, so a handler that blocks keeps its
// lock. It asks only for as many messages as it has free places.
type Worker struct {
	client     *Client
	queue      *Queue
	options    WorkerOptions
	handler    Handler            // of messages without a type; may be nil
	kinds      map[string]Handler // by type
	instance   string             // tells two processes of one name apart
	lease      time.Duration      // Visibility, or that of the queue; 0: not known
	life       context.Context    // of everything but receives; it ends when Run returns
	now        chan struct{}      // closed: stop at once
	untilEmpty bool               // return when no message is ready and no job runs
	nowOnce    sync.Once
	changed    chan struct{} // a place is free, or an ack waits
	renew      chan struct{} // a lock came
	listen     chan struct{} // a job came, or a signal waits
	flush      chan struct{} // acks wait and no receive takes them
	inFlight   sync.WaitGroup

	registered atomic.Bool
	mutex      sync.Mutex      // for what follows, and for the jobs
	locks      map[string]*Job // by token; those that run, and those whose outcome is not known yet
	busy       int             // handlers that run
	waiting    bool            // the next receive may come late, so acks travel alone
	acks       []ack
}

type ack struct {
	job *Job
	row ackRow
}

func (a *ack) hasResult() bool { return a.row.Result != nil || a.row.ResultBase64 != nil }

var workerCount atomic.Int32

// NewWorker returns a worker for the queue. Run starts it. If all handlers are added with Handle,
// the handler here is nil.
func NewWorker(c *Client, queue string, handler Handler, options *WorkerOptions) *Worker {
	w := &Worker{client: c, queue: c.Queue(queue), handler: handler, kinds: map[string]Handler{},
		now: make(chan struct{}), changed: make(chan struct{}, 1), renew: make(chan struct{}, 1),
		listen: make(chan struct{}, 1), flush: make(chan struct{}, 1), locks: map[string]*Job{}}
	if options != nil {
		w.options = *options
	}
	o := &w.options
	if o.Concurrency == 0 {
		o.Concurrency = 1
	}
	if o.Grace == 0 {
		o.Grace = 25 * time.Second
	}
	if o.TTL == 0 {
		o.TTL = time.Minute
	}
	if o.Name == "" {
		host, _ := os.Hostname()
		o.Name = fmt.Sprintf("%s-%d", host, os.Getpid())
		if n := workerCount.Add(1); n > 1 {
			o.Name += fmt.Sprintf("-%d", n)
		}
	}
	var id [instanceLen]byte
	_, _ = rand.Read(id[:])
	w.instance = hex.EncodeToString(id[:])
	return w
}

// Handle adds the handler of a type: messages that were sent with SendOptions.Type. A message whose
// type no handler knows is released with a delay. Call it before Run.
func (w *Worker) Handle(kind string, handler Handler) { w.kinds[kind] = handler }

// Name returns the name of the worker.
func (w *Worker) Name() string { return w.options.Name }

// StopNow makes Run return without a grace: the contexts of the handlers end at once.
func (w *Worker) StopNow() { w.nowOnce.Do(func() { close(w.now) }) }

// RunUntilSignal runs the worker until SIGTERM or SIGINT. A second signal stops it at once.
func (w *Worker) RunUntilSignal() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	go func() {
		for range signals {
			if ctx.Err() != nil {
				w.StopNow()
			}
			cancel()
		}
	}()
	defer close(signals)
	return w.Run(ctx)
}

func (w *Worker) logf(format string, args ...any) {
	w.client.logger.Printf("sluice worker "+w.options.Name+": "+format, args...)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (w *Worker) check() error {
	switch {
	case w.options.Concurrency < 1 || w.options.Concurrency > itemsMax:
		return invalid("Concurrency", "Concurrency is %d; 1 to %d is right", w.options.Concurrency, itemsMax)
	case w.handler == nil && len(w.kinds) == 0:
		return invalid("handler", "the worker has no handler")
	}
	return nil
}

// Run works until the context ends, an operator drains the worker, or an error that no repetition
// solves. When the context ends, it receives no more, gives running jobs a grace, releases the jobs
// that are left, sends the last acks, and ends its registration. It may be called once.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.check(); err != nil {
		return err
	}
	if err := w.findLease(ctx); err != nil {
		return err
	}
	if err := w.join(ctx); err != nil {
		return err
	}
	var end context.CancelFunc
	w.life, end = context.WithCancel(context.Background())
	var helpers sync.WaitGroup
	for _, helper := range []func(){w.renewLocks, w.listenForSignals, w.stayRegistered, w.flushAcks} {
		helpers.Add(1)
		go func(run func()) {
			defer helpers.Done()
			run()
		}(helper)
	}
	receiving, stop := context.WithCancel(ctx)
	go func() {
		select {
		case <-w.now:
			stop()
		case <-receiving.Done():
		}
	}()
	err := w.receive(receiving)
	stop()
	left := w.finish(err)
	end()
	helpers.Wait()
	w.leave()
	if err == nil && left > 0 {
		err = fmt.Errorf("sluice: %d handlers did not end; their locks expire", left)
	}
	return err
}

// RunUntilEmpty runs the worker until no message is ready and no job runs. It does not wait for
// delayed messages and retries.
func (w *Worker) RunUntilEmpty(ctx context.Context) error {
	w.untilEmpty = true
	return w.Run(ctx)
}

// The lock time of the queue. A token without the scope read cannot ask for it.
func (w *Worker) findLease(ctx context.Context) error {
	info, err := w.queue.Info(ctx)
	if err != nil && !errors.Is(err, ErrDenied) {
		return err
	}
	if err == nil {
		w.lease, _ = api.ParseDuration(info.Settings.VisibilityTimeout)
	}
	if w.options.Visibility > 0 {
		w.lease = w.options.Visibility
	}
	return nil
}

// finish waits for the jobs, releases those that do not end within the grace, and sends the last
// acks. It returns how many handlers still run.
func (w *Worker) finish(cause error) int {
	idle := make(chan struct{})
	go func() {
		w.inFlight.Wait()
		close(idle)
	}()
	grace := w.options.Grace
	if errors.Is(cause, ErrFenced) || grace < 0 { // evicted: the locks have ended
		grace = 0
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-idle:
	case <-w.now:
	case <-timer.C:
	}
	w.mutex.Lock()
	var jobs []*Job
	for _, job := range w.locks {
		jobs = append(jobs, job)
	}
	w.mutex.Unlock()
	for _, job := range jobs {
		w.stopJob(job, ErrStopping, "")
	}
	select {
	case <-idle:
	case <-time.After(stopTime):
	}
	for until := time.Now().Add(settleTime); time.Now().Before(until); {
		w.mutex.Lock()
		left := 0
		for _, job := range w.locks {
			if job.settling {
				left++
			}
		}
		w.mutex.Unlock()
		if left == 0 {
			break
		}
		wake(w.flush)
		time.Sleep(ackDelay)
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.busy
}

func (w *Worker) join(ctx context.Context) error {
	if w.options.NoRegister {
		return nil
	}
	_, err := w.client.API().JoinWorker(ctx, &api.JoinWorkerRequest{Queue: w.queue.Name, Worker: w.options.Name,
		Instance: w.instance, Capacity: int64(w.options.Concurrency), Labels: w.options.Labels,
		TTL: api.Duration(w.options.TTL)})
	w.registered.Store(err == nil)
	if errors.Is(err, ErrConflict) { // a process that died has the name for some seconds
		w.logf("it works without a registration: %v", err)
		return nil
	}
	return err
}

// stayRegistered asks whether the registration is still there. Receives and renewals are the signs
// of life.
func (w *Worker) stayRegistered() {
	for !w.options.NoRegister {
		pause := w.options.TTL / 2
		if !w.registered.Load() {
			pause = w.options.TTL / 12
		}
		if !sleep(w.life, pause) {
			return
		}
		var err error = ErrNotFound
		if w.registered.Load() {
			_, err = w.client.API().JoinWorker(w.life, &api.JoinWorkerRequest{Queue: w.queue.Name,
				Worker: w.options.Name, Instance: w.instance, Beat: true})
		}
		if errors.Is(err, ErrNotFound) {
			_ = w.join(w.life)
		}
	}
}

func (w *Worker) leave() {
	if !w.registered.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	err := w.client.API().LeaveWorker(ctx, &api.LeaveWorkerRequest{Queue: w.queue.Name, Worker: w.options.Name,
		Instance: w.instance})
	if err != nil {
		w.logf("the registration was not ended: %v", err)
	}
}
