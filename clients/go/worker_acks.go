// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"context"
	"errors"
	"time"

	"sluice/api"
)

func (w *Worker) queueAck(a ack) {
	w.mutex.Lock()
	w.acks = append(w.acks, a)
	alone := w.waiting || a.hasResult()
	w.mutex.Unlock()
	if alone {
		wake(w.flush)
	}
}

func (w *Worker) requeue(acks []ack) {
	w.mutex.Lock()
	w.acks = append(w.acks, acks...)
	w.mutex.Unlock()
	wake(w.flush)
}

// settleAcks notes the outcomes of acks.
func (w *Worker) settleAcks(acks []ack, outcomes []api.Outcome) {
	var again []ack
	for i, a := range acks {
		if i >= len(outcomes) {
			again = append(again, a)
			continue
		}
		o := outcomes[i]
		e := rowError(o.Code, o.Reason, "the ack of "+a.job.ID)
		switch {
		case o.Code == "OK":
			w.forget(a.job)
		case undecided(e):
			again = append(again, a)
		default:
			w.logf("%v", e)
			w.forget(a.job)
		}
	}
	if len(again) > 0 {
		w.requeue(again)
	}
}

// flushAcks sends acks that no receive takes along.
func (w *Worker) flushAcks() {
	for {
		select {
		case <-w.life.Done():
			return
		case <-w.flush:
		}
		if !sleep(w.life, ackDelay) {
			return
		}
		w.mutex.Lock()
		acks := w.acks
		if len(acks) > itemsMax {
			acks = acks[:itemsMax]
		}
		w.acks = append([]ack(nil), w.acks[len(acks):]...)
		w.mutex.Unlock()
		if len(acks) > 0 {
			w.sendAcks(acks)
			wake(w.changed)
		}
	}
}

func (w *Worker) sendAcks(acks []ack) {
	in := &api.AckMessagesRequest{Queue: w.queue.Name}
	for _, a := range acks {
		in.Acks = append(in.Acks, a.row)
	}
	id := newRequestID()
	for {
		var asked time.Time
		answer, err := w.call(id, &asked).AckMessages(w.life, in)
		outcomes := answer.Outcomes.Outcomes
		if e := (*Error)(nil); errors.As(err, &e) {
			isSize := e.Code == ErrLimit.Code && e.RetryAfter == 0 // it does not say when it is over
			if undecided(err) && !isSize && w.life.Err() == nil {
				w.logf("an ack got no answer: %v", err)
				sleep(w.life, troublePause)
				continue
			}
			if len(acks) > 1 { // one of them may spoil the batch
				for _, a := range acks {
					w.sendAcks([]ack{a})
				}
				return
			}
			if w.refused(acks[0], e) {
				return
			}
			outcomes = []api.Outcome{{Code: e.Code, Reason: e.Reason}}
		}
		w.settleAcks(acks, outcomes)
		return
	}
}

// refused fails the job if the queue does not take its result, because it is too large. It returns
// false for any other refusal.
func (w *Worker) refused(a ack, e *Error) bool {
	tooLarge := e.Code == ErrInvalid.Code || e.Code == ErrLimit.Code
	if !tooLarge || !a.hasResult() || w.life.Err() != nil {
		return false
	}
	w.settle(a.job, func(ctx context.Context) (string, error) { return a.job.Fail(ctx, e.Detail) })
	return true
}
