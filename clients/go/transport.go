// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"sluice/api"
)

const (
	pauseMin    = 10 * time.Millisecond
	pauseMax    = time.Second
	lateness    = time.Second     // a node whose time runs out together with ours can still answer
	attemptTime = 5 * time.Second // for an answer, if there are other nodes
	connectTime = time.Second     // for a connection, if there are other nodes
)

// transport sends requests to the nodes. It has connections of its own.
type transport struct {
	nodes   *nodes
	token   string
	timeout time.Duration
	http    *http.Client
}

func newTransport(n *nodes, token string, timeout time.Duration, config *tls.Config) *transport {
	dialer := net.Dialer{Timeout: timeout, KeepAlive: 15 * time.Second}
	if len(n.urls) > 1 {
		dialer.Timeout = connectTime
	}
	return &transport{nodes: n, token: token, timeout: timeout, http: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         dialer.DialContext,
			TLSClientConfig:     config,
			TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConnsPerHost: 256,
			IdleConnTimeout:     50 * time.Second, // a node closes an idle connection after 60 s
		}}}
}

func newRequestID() string {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		panic(err) // the system has no randomness
	}
	return hex.EncodeToString(id[:])
}

func parseRequestID(text string) (id [16]byte) {
	_, _ = hex.Decode(id[:], []byte(text))
	return id
}

// do sends the request until it is answered. A request that got no answer is repeated if that is
// safe, at another node if there is one, with the same request id. At the deadline the error is
// ErrUnavailable if no attempt can have taken effect, else ErrOutcomeUnknown.
func (t *transport) do(ctx context.Context, r *api.Request, answer any) error {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = json.Marshal(r.Body); err != nil {
			return invalid("body", "the request cannot be JSON: %v", err)
		}
	}
	if r.Op.Repeat == api.RepeatID && r.ID == "" {
		r.ID = newRequestID()
	}
	once := r.Op.Repeat == api.RepeatOnce && !r.Same
	others := len(t.nodes.urls) > 1 && !once
	until := time.Now().Add(t.timeout)
	w := walk{left: len(t.nodes.urls)}
	prefer := t.nodes.owner(r)
	maybe := false
	for rounds := 0; ; {
		left := time.Until(until)
		if others && left > attemptTime {
			left = attemptTime
		}
		node := t.nodes.next(&w, prefer)
		text, e, applied := t.attempt(ctx, node, r, body, left+r.Wait+lateness, others)
		if e == nil {
			r.Again = maybe
			return decodeAnswer(text, answer)
		}
		maybe = maybe || applied
		e.RequestID = r.ID
		undecided := e.Code == ErrUnavailable.Code || e.Code == ErrOutcomeUnknown.Code
		final := !undecided || (applied && once) || ctx.Err() != nil
		if !final && w.left > 0 && time.Now().Before(until) {
			continue // another node may answer at once
		}
		if final || isFinal(e) || !pause(ctx, rounds, until) {
			return giveUp(ctx, e, maybe)
		}
		rounds++
	}
}

// A further attempt would have the same answer, or the caller must know this one.
func isFinal(e *Error) bool {
	switch e.Reason {
	case reasonUpgradeNeeded, reasonNoOwner, reasonPaused, reasonDraining:
		return e.Code == ErrUnavailable.Code
	}
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var certificate x509.CertificateInvalidError
	return errors.As(e.cause, &authority) || errors.As(e.cause, &host) || errors.As(e.cause, &certificate)
}

// If an earlier attempt may have been applied, a refusal of a later one says nothing about it.
func repeatedCode(code string) string {
	switch code {
	case ErrLimit.Code, ErrUnavailable.Code, ErrDenied.Code:
		return ErrOutcomeUnknown.Code
	}
	return code
}

func giveUp(ctx context.Context, e *Error, maybe bool) error {
	if maybe {
		e.Code = repeatedCode(e.Code)
	}
	if ctx.Err() != nil {
		e.cause = ctx.Err()
	}
	return e
}

// The pause grows with each round and is random, so that clients do not come back together.
// pause returns false if the time is over.
func pause(ctx context.Context, rounds int, until time.Time) bool {
	most := pauseMax
	if rounds < 7 {
		most = pauseMin << rounds
	}
	if left := time.Until(until); left < most {
		most = left
	}
	if most > 0 {
		sleep(ctx, time.Duration(mathrand.Int63n(int64(most)))+1)
	}
	return ctx.Err() == nil && time.Now().Before(until)
}

// sleep returns false if the context ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func decodeAnswer(text []byte, answer any) error {
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return &Error{Code: ErrCorrupt.Code, cause: err,
			Detail: fmt.Sprintf("cannot read the node's answer of %d bytes: %v", len(text), err)}
	}
	return nil
}

func (t *transport) request(ctx context.Context, node int, r *api.Request, body []byte) (*http.Request, error) {
	target := t.nodes.urls[node] + r.Path
	if len(r.Query) > 0 {
		target += "?" + r.Query.Encode()
	}
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	request, err := http.NewRequestWithContext(ctx, r.Op.Method, target, reader)
	if err != nil {
		return nil, err
	}
	for name, values := range r.Header {
		request.Header[name] = values
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if t.token != "" {
		request.Header.Set("Authorization", "Bearer "+t.token)
	}
	if r.ID != "" {
		request.Header.Set("Sluice-Request", r.ID)
	}
	if r.Op.Owned {
		if hash := t.nodes.askOwners(r.Queue); hash != "" {
			request.Header.Set("Sluice-Owners", hash)
		}
	}
	return request, nil
}

// attempt sends the request to one node. applied: the attempt got no answer, or an unclear one, and
// may have taken effect.
func (t *transport) attempt(ctx context.Context, node int, r *api.Request, body []byte, limit time.Duration,
	others bool) (text []byte, e *Error, applied bool) {
	changes := r.Op.Repeat != api.RepeatRead
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if others {
		go t.nodes.watch(ctx, node, cancel)
	}
	// The HTTP package repeats a request by itself only if it wrote nothing of it, and then it gets
	// another connection first.
	var sent atomic.Bool
	request, err := t.request(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { sent.Store(false) },
		WroteHeaders: func() { sent.Store(true) },
	}), node, r, body)
	if err != nil {
		return nil, invalid("store", "%v", err), false
	}
	r.SentAt = time.Now()
	answer, err := t.http.Do(request)
	if err == nil {
		text, err = io.ReadAll(answer.Body)
		answer.Body.Close()
	}
	t.nodes.report(node, err == nil)
	if err != nil {
		applied = changes && sent.Load()
		e = &Error{Code: ErrUnavailable.Code, Detail: fmt.Sprintf("no answer from %s: %v", t.nodes.urls[node], err), cause: err}
		if applied {
			e.Code = ErrOutcomeUnknown.Code
		}
		return nil, e, applied
	}
	if r.Op.Owned && len(t.nodes.urls) > 1 {
		t.nodes.learn(r.Queue, answer.Header.Get("Sluice-Owners"))
	}
	if answer.StatusCode >= 200 && answer.StatusCode < 300 {
		return text, nil, false
	}
	e = readError(t.nodes.urls[node], answer, text)
	applied = e.Code == ErrOutcomeUnknown.Code && changes
	if e.Code == ErrOutcomeUnknown.Code && !changes {
		e.Code = ErrUnavailable.Code
	}
	return nil, e, applied
}
