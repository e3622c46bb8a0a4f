// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"sluice/api"
)

const (
	itemsMax   = 10000                 // messages or tokens in one request
	partBytes  = 8 << 20               // of messages in one request, unless one message is larger
	waitMax    = 20 * time.Second      // of one request
	collectMax = 100000                // messages in one collect
	gatherTime = 20 * time.Millisecond // so that the next answer of a collect has several messages
)

// Queue is a handle on a queue. Make it with Client.Queue.
type Queue struct {
	Name   string
	client *Client
}

// SendOptions of a message. A nil pointer is the same as an empty struct.
type SendOptions struct {
	Group        string            // messages of a group stay on one shard
	Dedup        string            // a second message with this key is not stored
	Priority     int               // 0 to 9; higher values are delivered first
	Delay        time.Duration     // delays the delivery
	At           time.Time         // the earliest time of delivery, instead of Delay
	Workflow     string            // the id of a workflow
	WorkflowLast bool              // the last message of its workflow
	Requires     string            // labels that the worker must have: kind=gpu
	ContentType  string            // default: that of the codec
	Headers      map[string]string // traceparent is added if the context has one
	Type         string            // the kind of the job: the header sluice-type (see Worker.Handle)
}

// Message is a body with its options, for SendMany.
type Message struct {
	Body any
	SendOptions
}

// Sent is what became of a message that was sent.
type Sent struct {
	ID        string
	Duplicate bool  // the dedup key was known; ID is that of the first message
	Err       error // why SendMany could not send this message
}

// Send sends one message. The body is any value that can be JSON, or bytes.
func (q *Queue) Send(ctx context.Context, body any, o *SendOptions) (*Sent, error) {
	if o == nil {
		o = &SendOptions{}
	}
	row, err := q.newMessage(ctx, &Message{Body: body, SendOptions: *o})
	if err != nil {
		return nil, err
	}
	in := &api.SendMessagesRequest{Queue: q.Name, Body: row.Body, BodyBase64: row.BodyBase64, Group: row.Group,
		Dedup: row.Dedup, Priority: row.Priority, Delay: row.Delay, Due: row.Due, Workflow: row.Workflow,
		WorkflowLast: row.WorkflowLast, Requires: row.Requires, ContentType: row.ContentType, Headers: row.Headers}
	answer, err := q.api().SendMessages(ctx, in)
	if err != nil {
		return nil, err
	}
	return &Sent{ID: answer.ID, Duplicate: answer.Duplicate}, nil
}

// SendMany sends messages in as few requests as possible. If some are refused, the error is the
// first refusal, and Err of each row says what became of its message.
func (q *Queue) SendMany(ctx context.Context, messages []Message) ([]Sent, error) {
	rows := make([]api.NewMessage, len(messages))
	for i := range messages {
		row, err := q.newMessage(ctx, &messages[i])
		if err != nil {
			return nil, err
		}
		rows[i] = row
	}
	sent := make([]Sent, len(rows))
	var first error
	for done := 0; done < len(rows); {
		count := partLen(rows[done:])
		if err := q.sendPart(ctx, rows[done:done+count], sent[done:done+count]); first == nil {
			first = err
		}
		done += count
	}
	return sent, first
}

func partLen(rows []api.NewMessage) int {
	size := 0
	for i := range rows {
		size += len(rows[i].Body) + len(rows[i].BodyBase64)*4/3 + 256
		if i > 0 && (size > partBytes || i == itemsMax) {
			return i
		}
	}
	return len(rows)
}

func (q *Queue) newMessage(ctx context.Context, m *Message) (api.NewMessage, error) {
	body, err := q.client.encode(m.Body)
	row := api.NewMessage{Body: body.value, BodyBase64: body.bytes, ContentType: m.ContentType, Group: m.Group,
		Dedup: m.Dedup, Priority: int64(m.Priority), Delay: api.Duration(m.Delay), Workflow: m.Workflow,
		WorkflowLast: m.WorkflowLast, Requires: m.Requires, Headers: m.Headers}
	if row.ContentType == "" {
		row.ContentType = body.contentType
	}
	if !m.At.IsZero() {
		row.Due = m.At.UnixMilli()
	}
	trace := Traceparent(ctx)
	_, given := m.Headers["traceparent"]
	if m.Type != "" || (trace != "" && !given) {
		row.Headers = map[string]string{}
		for name, value := range m.Headers {
			row.Headers[name] = value
		}
		if m.Type != "" {
			row.Headers[typeHeader] = m.Type
		}
		if trace != "" && !given {
			row.Headers["traceparent"] = trace
		}
	}
	return row, err
}

func (q *Queue) sendPart(ctx context.Context, rows []api.NewMessage, sent []Sent) error {
	in := &api.SendMessagesRequest{Queue: q.Name, Messages: rows}
	var again bool
	answer, err := q.calls(&again).SendMessages(ctx, in)
	var first error
	for i := range sent {
		switch {
		case err != nil:
			sent[i].Err = err
		case i >= len(answer.SentMany.Sent):
			sent[i].Err = &Error{Code: ErrCorrupt.Code, Detail: "the answer has too few rows"}
		default:
			row := answer.SentMany.Sent[i]
			sent[i] = Sent{ID: row.ID, Duplicate: row.Duplicate}
			if again {
				row.Code = repeatedCode(row.Code)
			}
			if row.Code != "OK" {
				sent[i].Err = rowError(row.Code, "", fmt.Sprintf("messages[%d]", i))
			}
		}
		if first == nil {
			first = sent[i].Err
		}
	}
	return first
}

// calls reports whether the call was repeated after it may have been applied.
func (q *Queue) calls(again *bool) api.Calls {
	return api.Calls{Do: func(ctx context.Context, r *api.Request, answer any) error {
		err := q.client.main.do(ctx, r, answer)
		*again = r.Again
		return err
	}}
}

func (q *Queue) api() api.Calls { return q.client.API() }

// ReceiveOptions of a receive.
type ReceiveOptions struct {
	Max        int           // most messages, default 1
	Wait       time.Duration // for the first message; default 20 s, and at most that; negative: none
	Visibility time.Duration // how long the locks last; default: that of the queue
	Worker     string        // a name that is shown with the locks
}

// Receive locks messages. If none is ready, it waits; the list is empty if none came. The caller
// must end each job with Ack, Fail or Release before its lock ends, and renew the lock until then.
// A Worker does all that by itself.
func (q *Queue) Receive(ctx context.Context, options ...ReceiveOptions) ([]*Job, error) {
	o := ReceiveOptions{}
	if len(options) > 0 {
		o = options[0]
	}
	switch {
	case o.Wait < 0:
		o.Wait = 0
	case o.Wait == 0 || o.Wait > waitMax:
		o.Wait = waitMax
	}
	in := &api.ReceiveMessagesRequest{Queue: q.Name, Max: int64(o.Max), Wait: api.Duration(o.Wait),
		Visibility: api.Duration(o.Visibility), Worker: o.Worker}
	answer, err := q.api().ReceiveMessages(ctx, in)
	if err != nil {
		return nil, err
	}
	jobs := make([]*Job, len(answer.Messages))
	for i := range answer.Messages {
		jobs[i] = newJob(q, &answer.Messages[i])
	}
	return jobs, nil
}

// Result is how a message ended.
type Result struct {
	api.Ended
	client *Client
}

// Decode translates the result of the job to a Go value.
func (r *Result) Decode(into any) error {
	value := r.Ended.Result
	if r.ResultType == jsonType {
		value = plainBytes(value, nil)
	}
	return r.client.decode(value, nil, r.ResultType, into)
}

// EndError says that a message ended and was not processed.
type EndError struct{ Result *Result }

func (e *EndError) Error() string {
	text := fmt.Sprintf("sluice: message %s ended as %s", e.Result.ID, e.Result.State)
	if e.Result.Reason != "" {
		text += ": " + e.Result.Reason
	}
	return text
}

// Result waits until the message has ended, or until the context ends. If the message was not
// processed, the error is an *EndError.
func (q *Queue) Result(ctx context.Context, id string) (*Result, error) {
	rows, err := q.Collect(ctx, []string{id})
	if err != nil {
		return nil, err
	}
	if rows[0].State != "processed" && rows[0].State != "finished" {
		return rows[0], &EndError{rows[0]}
	}
	return rows[0], nil
}

// Collect waits until all messages have ended, and returns how, in the order of the ids. If the
// context ends first, the rows of messages that have not ended are nil.
func (q *Queue) Collect(ctx context.Context, ids []string) ([]*Result, error) {
	found := make(map[string]*Result, len(ids))
	var err error
	for left := ids; len(left) > 0 && err == nil; left = missing(left, found) {
		part := left
		if len(part) > collectMax {
			part = part[:collectMax]
		}
		var answer *api.Collected
		answer, err = q.api().CollectMessages(ctx, &api.CollectMessagesRequest{Queue: q.Name, IDs: part, Wait: waitOf(ctx)})
		for i := 0; err == nil && i < len(answer.Messages); i++ {
			found[answer.Messages[i].ID] = &Result{answer.Messages[i], q.client}
		}
		if err == nil && !answer.More && len(found) < len(ids) {
			sleep(ctx, gatherTime)
		}
	}
	if e, ok := err.(*Error); ok && e.Code == ErrOutcomeUnknown.Code {
		e.Code = ErrUnavailable.Code // it asks no running job, so it changes nothing
	}
	rows := make([]*Result, len(ids))
	for i, id := range ids {
		rows[i] = found[id]
	}
	return rows, err
}

// waitOf returns how long a request may wait: up to the end of the context.
func waitOf(ctx context.Context) api.Duration {
	wait := waitMax
	if end, ok := ctx.Deadline(); ok && time.Until(end) < wait {
		wait = time.Until(end)
	}
	if wait < 0 {
		wait = 0
	}
	return api.Duration(wait)
}

func missing(ids []string, found map[string]*Result) []string {
	var out []string
	for _, id := range ids {
		if found[id] == nil {
			out = append(out, id)
		}
	}
	return out
}

// Administration

// Info returns the settings of the queue.
func (q *Queue) Info(ctx context.Context) (*api.Queue, error) {
	return q.api().ShowQueue(ctx, &api.ShowQueueRequest{Queue: q.Name})
}

// Change changes some settings, all or none.
func (q *Queue) Change(ctx context.Context, settings Settings) (*api.Queue, error) {
	return q.api().ChangeQueue(ctx, &api.ChangeQueueRequest{Queue: q.Name, Settings: settings})
}

// Delete deletes the queue and its messages. The id is that of Info. With an id the call is
// repeated if its answer is lost; a new queue of the same name is then not deleted.
func (q *Queue) Delete(ctx context.Context, id string) error {
	return q.api().DeleteQueue(ctx, &api.DeleteQueueRequest{Queue: q.Name, ID: id})
}

// Stats counts the messages of the queue.
func (q *Queue) Stats(ctx context.Context) (*api.Stats, error) {
	return q.api().QueueStats(ctx, &api.QueueStatsRequest{Queue: q.Name})
}

// Pause stops the delivery of messages.
func (q *Queue) Pause(ctx context.Context) error {
	return q.api().PauseQueue(ctx, &api.PauseQueueRequest{Queue: q.Name})
}

// Resume ends a pause.
func (q *Queue) Resume(ctx context.Context) error {
	return q.api().ResumeQueue(ctx, &api.ResumeQueueRequest{Queue: q.Name})
}

// Purge deletes the ready and delayed messages, or the dead ones. It returns how many.
func (q *Queue) Purge(ctx context.Context, dead bool) (int64, error) {
	answer, err := q.api().PurgeQueue(ctx, &api.PurgeQueueRequest{Queue: q.Name, Dead: dead})
	return answer.Purged, err
}

// Redrive makes dead messages ready again in the queue that they died in. max 0: all. It returns
// how many. It is not repeated if its answer is lost.
func (q *Queue) Redrive(ctx context.Context, max int) (int64, error) {
	answer, err := q.api().Redrive(ctx, &api.RedriveRequest{Queue: q.Name, Max: int64(max)})
	return answer.Redriven, err
}

// Show returns one message with its failures, its result and its signals.
func (q *Queue) Show(ctx context.Context, id string) (*api.Message, error) {
	return q.api().ShowMessage(ctx, &api.ShowMessageRequest{Queue: q.Name, ID: id})
}

// Cancel ends a message that no worker holds.
func (q *Queue) Cancel(ctx context.Context, id, reason string) error {
	_, err := q.api().CancelMessage(ctx, &api.CancelMessageRequest{Queue: q.Name, ID: id, Reason: reason})
	return err
}

// Workers lists the workers that are registered, hold locks or wait.
func (q *Queue) Workers(ctx context.Context) ([]api.Worker, error) {
	answer, err := q.api().ListWorkers(ctx, &api.ListWorkersRequest{Queue: q.Name})
	return answer.Workers, err
}

// Steer gives a running job new parameters: an object of keys and values. It returns the id of the
// signal, for Answer.
func (q *Queue) Steer(ctx context.Context, id string, payload any) (string, error) {
	return q.signal(ctx, id, "steer", payload, &api.SignalMessageRequest{})
}

// Ask asks a running job. Answer waits for the answer.
func (q *Queue) Ask(ctx context.Context, id string, question any) (string, error) {
	return q.signal(ctx, id, "ask", question, &api.SignalMessageRequest{})
}

// Interrupt ends a message. If a worker holds it, the worker's handler is told, and has the grace
// to stop.
func (q *Queue) Interrupt(ctx context.Context, id, reason string, grace time.Duration) error {
	d := api.Duration(grace)
	_, err := q.signal(ctx, id, "interrupt", nil, &api.SignalMessageRequest{Reason: reason, Grace: &d})
	return err
}

func (q *Queue) signal(ctx context.Context, id, kind string, payload any, in *api.SignalMessageRequest) (string, error) {
	in.Queue, in.ID, in.Kind = q.Name, id, kind
	if payload != nil {
		text, err := json.Marshal(payload)
		if err != nil {
			return "", invalid("payload", "%T cannot be JSON: %v", payload, err)
		}
		in.Payload = text
	}
	answer, err := q.api().SignalMessage(ctx, in)
	if err == nil && answer.Error != nil {
		err = problemError(answer.Error)
	}
	return answer.ID, err
}

// Answer waits until a signal has ended, or until the context ends. State of the row is acked,
// declined, expired, missed, withdrawn or applied.
func (q *Queue) Answer(ctx context.Context, signal string) (*api.Signal, error) {
	for {
		answer, err := q.api().WaitForSignal(ctx, &api.WaitForSignalRequest{Queue: q.Name, Signal: signal,
			Wait: waitOf(ctx)})
		if err != nil {
			return nil, err
		}
		for i := range answer.Signals {
			if answer.Signals[i].State != "pending" {
				return &answer.Signals[i], nil
			}
		}
	}
}
