// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"sluice/api"
)

const (
	typeHeader = "sluice-type" // names the kind of a job
	jsonType   = "application/json"
)

var (
	// ErrInterrupted is the reason of a handler's end if a sender interrupted the job.
	ErrInterrupted = errors.New("sluice: the job was interrupted")
	// ErrLockLost is the reason of a handler's end if another worker may get the message.
	ErrLockLost = errors.New("sluice: the lock is lost")
	// ErrStopping is the reason of a handler's end if the worker stops and its grace is over.
	ErrStopping = errors.New("sluice: the worker stops")
)

// Job is a message with its lock. It has the fields of the message: ID, Attempt, Headers, Group and
// so on.
type Job struct {
	api.Message
	queue *Queue

	// For workers. The mutex of the worker protects the fields up to inbox.
	worker     *Worker
	cancel     context.CancelFunc
	why        error         // why the context of the handler ended; nil: it did not
	reason     string        // of an interrupt
	lease      time.Duration // that a renewal asks for
	deadline   time.Time     // until then the lock surely holds
	limit      time.Time     // the end of the lock because of an interrupt; zero: none
	renewAt    time.Time
	listenAt   time.Time     // from then on the worker asks for signals
	storeAhead time.Duration // the store's clock, less the local one
	expiry     *time.Timer   // tells the handler before the deadline
	settling   bool          // the handler has ended
	ended      bool          // the handler has settled the message itself
	number     int64         // of the last signal
	percent    *int64        // progress for the next renewal
	text       string
	inbox      chan *Signal

	listening sync.Once
	listens   chan struct{} // closed: the handler reads its signals
}

func newJob(q *Queue, m *api.Message) *Job {
	j := &Job{Message: *m, queue: q, inbox: make(chan *Signal, 256), listens: make(chan struct{})}
	return j
}

// Decode translates the body to a Go value. A *[]byte gets its bytes.
func (j *Job) Decode(into any) error {
	return j.queue.client.decode(j.Body, j.BodyBase64, j.ContentType, into)
}

// Bytes returns the body as it is stored: bytes, a text, or JSON.
func (j *Job) Bytes() []byte { return plainBytes(j.Body, j.BodyBase64) }

// Type returns the kind of the job: its header sluice-type.
func (j *Job) Type() string { return j.Headers[typeHeader] }

type ackRow struct {
	Token        string          `json:"token"`
	Result       json.RawMessage `json:"result,omitempty"`
	ResultBase64 []byte          `json:"resultBase64,omitempty"`
	ResultType   string          `json:"resultType,omitempty"`
}

type renewalRow struct {
	Token        string `json:"token"`
	Progress     *int64 `json:"progress,omitempty"`
	ProgressText string `json:"progressText,omitempty"`
}

func (j *Job) ackRow(result any) (ackRow, error) {
	row := ackRow{Token: j.Token}
	if result == nil {
		return row, nil
	}
	value, err := j.queue.client.encode(result)
	row.Result, row.ResultBase64, row.ResultType = value.value, value.bytes, value.contentType
	if len(row.Result) > 0 && row.Result[0] != '"' {
		row.ResultType = jsonType // the nodes keep a number as its text
	}
	return row, err
}

// The handler of a worker may settle its job itself. The worker then sends no outcome.
func (j *Job) settledByHand(status string, err error) (string, error) {
	if j.worker != nil && err == nil {
		j.worker.mutex.Lock()
		j.ended = true
		j.worker.mutex.Unlock()
	}
	return status, err
}

// Ack ends the job: it is processed. The result may be nil. The status is processed.
func (j *Job) Ack(ctx context.Context, result any) (status string, err error) {
	row, err := j.ackRow(result)
	if err != nil {
		return "", err
	}
	answer, err := j.queue.api().AckMessages(ctx, &api.AckMessagesRequest{Queue: j.queue.Name, Token: row.Token,
		Result: row.Result, ResultBase64: row.ResultBase64, ResultType: row.ResultType})
	return j.settledByHand(answer.Status, err)
}

// Fail ends this attempt. The settings of the queue say whether the message is retried.
// The status is retrying, dead-lettered or cancelled.
func (j *Job) Fail(ctx context.Context, reason string) (status string, err error) {
	in := &api.FailMessagesRequest{Queue: j.queue.Name, Token: j.Token, Reason: reason}
	answer, err := j.queue.api().FailMessages(ctx, in)
	return j.settledByHand(answer.Status, err)
}

// Release gives the message back. It is ready again after the delay, and no attempt is counted.
func (j *Job) Release(ctx context.Context, delay time.Duration) (status string, err error) {
	answer, err := j.queue.api().ReleaseMessages(ctx, &api.ReleaseMessagesRequest{Queue: j.queue.Name, Token: j.Token,
		Delay: api.Duration(delay)})
	return j.settledByHand(answer.Status, err)
}

// Renew makes the lock last for this time from now on. 0: that of the queue. A worker renews by
// itself.
func (j *Job) Renew(ctx context.Context, visibility time.Duration) (status string, err error) {
	in := &api.RenewLocksRequest{Queue: j.queue.Name, Token: j.Token, Visibility: api.Duration(visibility)}
	in.Progress, in.ProgressText = j.percent, j.text
	answer, err := j.queue.api().RenewLocks(ctx, in)
	return answer.Status, err
}

// Progress reports how far the job is, 0 to 100, and what it does. It travels with the next
// renewal.
func (j *Job) Progress(percent int, text string) {
	if j.worker != nil {
		j.worker.mutex.Lock()
		defer j.worker.mutex.Unlock()
	}
	p := int64(percent)
	j.percent, j.text = &p, text
}

// Err says why the context of the handler has ended: ErrLockLost, ErrInterrupted or ErrStopping.
// It is nil as long as the job may go on.
func (j *Job) Err() error {
	if j.worker == nil {
		return nil
	}
	j.worker.mutex.Lock()
	defer j.worker.mutex.Unlock()
	return j.why
}

// Signal is a steer or a question to a running job. The handler answers the signals of a job in the
// order of their numbers.
type Signal struct {
	api.Signal
	job *Job
}

// Signals returns the channel of the signals to the job. A signal to a handler that never calls
// Signals is declined after 30 s.
func (j *Job) Signals() <-chan *Signal {
	j.listening.Do(func() { close(j.listens) })
	return j.inbox
}

// Decode translates the payload to a Go value.
func (s *Signal) Decode(into any) error {
	return s.job.queue.client.decode(s.Payload, s.PayloadBase64, "", into)
}

// Ack says that the signal was done. The answer may be nil.
func (s *Signal) Ack(ctx context.Context, answer any) error { return s.end(ctx, answer, false) }

// Decline says that the job does not do it, and why.
func (s *Signal) Decline(ctx context.Context, reason string) error { return s.end(ctx, reason, true) }

func (s *Signal) end(ctx context.Context, answer any, decline bool) error {
	in := &api.AckSignalsRequest{Queue: s.job.queue.Name, Token: s.job.Token, Number: s.Number, Decline: decline}
	if answer != nil {
		value, err := s.job.queue.client.encode(answer)
		if err != nil {
			return err
		}
		in.Answer, in.AnswerBase64 = value.value, value.bytes
	}
	_, err := s.job.queue.api().AckSignals(ctx, in)
	return err
}

type traceKey struct{}

// WithTraceparent returns a context whose sends have this header traceparent (W3C Trace Context).
// The context of a handler has that of its job.
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	return context.WithValue(ctx, traceKey{}, traceparent)
}

// Traceparent returns the header of the context, or "".
func Traceparent(ctx context.Context) string {
	text, _ := ctx.Value(traceKey{}).(string)
	return text
}
