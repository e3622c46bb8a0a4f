// SPDX-License-Identifier: Apache-2.0

// Package api has the types and calls of the HTTP interface of a Sluice node. tools/make-clients
// makes them from api/openapi.json.
//
// Programs use the package sluice. They use this package for calls that sluice has no method for:
//
//	answer, err := client.API().ListWorkflows(ctx, &api.ListWorkflowsRequest{Queue: "mail"})
package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Repeat says whether a call may be sent again when its answer is lost.
type Repeat int

const (
	RepeatRead Repeat = iota // it changes nothing
	RepeatSame               // a repetition has the same result
	RepeatID                 // it may be repeated with its request id
	RepeatOnce               // it may not be repeated after it may have arrived
)

// Operation is a call of the interface.
type Operation struct {
	Name, Method string
	Repeat       Repeat
	Owned        bool // a node forwards it to the owner of a shard
	Stream       bool // the answer is a stream of Server-Sent Events
}

// Request is one call with its values.
type Request struct {
	Op     *Operation
	Path   string // percent-encoded
	Queue  string // that the path names; "": none
	Query  url.Values
	Header http.Header
	Body   any           // becomes JSON; nil: none
	In     any           // the request struct
	Wait   time.Duration // how long the node may wait on purpose
	Same   bool          // it may be repeated, even if Op says that it may not

	ID     string    // the request id; if it is empty, the caller of Do draws one
	SentAt time.Time // when the last attempt was sent; set by Do
	Again  bool      // an earlier attempt may have been applied; set by Do
}

func (r *Request) setHeader(name, value string) {
	if value == "" {
		return
	}
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set(name, value)
}

// Calls has one method for each call of the interface. Do sends the request until it is answered.
type Calls struct {
	Do func(ctx context.Context, r *Request, answer any) error
}

// Settings are settings of a queue, nested or with dotted names. A time.Duration is a duration.
type Settings map[string]any

// MarshalJSON writes durations with their unit.
func (s Settings) MarshalJSON() ([]byte, error) {
	out := make(map[string]any, len(s))
	for name, value := range s {
		switch v := value.(type) {
		case time.Duration:
			out[name] = Duration(v)
		case map[string]any:
			out[name] = Settings(v)
		default:
			out[name] = v
		}
	}
	return json.Marshal(out)
}

// Duration is a time.Duration that is a number of milliseconds in JSON.
type Duration time.Duration

func (d Duration) millis() int64 {
	ms := time.Duration(d).Milliseconds()
	if ms == 0 && d > 0 {
		return 1 // 0 means something else
	}
	return ms
}

// MarshalJSON writes milliseconds.
func (d Duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, d.millis(), 10), nil
}

// UnmarshalJSON reads milliseconds, or a text such as "30s".
func (d *Duration) UnmarshalJSON(text []byte) error {
	s := strings.Trim(string(text), `"`)
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		*d = Duration(time.Duration(ms) * time.Millisecond)
		return nil
	}
	parsed, err := ParseDuration(s)
	*d = Duration(parsed)
	return err
}

// ParseDuration reads a duration of the settings of a queue: "1500ms", "30s", "5m", "2h", "1d".
func ParseDuration(text string) (time.Duration, error) {
	number, unit := strings.TrimRight(text, "dhms"), time.Duration(0)
	switch text[len(number):] {
	case "ms":
		unit = time.Millisecond
	case "s":
		unit = time.Second
	case "m":
		unit = time.Minute
	case "h":
		unit = time.Hour
	case "d":
		unit = 24 * time.Hour
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || (unit == 0 && value != 0) {
		return 0, fmt.Errorf("%q is not a duration such as 30s", text)
	}
	return time.Duration(value * float64(unit)), nil
}

// A value that is zero is not sent.
func addQuery(query url.Values, name string, value any) {
	switch v := value.(type) {
	case string:
		if v != "" {
			query.Set(name, v)
		}
	case int64:
		if v != 0 {
			query.Set(name, strconv.FormatInt(v, 10))
		}
	case bool:
		if v {
			query.Set(name, "1")
		}
	case Duration:
		if v != 0 {
			query.Set(name, strconv.FormatInt(v.millis(), 10)+"ms")
		}
	}
}

// Event is the data of an event of WatchEvents.
type Event struct {
	ID          string  `json:"id"`   // the same for every reader
	Type        string  `json:"type"` // such as message-outcome
	Queue       string  `json:"queue"`
	Message     string  `json:"message"` // empty: it is about the queue
	Attempt     int64   `json:"attempt"`
	Time        int64   `json:"time"` // milliseconds since 1970
	Status      string  `json:"status"`
	Reason      string  `json:"reason"`
	Worker      string  `json:"worker"`
	Fence       int64   `json:"fence"`
	Until       int64   `json:"until"`
	Count       int64   `json:"count"`
	From        *Origin `json:"from"`
	Position    int64   `json:"position"` // of its journal entry
	Shard       int64   `json:"shard"`
	Sequence    int64   `json:"sequence"` // its number in its shard
	Workflow    string  `json:"workflow"`
	OrderingKey string  `json:"orderingKey"`
	Signal      string  `json:"signal"`
	SignalKind  string  `json:"signalKind"`
}
