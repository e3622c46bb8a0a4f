// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"sluice/api"
)

// Error is the error of a call. Its code says what the caller can do next. Compare it with the
// variables of this package: errors.Is(err, sluice.ErrFenced).
//
// A call that got no answer until its deadline has ErrUnavailable if no attempt can have taken
// effect, else ErrOutcomeUnknown.
type Error struct {
	Code       string        // such as NOT_FOUND
	Reason     string        // a stable word, such as unknown-queue; may be empty
	Field      string        // the field that is wrong; may be empty
	Detail     string        // one sentence
	RequestID  string        // the id of the request; empty: it has none
	Status     int           // of the HTTP answer; 0: there was none
	RetryAfter time.Duration // that the node asked for; 0: it did not
	cause      error
}

func (e *Error) Error() string {
	text := "sluice: " + e.Code
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Is reports whether target has the same code, and is one of the variables of this package.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Detail == "" && t.Reason == "" && t.Code == e.Code
}

// Unwrap returns the error of the network or of the context, if there is one.
func (e *Error) Unwrap() error { return e.cause }

func invalid(field, format string, args ...any) *Error {
	return &Error{Code: ErrInvalid.Code, Field: field, Detail: fmt.Sprintf(format, args...)}
}

// The reasons that the client acts upon.
const (
	reasonUpgradeNeeded = "upgrade-needed"
	reasonNoOwner       = "no-owner"
	reasonPaused        = "worker-paused"
	reasonDraining      = "worker-draining"
)

func problemError(p *api.Problem) *Error {
	return &Error{Code: p.Code, Reason: p.Reason, Field: p.Field, Detail: p.Detail}
}

// The error of an answer whose status is not 2xx.
func readError(node string, answer *http.Response, body []byte) *Error {
	var p api.Problem
	if json.Unmarshal(body, &p) != nil || p.Code == "" {
		return foreignError(node, answer.StatusCode)
	}
	e := problemError(&p)
	e.Status = answer.StatusCode
	if seconds, err := time.ParseDuration(answer.Header.Get("Retry-After") + "s"); err == nil {
		e.RetryAfter = seconds
	}
	if e.Reason == "unknown-path" || e.Reason == "method-not-allowed" {
		e.Code, e.Reason = ErrUnavailable.Code, reasonUpgradeNeeded
		e.Detail = "upgrade needed: the node at " + node +
			" does not know this call; use a newer release there"
	}
	return e
}

// The answer is not from a node: a proxy or another server sent it.
func foreignError(node string, status int) *Error {
	e := &Error{Status: status, Detail: fmt.Sprintf("%s answered %d, but not like a Sluice node", node, status)}
	switch status {
	case 401, 403:
		e.Code = ErrDenied.Code
	case 413, 429:
		e.Code = ErrLimit.Code
	case 500, 502, 503, 504:
		e.Code = ErrOutcomeUnknown.Code
	default:
		e.Code = ErrInvalid.Code
		e.Detail = fmt.Sprintf("%s answered %d and is not a Sluice node; check the URL "+
			"(a node listens on 7333 by default)", node, status)
	}
	return e
}

// A row of a batch that was refused.
func rowError(code, reason, what string) *Error {
	e := &Error{Code: code, Reason: reason, Detail: what + " was refused"}
	return e
}
