// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"sluice"
	"sluice/sluicetest"
)

type letter struct{ To string }

func sendMail(ctx context.Context, job *sluice.Job) (any, error) {
	var l letter
	if err := job.Decode(&l); err != nil {
		return nil, err
	}
	return "sent to " + l.To, nil
}

// exampleNode starts a node for an example, and creates the queue mail.
func exampleNode() (*sluice.Client, func()) {
	client, stop, err := sluicetest.StartNode()
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.Create(context.Background(), "mail", nil); err != nil {
		log.Fatal(err)
	}
	return client, stop
}

func Example() {
	client, stop := exampleNode()
	defer stop()
	ctx := context.Background()
	queue := client.Queue("mail")
	sent, err := queue.Send(ctx, letter{To: "ann"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	worker := sluice.NewWorker(client, "mail", sendMail, &sluice.WorkerOptions{Concurrency: 8})
	if err := worker.RunUntilEmpty(ctx); err != nil { // a service calls RunUntilSignal
		log.Fatal(err)
	}
	result, err := queue.Result(ctx, sent.ID)
	if err != nil {
		log.Fatal(err)
	}
	var text string
	_ = result.Decode(&text)
	fmt.Println(text)
	// Output: sent to ann
}

func ExampleQueue_Receive() {
	client, stop := exampleNode()
	defer stop()
	ctx := context.Background()
	queue := client.Queue("mail")
	_, _ = queue.Send(ctx, letter{To: "bob"}, &sluice.SendOptions{Priority: 5})
	jobs, err := queue.Receive(ctx, sluice.ReceiveOptions{Max: 10})
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		status, err := job.Ack(ctx, nil)
		fmt.Printf("%s %s %v\n", job.Bytes(), status, err)
	}
	// Output: {"To":"bob"} processed <nil>
}

func ExampleError() {
	client, stop := exampleNode()
	defer stop()
	_, err := client.Queue("mial").Send(context.Background(), "hello", nil)
	var e *sluice.Error
	if errors.Is(err, sluice.ErrNotFound) && errors.As(err, &e) {
		fmt.Println(e.Reason, "-", e.Detail)
	}
	// Output: unknown-queue - queue "mial" does not exist; did you mean mail?
}

func ExampleSnooze() {
	handler := func(ctx context.Context, job *sluice.Job) (any, error) {
		if time.Now().Hour() < 8 { // the office is closed
			return nil, sluice.Snooze(30 * time.Minute)
		}
		return nil, nil
	}
	_ = handler
}
