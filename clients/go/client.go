// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"log"
	"os"
	"time"

	"sluice/api"
)

// Client is a connection to one node, or to several nodes of one store. It is safe for use by
// several goroutines. A program needs one.
type Client struct {
	main, renewals *transport // renewals never wait for the connections of other calls
	codec          Codec
	logger         Logger
}

// Options of Open. A nil pointer is the same as an empty struct.
type Options struct {
	// The access token. Default: $SLUICE_TOKEN.
	Token string
	// How long a call is repeated while no node answers. Default: 30 s. A context can shorten it.
	Timeout time.Duration
	// For https URLs.
	TLS *tls.Config
	// Translates bodies and results. Default: JSON.
	Codec Codec
	// Gets what workers have to report. Default: the standard logger.
	Logger Logger
}

// Logger gets a sentence about a problem that does not stop a worker. *log.Logger is one.
type Logger interface {
	Printf(format string, args ...any)
}

// Codec translates values to the bytes of bodies and results, and back. The content type travels
// with them.
type Codec interface {
	Encode(value any) (text []byte, contentType string, err error)
	Decode(text []byte, contentType string, into any) error
}

// Open returns a client for the nodes of the URL: "http://a:7333", or "http://a:7333,b:7333" for
// several nodes of one store. An empty URL is $SLUICE_STORE. It does not connect yet.
func Open(url string, o *Options) (*Client, error) {
	if o == nil {
		o = &Options{}
	}
	if url == "" {
		if url = os.Getenv("SLUICE_STORE"); url == "" {
			return nil, invalid("store", "no node is named: give a URL such as http://host:7333, or set SLUICE_STORE")
		}
	}
	urls, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	token, timeout, logger := o.Token, o.Timeout, o.Logger
	if token == "" {
		token = os.Getenv("SLUICE_TOKEN")
	}
	if timeout <= 0 {
		timeout = 30 * time.Second
	}
	if logger == nil {
		logger = log.Default()
	}
	n := newNodes(urls)
	c := &Client{codec: o.Codec, logger: logger}
	c.main, c.renewals = newTransport(n, token, timeout, o.TLS), newTransport(n, token, timeout, o.TLS)
	n.http = newTransport(n, "", timeout, o.TLS).http // a probe has no token
	return c, nil
}

// Close closes the idle connections. Calls that run are not affected.
func (c *Client) Close() {
	for _, t := range []*transport{c.main, c.renewals} {
		t.http.CloseIdleConnections()
	}
	c.main.nodes.http.CloseIdleConnections()
}

// API has all calls of the HTTP interface, with the repeats and errors of the client.
func (c *Client) API() api.Calls { return api.Calls{Do: c.main.do} }

// Queue returns a handle on the queue. It makes no request.
func (c *Client) Queue(name string) *Queue { return &Queue{Name: name, client: c} }

// Create creates a queue. If it exists with the same settings, that is no error. If it exists with
// other settings, the error is ErrConflict.
func (c *Client) Create(ctx context.Context, name string, settings Settings) (*Queue, error) {
	if settings == nil {
		settings = Settings{}
	}
	_, err := c.API().CreateQueue(ctx, &api.CreateQueueRequest{Queue: name, Settings: settings})
	return c.Queue(name), err
}

// Queues lists the queues that the token may read.
func (c *Client) Queues(ctx context.Context) ([]api.QueueRow, error) {
	var rows []api.QueueRow
	for after := ""; ; after = rows[len(rows)-1].Name {
		list, err := c.API().ListQueues(ctx, &api.ListQueuesRequest{After: after})
		if err != nil {
			return nil, err
		}
		rows = append(rows, list.Queues...)
		if !list.More || len(list.Queues) == 0 {
			return rows, nil
		}
	}
}

// Settings are settings of a queue, nested or with dotted names:
//
//	sluice.Settings{"visibilityTimeout": time.Minute, "failureStrategy.maxRetries": 3}
type Settings = api.Settings

// A value on its way to a node: JSON, or bytes with a content type.
type encoded struct {
	value       json.RawMessage
	bytes       []byte
	contentType string
}

func (c *Client) encode(value any) (encoded, error) {
	raw, isBytes := value.([]byte)
	if isBytes && len(raw) == 0 {
		return encoded{value: json.RawMessage(`""`)}, nil
	}
	if isBytes {
		return encoded{bytes: raw}, nil
	}
	if c.codec != nil {
		text, contentType, err := c.codec.Encode(value)
		if err != nil {
			return encoded{}, invalid("body", "the codec cannot encode %T: %v", value, err)
		}
		return encoded{bytes: text, contentType: contentType}, nil
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return encoded{}, invalid("body", "%T cannot be JSON: %v", value, err)
	}
	return encoded{value: bytes.TrimSpace(out.Bytes())}, nil
}

// plainBytes returns the bytes of a body or a result: those of a text, or a JSON value as text.
func plainBytes(value json.RawMessage, raw []byte) []byte {
	if raw != nil || value == nil {
		return raw
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return []byte(text)
	}
	return value
}

func (c *Client) decode(value json.RawMessage, raw []byte, contentType string, into any) error {
	text := plainBytes(value, raw)
	if target, ok := into.(*[]byte); ok {
		*target = text
		return nil
	}
	if c.codec != nil {
		return c.codec.Decode(text, contentType, into)
	}
	if value != nil && json.Unmarshal(value, into) == nil {
		return nil
	}
	return json.Unmarshal(text, into) // a sender may have sent JSON as a text
}
