// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/api"
)

func (w *Worker) newJob(m *api.Message, asked time.Time) *Job {
	job := newJob(w.queue, m)
	lease := time.Duration(m.LeaseMs) * time.Millisecond
	received := time.Now()
	job.worker, job.lease = w, w.lease
	if job.lease == 0 {
		job.lease = lease
	}
	job.storeAhead = time.UnixMilli(m.Deadline).Sub(received.Add(lease))
	job.listenAt = received.Add(listenAfter)
	job.deadline = asked.Add(lease) // the answer does not say when the node made it
	job.renewAt = received.Add(lease / 3)
	if latest := job.deadline.Add(-lease / 3); latest.Before(job.renewAt) {
		job.renewAt = latest
	}
	w.mutex.Lock()
	w.locks[job.Token] = job
	w.mutex.Unlock()
	return job
}

func (w *Worker) handlerOf(job *Job) Handler {
	if handler, ok := w.kinds[job.Type()]; ok {
		return handler
	}
	if job.Type() == "" || len(w.kinds) == 0 {
		return w.handler
	}
	return nil
}

func (w *Worker) run(job *Job) {
	defer w.inFlight.Done()
	ctx, cancel := context.WithCancel(WithTraceparent(context.Background(), job.Headers["traceparent"]))
	defer cancel()
	var result any
	var err error
	if w.begin(job, cancel) {
		if handler := w.handlerOf(job); handler != nil {
			result, err = callHandler(ctx, handler, job)
		} else {
			w.logf("no handler knows the type %q of %s; it is released", job.Type(), job.ID)
			err = Snooze(unknownDelay)
		}
	}
	w.mutex.Lock()
	w.busy--
	job.settling = true
	if job.expiry != nil {
		job.expiry.Stop()
	}
	why, ended, reason := job.why, job.ended, job.reason
	w.mutex.Unlock()
	w.end(job, result, err, why, ended, reason)
	wake(w.changed)
}

// begin returns false if the lock has expired. A message can come late, after its receive was
// repeated; a renewal decides then.
func (w *Worker) begin(job *Job, cancel context.CancelFunc) bool {
	if time.Until(job.deadline) <= 0 {
		asked := time.Now()
		ctx, end := context.WithTimeout(w.life, job.lease)
		_, err := job.Renew(ctx, job.lease)
		end()
		if err != nil {
			w.lose(job, "it had expired before the job started")
			return false
		}
		w.renewed(job, asked)
	}
	w.mutex.Lock()
	job.cancel = cancel
	alive := job.why == nil
	if alive {
		w.watchDeadline(job)
	}
	w.mutex.Unlock()
	for i := range job.Message.Signals {
		w.deliver(job, &job.Message.Signals[i])
	}
	return alive
}

func callHandler(ctx context.Context, handler Handler, job *Job) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return handler(ctx, job)
}

// stopJob ends the context of the handler.
func (w *Worker) stopJob(job *Job, why error, reason string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if job.settling || (job.why != nil && why != ErrLockLost) {
		return
	}
	job.why, job.reason = why, reason
	if job.cancel != nil {
		job.cancel()
	}
}

func (w *Worker) lose(job *Job, how string) {
	w.stopJob(job, ErrLockLost, how)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if job.why == ErrLockLost {
		delete(w.locks, job.Token)
	} else { // its outcome may have arrived, and the answer is on its way
		job.renewAt = time.Now().Add(job.lease / 3)
	}
}

// end sends the outcome of the handler.
func (w *Worker) end(job *Job, result any, err error, why error, ended bool, reason string) {
	var snoozed *snooze
	switch {
	case why == ErrLockLost:
		w.logf("the lock of %s is lost (%s); its outcome is not sent", job.ID, reason)
		w.forget(job)
	case ended:
		w.forget(job)
	case why == ErrInterrupted:
		text := "interrupted"
		if reason != "" {
			text += ": " + reason
		}
		w.settle(job, func(ctx context.Context) (string, error) { return job.Fail(ctx, text) })
	case err == nil:
		row, problem := job.ackRow(result)
		if problem != nil {
			w.settle(job, func(ctx context.Context) (string, error) { return job.Fail(ctx, problem.Error()) })
			return
		}
		w.queueAck(ack{job, row})
	case errors.As(err, &snoozed):
		w.settle(job, func(ctx context.Context) (string, error) { return job.Release(ctx, snoozed.delay) })
	case why == ErrStopping:
		w.settle(job, func(ctx context.Context) (string, error) { return job.Release(ctx, 0) })
	default:
		w.settle(job, func(ctx context.Context) (string, error) { return job.Fail(ctx, err.Error()) })
	}
}

func (w *Worker) forget(job *Job) {
	w.mutex.Lock()
	delete(w.locks, job.Token)
	w.mutex.Unlock()
}

// settle repeats a fail or a release until its outcome is known. The token makes a repetition safe.
func (w *Worker) settle(job *Job, send func(context.Context) (string, error)) {
	defer w.forget(job)
	for {
		_, err := send(w.life)
		if err == nil {
			return
		}
		if !undecided(err) || !sleep(w.life, troublePause) {
			w.logf("the outcome of %s was not taken: %v", job.ID, err)
			return
		}
	}
}
