// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"context"
	"errors"
	"time"

	"sluice/api"
)

// call returns the calls of one request with a fixed request id. asked gets the time of the attempt
// that was answered.
func (w *Worker) call(id string, asked *time.Time) api.Calls {
	return api.Calls{Do: func(ctx context.Context, r *api.Request, answer any) error {
		r.ID = id
		err := w.client.main.do(ctx, r, answer)
		*asked = r.SentAt
		return err
	}}
}

func (w *Worker) header() string {
	if !w.registered.Load() {
		return ""
	}
	return w.instance + " " + w.options.Name
}

// receive asks for messages until the context ends. Acks travel along.
func (w *Worker) receive(ctx context.Context) error {
	defer func() {
		w.mutex.Lock()
		w.waiting = true // acks travel alone from now on
		w.mutex.Unlock()
		wake(w.flush)
	}()
	for ctx.Err() == nil {
		free, acks := w.takeAcks()
		if free == 0 {
			select {
			case <-w.changed:
			case <-ctx.Done():
			}
			continue
		}
		empty, err := w.receiveOnce(ctx, free, acks)
		w.mutex.Lock()
		idle := w.busy == 0 && len(w.acks) == 0
		w.mutex.Unlock()
		if e := (*Error)(nil); errors.As(err, &e) {
			switch {
			case e.Reason == reasonPaused:
				sleep(ctx, heldPause)
			case e.Reason == reasonDraining:
				w.logf("an operator drains this worker: it finishes what it has")
				return nil
			case undecided(e):
				sleep(ctx, troublePause)
			default:
				return err
			}
		} else if err != nil {
			return err
		}
		if w.untilEmpty && empty {
			if idle {
				return nil
			}
			select {
			case <-w.changed:
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// takeAcks returns the free places, and the acks for the receive that asks for them.
func (w *Worker) takeAcks() (free int, acks []ack) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	free = w.options.Concurrency - w.busy
	if w.waiting = free > 0; !w.waiting { // the next job that ends starts a receive
		return 0, nil
	}
	kept := w.acks[:0]
	for _, a := range w.acks {
		if a.hasResult() || len(acks) == itemsMax { // a receive takes no results along
			kept = append(kept, a)
		} else {
			acks = append(acks, a)
		}
	}
	w.acks = kept
	return free, acks
}

func undecided(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrLimit)
}

// receiveOnce repeats one receive with one request id until it is answered, so that no message
// stays locked without a handler. When the context ends, it asks once more for what an earlier
// attempt may have locked, and gives that back.
func (w *Worker) receiveOnce(ctx context.Context, free int, acks []ack) (empty bool, err error) {
	in := &api.ReceiveMessagesRequest{Queue: w.queue.Name, Max: int64(free), Worker: w.options.Name,
		Visibility: api.Duration(w.options.Visibility), SluiceWorker: w.header()}
	for _, a := range acks {
		in.Ack = append(in.Ack, a.row.Token)
	}
	wait := waitMax
	if w.lease > 0 && w.lease/3 < wait {
		wait = w.lease / 3 // an answer after this time is still early for a renewal
	}
	if w.untilEmpty {
		wait = 0
	}
	id := newRequestID()
	for {
		in.Wait = api.Duration(wait)
		var asked time.Time
		answer, err := w.call(id, &asked).ReceiveMessages(ctx, in)
		stopping := ctx.Err() != nil
		if err != nil && stopping && wait >= 0 && errors.Is(err, ctx.Err()) {
			wait = -1
			in.Wait = 0
			last, cancel := context.WithTimeout(w.life, stopTime)
			answer, err = w.call(id, &asked).ReceiveMessages(last, in)
			cancel()
		}
		switch {
		case err == nil:
			w.settleAcks(acks, answer.Acked)
			w.start(answer.Messages, asked, stopping)
			if answer.Error != nil {
				err = problemError(answer.Error)
			}
			return len(answer.Messages) == 0, err
		case stopping || !undecided(err) || isOrder(err):
			w.requeue(acks)
			return false, err
		}
		w.logf("a receive got no answer: %v", err)
		sleep(ctx, troublePause)
	}
}

func isOrder(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Reason == reasonPaused || e.Reason == reasonDraining)
}

func (w *Worker) start(messages []api.Message, asked time.Time, stopping bool) {
	for i := range messages {
		job := w.newJob(&messages[i], asked)
		if stopping {
			w.inFlight.Add(1)
			go func() {
				defer w.inFlight.Done()
				w.settle(job, func(ctx context.Context) (string, error) { return job.Release(ctx, 0) })
			}()
			continue
		}
		w.mutex.Lock()
		w.busy++
		w.mutex.Unlock()
		w.inFlight.Add(1)
		go w.run(job)
	}
	if len(messages) > 0 {
		wake(w.renew)
		wake(w.listen)
	}
}
