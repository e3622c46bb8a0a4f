// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/api"
	"sluice/sluicetest"
)

var ctx = context.Background()

func must[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func newQueue(t testing.TB, c *sluice.Client, settings sluice.Settings) *sluice.Queue {
	t.Helper()
	return must[*sluice.Queue](t)(c.Create(ctx, "mail", settings))
}

// eventually asks until the answer is yes.
func eventually(t testing.TB, what string, ask func() bool) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); !ask(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("after 20 s it is not so that %s", what)
		}
	}
}

func receiveOne(t testing.TB, q *sluice.Queue) *sluice.Job {
	t.Helper()
	jobs := must[[]*sluice.Job](t)(q.Receive(ctx))
	if len(jobs) != 1 {
		t.Fatalf("%d messages came", len(jobs))
	}
	return jobs[0]
}

func TestBodiesComeBackAsTheyWereSent(t *testing.T) {
	q := newQueue(t, sluicetest.Node(t), nil)
	type order struct {
		To     string
		Copies int
	}
	for _, body := range []any{order{"ann", 2}, "hello <b>", 7.5, nil, []any{"a", true}, []byte("\xff\x00a"), []byte("text"), []byte{}} {
		must[*sluice.Sent](t)(q.Send(ctx, body, nil))
		job := receiveOne(t, q)
		if raw, ok := body.([]byte); ok {
			var got []byte
			if err := job.Decode(&got); err != nil || !bytes.Equal(got, raw) {
				t.Errorf("%q came back as %q (%v)", raw, got, err)
			}
		} else {
			var got any
			want, _ := json.Marshal(body)
			err := job.Decode(&got)
			text, _ := json.Marshal(got)
			var a, b any
			_, _ = json.Unmarshal(want, &a), json.Unmarshal(text, &b)
			if err != nil || fmt.Sprint(a) != fmt.Sprint(b) {
				t.Errorf("%s came back as %s (%v)", want, text, err)
			}
		}
		must[string](t)(job.Ack(ctx, nil))
	}
}

func TestOptionsOfASendArrive(t *testing.T) {
	q := newQueue(t, sluicetest.Node(t), nil)
	sent := must[*sluice.Sent](t)(q.Send(ctx, 1, &sluice.SendOptions{Group: "g", Dedup: "k", Priority: 4, Workflow: "w",
		ContentType: "x/y", Headers: map[string]string{"tenant": "7"}, Type: "letter", Delay: time.Millisecond}))
	twice := must[*sluice.Sent](t)(q.Send(ctx, 1, &sluice.SendOptions{Group: "g", Dedup: "k"}))
	if !twice.Duplicate || twice.ID != sent.ID {
		t.Errorf("the second send is %+v", twice)
	}
	job := receiveOne(t, q)
	if job.Group != "g" || job.Priority != 4 || job.Workflow != "w" || job.ContentType != "x/y" ||
		job.Headers["tenant"] != "7" || job.Type() != "letter" || job.ID != sent.ID {
		t.Errorf("the message is %+v", job.Message)
	}
	later := must[*sluice.Sent](t)(q.Send(ctx, 2, &sluice.SendOptions{At: time.Now().Add(time.Hour)}))
	if m := must[*api.Message](t)(q.Show(ctx, later.ID)); m.State != "delayed" {
		t.Errorf("the message is %s", m.State)
	}
}

func TestManyMessagesAreSentInParts(t *testing.T) {
	q := newQueue(t, sluicetest.Node(t), nil)
	messages := make([]sluice.Message, 10001)
	for i := range messages {
		messages[i].Body = i
	}
	sent := must[[]sluice.Sent](t)(q.SendMany(ctx, messages))
	if len(sent) != len(messages) || sent[10000].ID == "" {
		t.Fatalf("%d rows", len(sent))
	}
	if s := must[*api.Stats](t)(q.Stats(ctx)); s.Ready != int64(len(messages)) {
		t.Errorf("%d are ready", s.Ready)
	}
}

func TestMessagesThatAreRefusedAreNamed(t *testing.T) {
	q := newQueue(t, sluicetest.Node(t), sluice.Settings{"capacity": 2, "backpressure": "reject"})
	sent, err := q.SendMany(ctx, []sluice.Message{{Body: 1}, {Body: 2}, {Body: 3}})
	if !errors.Is(err, sluice.ErrLimit) || sent[0].Err != nil || sent[1].Err != nil || !errors.Is(sent[2].Err, sluice.ErrLimit) {
		t.Errorf("%v: %+v", err, sent)
	}
}

func TestJobsEndByHand(t *testing.T) {
	q := newQueue(t, sluicetest.Node(t), sluice.Settings{"failureStrategy.maxRetries": 1, "failureStrategy.backoff.initial": "0ms"})
	id := must[*sluice.Sent](t)(q.Send(ctx, "x", nil)).ID
	job := receiveOne(t, q)
	if status, err := job.Renew(ctx, time.Minute); status != "renewed" || err != nil {
		t.Errorf("renew: %s, %v", status, err)
	}
	if status, err := job.Release(ctx, 0); status != "released" || err != nil {
		t.Errorf("release: %s, %v", status, err)
	}
	if _, err := job.Ack(ctx, nil); !errors.Is(err, sluice.ErrFenced) {
		t.Errorf("an ack after a release: %v", err)
	}
	job = receiveOne(t, q)
	if job.Attempt != 1 {
		t.Errorf("a release counts as an attempt: %d", job.Attempt)
	}
	if status, err := job.Fail(ctx, "disk full"); status != "retrying" || err != nil {
		t.Errorf("fail: %s, %v", status, err)
	}
	job = receiveOne(t, q)
	job.Progress(42, "half way")
	must[string](t)(job.Renew(ctx, 0))
	if m := must[*api.Message](t)(q.Show(ctx, id)); m.Progress != 42 || m.Failures[0].Reason != "disk full" {
		t.Errorf("the message is %+v", m)
	}
	if status, err := job.Ack(ctx, object{"steps": 3}); status != "processed" || err != nil {
		t.Errorf("ack: %s, %v", status, err)
	}
	result := must[*sluice.Result](t)(q.Result(ctx, id))
	var value struct{ Steps int }
	if err := result.Decode(&value); err != nil || value.Steps != 3 {
		t.Errorf("the result is %s (%v)", result.Ended.Result, err)
	}
}

func TestAResultThatDoesNotCome(t *testing.T) {
	q := newQueue(t, sluicetest.Node(t), nil)
	id := must[*sluice.Sent](t)(q.Send(ctx, "x", nil)).ID
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := q.Result(short, id); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
	if err := q.Cancel(ctx, id, "not wanted"); err != nil {
		t.Fatal(err)
	}
	_, err := q.Result(ctx, id)
	var end *sluice.EndError
	if !errors.As(err, &end) || end.Result.State != "cancelled" || !strings.Contains(err.Error(), "not wanted") {
		t.Errorf("the error is %v", err)
	}
}

func TestAdministration(t *testing.T) {
	c := sluicetest.Node(t)
	q := newQueue(t, c, sluice.Settings{"visibilityTimeout": time.Minute, "failureStrategy": map[string]any{"maxRetries": 0}})
	if _, err := c.Create(ctx, "mail", sluice.Settings{"visibilityTimeout": "2m"}); !errors.Is(err, sluice.ErrConflict) {
		t.Errorf("a second create: %v", err)
	}
	info := must[*api.Queue](t)(q.Change(ctx, sluice.Settings{"visibilityTimeout": "30s"}))
	if info.Settings.VisibilityTimeout != "30s" || info.Settings.FailureStrategy.MaxRetries != 0 {
		t.Errorf("the settings are %+v", info.Settings)
	}
	must[*sluice.Sent](t)(q.Send(ctx, "x", nil))
	job := receiveOne(t, q)
	must[string](t)(job.Fail(ctx, "no"))
	if n := must[int64](t)(q.Redrive(ctx, 0)); n != 1 {
		t.Errorf("%d were redriven", n)
	}
	if err := q.Pause(ctx); err != nil {
		t.Error(err)
	}
	if n := must[int64](t)(q.Purge(ctx, false)); n != 1 {
		t.Errorf("%d were purged", n)
	}
	if err := q.Resume(ctx); err != nil {
		t.Error(err)
	}
	if rows := must[[]api.QueueRow](t)(c.Queues(ctx)); len(rows) != 1 || rows[0].Name != "mail" {
		t.Errorf("the queues are %+v", rows)
	}
	if err := q.Delete(ctx, info.ID); err != nil {
		t.Error(err)
	}
	if _, err := q.Info(ctx); !errors.Is(err, sluice.ErrNotFound) {
		t.Errorf("after the delete: %v", err)
	}
}

func TestEventsOfAQueue(t *testing.T) {
	c := sluicetest.Node(t)
	q := newQueue(t, c, nil)
	all := c.Stream(ctx, &sluice.EventOptions{Queues: []string{"mail"}, From: "0", Types: []string{"message-enqueued"}})
	defer all.Close()
	events := q.Events(ctx, &sluice.EventOptions{Types: []string{"message-enqueued"}})
	defer events.Close()
	first := must[*sluice.Sent](t)(q.Send(ctx, 1, nil))
	second := must[*sluice.Sent](t)(q.Send(ctx, 2, nil))
	event := must[*sluice.Event](t)(events.Next())
	var data api.Event
	if err := event.Decode(&data); err != nil || data.Message != first.ID || event.Type != "message-enqueued" {
		t.Errorf("the event is %s %s (%v)", event.Type, event.Data, err)
	}
	next := q.Events(ctx, &sluice.EventOptions{From: event.Place, Types: []string{"message-enqueued"}})
	defer next.Close()
	event = must[*sluice.Event](t)(next.Next())
	if !strings.Contains(string(event.Data), second.ID) {
		t.Errorf("the event after the place is %s", event.Data)
	}
	event = must[*sluice.Event](t)(all.Next())
	if !strings.Contains(string(event.Data), first.ID) {
		t.Errorf("the event of the stream is %s", event.Data)
	}
	info := must[*api.Queue](t)(q.Info(ctx))
	if err := q.Delete(ctx, info.ID); err != nil {
		t.Fatal(err)
	}
	must[*sluice.Event](t)(events.Next())
	if event = must[*sluice.Event](t)(events.Next()); event.Type != "end" {
		t.Errorf("the event is %s", event.Type)
	}
	if _, err := events.Next(); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
}

func TestEventsContinueAfterANodeIsGone(t *testing.T) {
	t.Parallel()
	store := "file://" + t.TempDir()
	node := sluicetest.Start(t, store, "127.0.0.1:0")
	c := sluicetest.Client(t, node.URL, nil)
	q := newQueue(t, c, nil)
	events := q.Events(ctx, &sluice.EventOptions{Types: []string{"message-enqueued"}})
	defer events.Close()
	for i := 0; i < 3; i++ {
		id := must[*sluice.Sent](t)(q.Send(ctx, i, nil)).ID
		if event := must[*sluice.Event](t)(events.Next()); !strings.Contains(string(event.Data), id) {
			t.Errorf("event %d is %s", i, event.Data)
		}
		node.Kill()
		node = sluicetest.Start(t, store, strings.TrimPrefix(node.URL, "http://"))
	}
}

func TestSeveralNodes(t *testing.T) {
	t.Parallel()
	store := "file://" + t.TempDir()
	a, b := sluicetest.Start(t, store, "127.0.0.1:0"), sluicetest.Start(t, store, "127.0.0.1:0")
	c := sluicetest.Client(t, a.URL+","+strings.TrimPrefix(b.URL, "http://"), nil)
	q := newQueue(t, c, sluice.Settings{"shards": 4})
	work := func() {
		t.Helper()
		for i := 0; i < 8; i++ {
			must[*sluice.Sent](t)(q.Send(ctx, i, &sluice.SendOptions{Group: fmt.Sprint(i)}))
		}
		for left := 8; left > 0; {
			jobs := must[[]*sluice.Job](t)(q.Receive(ctx, sluice.ReceiveOptions{Max: left}))
			for _, job := range jobs {
				must[string](t)(job.Ack(ctx, nil))
			}
			left -= len(jobs)
		}
	}
	work()
	a.Kill()
	work()
	a = sluicetest.Start(t, store, strings.TrimPrefix(a.URL, "http://"))
	b.Pause() // it accepts connections and is silent
	defer b.Continue()
	for i := 0; i < 3; i++ {
		must[*sluice.Sent](t)(q.Send(ctx, i, nil))
	}
}

// The client computes the shard of a message as the nodes do, so that a send goes to the owner.
func TestTheClientKnowsTheShardOfAMessage(t *testing.T) {
	t.Parallel()
	store := "file://" + t.TempDir()
	a, b := sluicetest.Start(t, store, "127.0.0.1:0"), sluicetest.Start(t, store, "127.0.0.1:0")
	c := sluicetest.Client(t, a.URL+","+strings.TrimPrefix(b.URL, "http://"), nil)
	newQueue(t, c, sluice.Settings{"shards": 8})
	warm := &api.NewMessage{Body: json.RawMessage("0"), Group: "g"}
	eventually(t, "the client knows the owner of each shard", func() bool {
		must[*sluice.Sent](t)(c.Queue("mail").Send(ctx, 0, &sluice.SendOptions{Group: fmt.Sprint(time.Now().UnixNano())}))
		for i := 0; i < 64; i++ {
			if _, owner := c.ShardOf("mail", &api.NewMessage{Group: fmt.Sprint(i)}, "", 0); owner < 0 {
				return false
			}
		}
		return true
	})
	request := "00112233445566778899aabbccddeeff"
	rows := []api.NewMessage{*warm, {Body: warm.Body, Dedup: "key of the message"}, {Body: warm.Body}, {Body: warm.Body},
		{Body: warm.Body, Group: strings.Repeat("long group ", 20)}}
	calls := c.API()
	send := calls.Do
	calls.Do = func(ctx context.Context, r *api.Request, answer any) error {
		r.ID = request
		return send(ctx, r, answer)
	}
	sent := must[*api.SendMessagesAnswer](t)(calls.SendMessages(ctx, &api.SendMessagesRequest{Queue: "mail", Messages: rows}))
	for i := range rows {
		shard, _ := c.ShardOf("mail", &rows[i], request, i)
		if got := strings.Split(sent.SentMany.Sent[i].ID, "-")[1]; got != fmt.Sprint(shard) {
			t.Errorf("message %d is in shard %s, not %d", i, got, shard)
		}
	}
}

func TestATokenWithoutScope(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	program := os.Getenv("SLUICE")
	if program == "" {
		program = "sluice"
	}
	made, err := exec.Command(program, "token", "new", "--scope", "read", "--queue", "*", "--name", "web", "--json").Output()
	if err != nil {
		t.Fatalf("%s: %v", made, err)
	}
	var token struct{ Token, Line string }
	if err := json.Unmarshal(made, &token); err != nil || token.Token == "" {
		t.Fatalf("%s: %v", made, err)
	}
	if err := os.WriteFile(file, []byte(token.Line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	node := sluicetest.Start(t, "mem:", "127.0.0.1:0", "--tokens", file)
	c := sluicetest.Client(t, node.URL, &sluice.Options{Token: token.Token})
	if _, err := c.Create(ctx, "mail", nil); !errors.Is(err, sluice.ErrDenied) {
		t.Errorf("the error is %v", err)
	}
	if _, err := c.Queue("mail").Send(ctx, 1, nil); !errors.Is(err, sluice.ErrDenied) || !isOnPage(t, err) {
		t.Errorf("the error of a send is %v", err)
	}
	c = sluicetest.Client(t, node.URL, nil)
	if _, err := c.Queues(ctx); !errors.Is(err, sluice.ErrDenied) {
		t.Errorf("without a token: %v", err)
	}
}

const onPage = "" // docs/clients.md has the text of the error

func isOnPage(t *testing.T, err error) bool {
	t.Helper()
	return bytes.Contains(must[[]byte](t)(os.ReadFile("../../docs/clients.md")), []byte(" "+err.Error()+" |"))
}

func TestWrongUseIsNamed(t *testing.T) {
	c := sluicetest.Node(t)
	q := newQueue(t, c, nil)
	noop := func(context.Context, *sluice.Job) (any, error) { return nil, nil }
	open := func(url string) error {
		_, err := sluice.Open(url, nil)
		return err
	}
	t.Setenv("SLUICE_STORE", "")
	cases := []struct {
		what string
		do   func() error
		want error
		has  string
	}{
		{"no URL", func() error { return open("") }, sluice.ErrInvalid, "SLUICE_STORE"},
		{"no scheme", func() error { return open("localhost:7333") }, sluice.ErrInvalid, onPage},
		{"an empty name", func() error { return open("http://a:7333,") }, sluice.ErrInvalid, "a:7333,b:7333"},
		{"a node twice", func() error { return open("http://a:7333,A:7333") }, sluice.ErrInvalid, "twice"},
		{"a user", func() error { return open("http://u:p@a:7333") }, sluice.ErrInvalid, "SLUICE_TOKEN"},
		{"no queue", func() error {
			_, err := c.Queue("mial").Send(ctx, 1, nil)
			return err
		}, sluice.ErrNotFound, "did you mean mail"},
		{"an unknown queue", func() error {
			_, err := c.Queue("nosuch").Send(ctx, 1, nil)
			return err
		}, sluice.ErrNotFound, onPage},
		{"a body that is not JSON", func() error {
			_, err := q.Send(ctx, make(chan int), nil)
			return err
		}, sluice.ErrInvalid, onPage},
		{"a priority", func() error {
			_, err := q.Send(ctx, 1, &sluice.SendOptions{Priority: 10})
			return err
		}, sluice.ErrInvalid, onPage},
		{"a setting", func() error {
			_, err := c.Create(ctx, "other", sluice.Settings{"visibilityTimout": "3s"})
			return err
		}, sluice.ErrInvalid, `"visibilityTimout" is not a setting; did you mean visibilityTimeout?`},
		{"concurrency", func() error {
			return sluice.NewWorker(c, "mail", noop, &sluice.WorkerOptions{Concurrency: -1}).Run(ctx)
		}, sluice.ErrInvalid, onPage},
		{"no handler", func() error { return sluice.NewWorker(c, "mail", nil, nil).Run(ctx) }, sluice.ErrInvalid, "no handler"},
		{"a worker without a queue", func() error { return sluice.NewWorker(c, "mial", noop, nil).Run(ctx) }, sluice.ErrNotFound, "did you mean mail"},
		{"a dead node", func() error {
			dead := sluicetest.Client(t, "http://127.0.0.1:1", &sluice.Options{Timeout: 50 * time.Millisecond})
			_, err := dead.Queue("mail").Send(ctx, 1, nil)
			return err
		}, sluice.ErrUnavailable, onPage},
	}
	for _, c := range cases {
		err := c.do()
		if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.has) || (c.has == onPage && !isOnPage(t, err)) {
			t.Errorf("%s: the error is %v", c.what, err)
		} else {
			t.Logf("%s: %v", c.what, err)
		}
	}
}

type upperCodec struct{}

func (upperCodec) Encode(value any) ([]byte, string, error) {
	return []byte(strings.ToUpper(value.(string))), "text/upper", nil
}

func (upperCodec) Decode(text []byte, contentType string, into any) error {
	*into.(*string) = contentType + " " + string(text)
	return nil
}

func TestACodecTranslatesBodiesAndResults(t *testing.T) {
	node := sluicetest.Start(t, "mem:", "127.0.0.1:0")
	c := sluicetest.Client(t, node.URL, &sluice.Options{Codec: upperCodec{}})
	q := newQueue(t, c, nil)
	id := must[*sluice.Sent](t)(q.Send(ctx, "hello", nil)).ID
	job := receiveOne(t, q)
	var got string
	if err := job.Decode(&got); err != nil || got != "text/upper HELLO" {
		t.Errorf("the body is %q (%v)", got, err)
	}
	must[string](t)(job.Ack(ctx, "done"))
	if err := must[*sluice.Result](t)(q.Result(ctx, id)).Decode(&got); err != nil || got != "text/upper DONE" {
		t.Errorf("the result is %q (%v)", got, err)
	}
}
