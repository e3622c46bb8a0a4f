// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"context"
	"time"

	"sluice/api"
)

const retryMin = 20 * time.Millisecond // after a renewal without an answer

// surely returns how long a lock surely lasts. The clock of a store may run faster than ours, by
// less than one part in 128, and another process may be 10 ms ahead.
func surely(lease time.Duration) time.Duration {
	return lease - lease/128 - 11*time.Millisecond
}

// renewLocks renews the locks of all jobs in one request after a third of the shortest lease. It has
// connections of its own. An error only makes it ask again sooner.
func (w *Worker) renewLocks() {
	for w.life.Err() == nil {
		jobs, next := w.dueLocks(time.Now())
		if len(jobs) > 0 {
			w.renewAll(jobs)
			continue
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-w.life.Done():
		case <-w.renew:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// dueLocks returns the locks that are due, and those that are due soon, if one is due. Else it
// returns when the next one is due.
func (w *Worker) dueLocks(now time.Time) (jobs []*Job, next time.Time) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	next = now.Add(time.Hour)
	for _, job := range w.locks {
		if job.renewAt.Before(next) {
			next = job.renewAt
		}
	}
	if next.After(now) {
		return nil, next
	}
	for _, job := range w.locks {
		if !job.renewAt.Add(-job.lease/6).After(now) && len(jobs) < itemsMax {
			jobs = append(jobs, job)
		}
	}
	return jobs, next
}

func (w *Worker) renewAll(jobs []*Job) {
	in := &api.RenewLocksRequest{Queue: w.queue.Name, SluiceWorker: w.header()}
	rows := make([]renewalRow, len(jobs))
	shortest, progress := jobs[0].lease, false
	w.mutex.Lock()
	for i, job := range jobs {
		rows[i] = renewalRow{Token: job.Token, Progress: job.percent, ProgressText: job.text}
		progress = progress || job.percent != nil
		if job.lease < shortest {
			shortest = job.lease
		}
	}
	w.mutex.Unlock()
	in.Visibility = api.Duration(shortest)
	for i := range rows {
		if progress {
			in.Renewals = append(in.Renewals, rows[i])
		} else {
			in.Tokens = append(in.Tokens, rows[i].Token)
		}
	}
	asked := time.Now()
	ctx, cancel := context.WithTimeout(w.life, shortest/3)
	defer cancel()
	calls := api.Calls{Do: w.client.renewals.do}
	answer, err := calls.RenewLocks(ctx, in)
	for i, job := range jobs {
		switch {
		case err == nil && i < len(answer.Outcomes.Outcomes):
			w.noteRenewal(job, &answer.Outcomes.Outcomes[i], asked, rows[i].Progress)
		case err == nil || undecided(err):
			w.renewSoon(job)
		default:
			w.lose(job, err.Error())
		}
	}
	if err != nil && w.life.Err() == nil {
		w.logf("a renewal got no answer: %v", err)
	}
}

func (w *Worker) noteRenewal(job *Job, o *api.Outcome, asked time.Time, sent *int64) {
	switch {
	case o.Code == "OK":
		w.renewed(job, asked)
		if o.Signals > 0 {
			wake(w.listen)
		}
		w.mutex.Lock()
		if job.percent == sent {
			job.percent, job.text = nil, ""
		}
		w.mutex.Unlock()
	case undecided(&Error{Code: o.Code}):
		w.renewSoon(job)
	default:
		w.lose(job, o.Reason)
	}
}

func (w *Worker) renewSoon(job *Job) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	pause := job.lease / 12
	if pause < retryMin {
		pause = retryMin
	}
	job.renewAt = time.Now().Add(pause)
}

func (w *Worker) renewed(job *Job, asked time.Time) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	job.deadline = asked.Add(surely(job.lease))
	if !job.limit.IsZero() && job.limit.Before(job.deadline) {
		job.deadline = job.limit
	}
	job.renewAt = asked.Add(job.lease / 3)
	if !job.settling && job.cancel != nil {
		w.watchDeadline(job)
	}
}

// watchDeadline tells the handler shortly before the lock can end. The mutex is held.
func (w *Worker) watchDeadline(job *Job) {
	margin := job.lease / 20
	if margin > time.Second {
		margin = time.Second
	}
	if job.expiry != nil {
		job.expiry.Stop()
	}
	job.expiry = time.AfterFunc(time.Until(job.deadline)-margin, func() {
		w.mutex.Lock()
		early := time.Until(job.deadline) > margin // a renewal came meanwhile
		w.mutex.Unlock()
		if !early {
			w.lose(job, "no renewal was answered in time")
		}
	})
}
