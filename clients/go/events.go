// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"sluice/api"
)

const (
	silenceMax = 45 * time.Second // a node sends a comment every 15 s
	lineMax    = 4 << 20
)

// EventOptions say which events a stream has.
type EventOptions struct {
	From     string   // the Place of an event, "now", or "0" for the oldest event that is kept
	Types    []string // only these types, such as message-outcome
	Message  string   // only events of this message
	Queues   []string // Client.Stream: only events of these queues
	Workflow string   // Client.Stream: only events of this workflow
}

// Event is an event of a stream.
type Event struct {
	Type  string          // such as message-outcome; gap and end are about the stream itself
	Place string          // a stream that begins From here has the events after this one
	Data  json.RawMessage // the fields of the event
}

// Decode translates the data: that of Queue.Events to an api.Event, for example.
func (e *Event) Decode(into any) error { return json.Unmarshal(e.Data, into) }

// EventStream is a stream of events. If its connection breaks, it continues after the last event.
type EventStream struct {
	ctx     context.Context
	cancel  context.CancelFunc
	client  *Client
	several bool // queues
	make    func(place string) *api.Request
	place   string

	body  io.ReadCloser
	lines *bufio.Reader
	ended bool
}

// Events returns the events of the queue. Without From it begins with the oldest event that is
// kept. Close it, or end the context.
func (q *Queue) Events(ctx context.Context, o *EventOptions) *EventStream {
	if o == nil {
		o = &EventOptions{}
	}
	return q.client.stream(ctx, false, func(place string) *api.Request {
		return api.WatchEvents(&api.WatchEventsRequest{Queue: q.Name, From: o.From, Type: o.Types, Message: o.Message,
			LastEventID: place})
	})
}

// Stream returns the events of several queues, or of all. Without From it begins with the next
// event. Close it, or end the context.
func (c *Client) Stream(ctx context.Context, o *EventOptions) *EventStream {
	if o == nil {
		o = &EventOptions{}
	}
	return c.stream(ctx, true, func(place string) *api.Request {
		return api.WatchQueues(&api.WatchQueuesRequest{Queue: o.Queues, From: o.From, Type: o.Types, Message: o.Message,
			Workflow: o.Workflow, LastEventID: place})
	})
}

func (c *Client) stream(ctx context.Context, several bool, request func(string) *api.Request) *EventStream {
	ctx, cancel := context.WithCancel(ctx)
	return &EventStream{ctx: ctx, cancel: cancel, client: c, several: several, make: request}
}

// Close ends the stream.
func (s *EventStream) Close() {
	s.cancel()
	if s.body != nil {
		s.body.Close()
	}
}

// Next waits for the next event. After the stream has ended, for example with its queue, the error
// is io.EOF.
func (s *EventStream) Next() (*Event, error) {
	until := time.Now().Add(s.client.main.timeout)
	for rounds := 0; !s.ended; {
		if s.body == nil {
			if err := s.connect(); err != nil {
				var e *Error
				retry := errors.As(err, &e) && (undecided(err) && e.Reason != reasonUpgradeNeeded)
				if !retry || !pause(s.ctx, rounds, until) {
					return nil, err
				}
				rounds++
				continue
			}
		}
		event, err := s.read()
		if err == nil && event.Type != "lagged" {
			// A stream of several queues goes on when one of them is deleted.
			deleted := strings.Contains(string(event.Data), `"queue-deleted"`)
			s.ended = event.Type == "end" && !(s.several && deleted)
			return event, nil
		}
		s.body.Close()
		s.body = nil
		if s.ctx.Err() != nil {
			return nil, s.ctx.Err()
		}
		until, rounds = time.Now().Add(s.client.main.timeout), 0
		if !pause(s.ctx, 3, until) { // a node that ends each stream at once is not asked in a tight loop
			return nil, s.ctx.Err()
		}
	}
	return nil, io.EOF
}

func (s *EventStream) connect() error {
	t := s.client.main
	r := s.make(s.place)
	w := walk{left: len(t.nodes.urls)}
	node := t.nodes.next(&w, -1)
	request, err := t.request(s.ctx, node, r, nil)
	if err != nil {
		return invalid("store", "%v", err)
	}
	request.Header.Set("Accept", "text/event-stream")
	answer, err := t.http.Do(request)
	t.nodes.report(node, err == nil)
	if err != nil {
		return &Error{Code: ErrUnavailable.Code, Detail: fmt.Sprintf("no answer from %s: %v", t.nodes.urls[node], err), cause: err}
	}
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, lineMax))
		answer.Body.Close()
		return readError(t.nodes.urls[node], answer, text)
	}
	s.body, s.lines = answer.Body, bufio.NewReader(answer.Body)
	return nil
}

// read returns the next event of the connection. A comment may bring a place, too.
func (s *EventStream) read() (*Event, error) {
	// A connection that is silent is broken.
	silent := time.AfterFunc(silenceMax, func() { s.body.Close() })
	defer silent.Stop()
	event := Event{}
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			return nil, err
		}
		silent.Reset(silenceMax)
		line = strings.TrimRight(line, "\r\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			s.place, event.Place = value, value
		case "event":
			event.Type = value
		case "data":
			event.Data = append(event.Data, value...)
		case "": // the end of an event, or a comment
			if line == "" && event.Data != nil {
				return &event, nil
			}
			if line == "" {
				event = Event{}
			}
		}
	}
}
