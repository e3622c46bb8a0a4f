// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"time"

	"sluice/api"
)

const (
	listenAfter  = 100 * time.Millisecond // a shorter job costs no request for its signals
	listenFull   = 2 * time.Second        // every place has a job
	listenTime   = 500 * time.Millisecond // a job that comes meanwhile is listened to after this
	unreadTime   = 30 * time.Second       // for a handler to ask for its signals
	notListening = "not-listening"
)

// listenForSignals waits in one request for the signals to all jobs.
func (w *Worker) listenForSignals() {
	for w.life.Err() == nil {
		in, next := w.listened(time.Now())
		if len(in.Tokens) == 0 {
			timer := time.NewTimer(time.Until(next))
			select {
			case <-w.life.Done():
			case <-w.listen:
			case <-timer.C:
			}
			timer.Stop()
			continue
		}
		answer, err := w.client.API().ReceiveSignals(w.life, in)
		if undecided(err) {
			sleep(w.life, troublePause)
			continue
		}
		if err != nil {
			return // the queue or the token does not allow signals
		}
		for i := range answer.Signals {
			w.takeSignal(&answer.Signals[i])
		}
	}
}

// listened returns the request for the jobs that run for some time already. If there is none, it
// returns when the next one will.
func (w *Worker) listened(now time.Time) (in *api.ReceiveSignalsRequest, next time.Time) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	in = &api.ReceiveSignalsRequest{Queue: w.queue.Name, Wait: api.Duration(listenTime)}
	next = now.Add(time.Hour)
	for _, job := range w.locks {
		switch {
		case job.settling || job.why == ErrLockLost:
		case job.listenAt.After(now):
			if job.listenAt.Before(next) {
				next = job.listenAt
			}
		default:
			in.Tokens = append(in.Tokens, job.Token)
			in.After = append(in.After, job.number)
		}
	}
	if len(in.Tokens) == w.options.Concurrency {
		in.Wait = api.Duration(listenFull)
	}
	return in, next
}

func (w *Worker) takeSignal(row *api.Signal) {
	w.mutex.Lock()
	job := w.locks[row.Token]
	w.mutex.Unlock()
	switch {
	case job == nil:
	case row.Code != "OK":
		w.lose(job, row.Reason)
	default:
		w.deliver(job, row)
	}
}

// deliver gives a signal to the job. An interrupt ends the context of the handler.
func (w *Worker) deliver(job *Job, row *api.Signal) {
	s := &Signal{*row, job}
	w.mutex.Lock()
	if row.Number <= job.number || job.settling {
		w.mutex.Unlock()
		return
	}
	job.number = row.Number
	interrupt := row.Kind == "interrupt"
	if interrupt {
		if job.limit = time.UnixMilli(row.Until).Add(-job.storeAhead); job.limit.Before(job.deadline) {
			job.deadline = job.limit
			w.watchDeadline(job)
		}
	}
	w.mutex.Unlock()
	if interrupt {
		w.stopJob(job, ErrInterrupted, string(plainBytes(row.Payload, row.PayloadBase64)))
		go func() { _ = s.Ack(w.life, nil) }()
		return
	}
	select {
	case job.inbox <- s:
		time.AfterFunc(unreadTime, func() { w.declineUnread(s) })
	default: // a message has at most so many pending signals
	}
}

func (w *Worker) declineUnread(s *Signal) {
	select {
	case <-s.job.listens:
	default:
		_ = s.Decline(w.life, notListening)
	}
}
