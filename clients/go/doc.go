// SPDX-License-Identifier: Apache-2.0

// Package sluice is the client of Sluice, a durable work queue.
//
// A producer opens a Client and sends:
//
//	client, err := sluice.Open("http://127.0.0.1:7333", nil)
//	sent, err := client.Queue("mail").Send(ctx, map[string]any{"to": "ann"}, nil)
//
// A worker runs a handler for each message:
//
//	worker := sluice.NewWorker(client, "mail", sendMail, &sluice.WorkerOptions{Concurrency: 8})
//	err := worker.RunUntilSignal()
//
// # Repeats
//
// Every write has a request id. If no answer comes, the client repeats the request with the same id,
// and it takes effect once. At the deadline (Options.Timeout, or that of the context) the error is
// ErrUnavailable if no attempt can have taken effect, else ErrOutcomeUnknown. Calls that may not be
// repeated, such as Redrive, are sent once.
//
// # Several nodes
//
// A URL may name several nodes of one store: "http://a:7333,b:7333". Calls are spread over them, and
// go to the owner of a shard if the nodes have told it. If a node does not answer, another one gets
// the call.
//
// # Workers
//
// A worker holds the locks of its jobs and renews them on connections of its own, after a third of
// the lock time. If a lock cannot be renewed, the context of the handler ends before the lock does.
// The outcome of the handler is then not sent, because another worker may have the message.
//
// Acks travel with the next receive, or alone after 10 ms. A worker never holds messages that no
// handler works on.
//
// # Bodies
//
// Bodies and results are JSON by default. A []byte travels as bytes. Options.Codec replaces JSON.
// The header traceparent travels from the context of a Send to the context of the handler.
package sluice
