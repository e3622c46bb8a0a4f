// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/api"
)

// The runner of the shared cases: clients/spec/README.md says what they mean.

type object = map[string]any

type specCall struct {
	Do           string
	Queue        string
	Body         any
	Bodies       []any
	Job          int
	Reason       string
	ID           string
	IDs          []string
	Max          int
	Ms           int64
	WaitMs       int64 `json:"wait_ms"`
	DelayMs      int64 `json:"delay_ms"`
	VisibilityMs int64 `json:"visibility_ms"`
	TimeoutMs    int64 `json:"timeout_ms"`
	ResultValue  any   `json:"result_value"`
	Settings     sluice.Settings
	Result       any
	Error        object
	raw          object
}

type specCase struct {
	Name    string
	Options struct {
		TimeoutMs int64 `json:"timeout_ms"`
		Token     string
	}
	Calls []json.RawMessage
}

var errorClasses = map[string]error{"Invalid": sluice.ErrInvalid, "Denied": sluice.ErrDenied,
	"NotFound": sluice.ErrNotFound, "Conflict": sluice.ErrConflict, "Fenced": sluice.ErrFenced,
	"Limit": sluice.ErrLimit, "Corrupt": sluice.ErrCorrupt, "Unavailable": sluice.ErrUnavailable,
	"OutcomeUnknown": sluice.ErrOutcomeUnknown}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func startScripted(t *testing.T) string {
	node := exec.Command("python3", "-B", "../spec/scripted_node.py")
	input, err := node.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	node.Stderr = os.Stderr
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		_ = node.Wait()
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal("the scripted node has no address: ", err)
	}
	return strings.TrimSpace(line)
}

func control(t *testing.T, method, url string, into any) {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestSpec(t *testing.T) {
	t.Parallel()
	node := startScripted(t)
	var cases []specCase
	control(t, "GET", node+"/__cases", &cases)
	if len(cases) < 12 {
		t.Fatalf("there are %d cases", len(cases))
	}
	for i, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			var begun struct{ URL string }
			control(t, "POST", fmt.Sprintf("%s/__case/%d", node, i), &begun)
			runCase(t, c, begun.URL)
			var checked struct{ Wrong []string }
			control(t, "GET", node+"/__check", &checked)
			for _, wrong := range checked.Wrong {
				t.Error(wrong)
			}
		})
	}
}

func runCase(t *testing.T, c specCase, url string) {
	timeout := ms(c.Options.TimeoutMs)
	if timeout == 0 {
		timeout = 10 * time.Second
	}
	client, err := sluice.Open(url, &sluice.Options{Token: c.Options.Token, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var jobs []*sluice.Job
	for _, text := range c.Calls {
		var call specCall
		if err := json.Unmarshal(text, &call); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &call.raw); err != nil {
			t.Fatal(err)
		}
		result, err := makeCall(client, &call, &jobs)
		if call.Error != nil {
			checkError(t, call.Error, err)
		} else if err != nil {
			t.Errorf("%s: %v", call.Do, err)
		} else if want, ok := call.raw["result"]; ok {
			checkResult(t, want, result)
		}
	}
}

// bodyOf puts bytes in the place of {"$bytes": "BASE64"}.
func bodyOf(value any) any {
	if o, ok := value.(object); ok && o["$bytes"] != nil {
		raw, _ := base64.StdEncoding.DecodeString(o["$bytes"].(string))
		return raw
	}
	return value
}

func sendOptions(raw object) *sluice.SendOptions {
	given, _ := raw["options"].(object)
	o := &sluice.SendOptions{}
	for name, value := range given {
		switch name {
		case "group":
			o.Group = value.(string)
		case "dedup":
			o.Dedup = value.(string)
		case "workflow":
			o.Workflow = value.(string)
		case "priority":
			o.Priority = int(value.(float64))
		case "delay_ms":
			o.Delay = ms(int64(value.(float64)))
		case "at_ms":
			o.At = time.UnixMilli(int64(value.(float64)))
		case "headers":
			o.Headers = map[string]string{}
			for k, v := range value.(object) {
				o.Headers[k] = v.(string)
			}
		default:
			panic("the runner does not know the option " + name)
		}
	}
	return o
}

func makeCall(client *sluice.Client, call *specCall, jobs *[]*sluice.Job) (any, error) {
	ctx := context.Background()
	q := client.Queue(call.Queue)
	switch call.Do {
	case "send":
		sent, err := q.Send(ctx, bodyOf(call.Body), sendOptions(call.raw))
		if err != nil {
			return nil, err
		}
		return object{"id": sent.ID, "duplicate": sent.Duplicate}, nil
	case "send_many":
		var messages []sluice.Message
		for _, body := range call.Bodies {
			messages = append(messages, sluice.Message{Body: bodyOf(body)})
		}
		sent, err := q.SendMany(ctx, messages)
		rows := []any{}
		for _, s := range sent {
			rows = append(rows, object{"id": s.ID, "duplicate": s.Duplicate})
		}
		return object{"sent": rows}, err
	case "receive":
		o := sluice.ReceiveOptions{Max: call.Max, Wait: ms(call.WaitMs)}
		if call.WaitMs == 0 {
			o.Wait = -1
		}
		got, err := q.Receive(ctx, o)
		rows := []any{}
		for _, job := range got {
			row := object{"id": job.ID, "attempt": job.Attempt}
			if job.BodyBase64 != nil {
				row["body"] = object{"$bytes": base64.StdEncoding.EncodeToString(job.Bytes())}
			} else {
				var body any
				if err := job.Decode(&body); err != nil {
					return nil, err
				}
				row["body"] = body
			}
			rows = append(rows, row)
		}
		*jobs = append(*jobs, got...)
		return object{"jobs": rows}, err
	case "ack":
		status, err := (*jobs)[call.Job].Ack(ctx, call.ResultValue)
		return object{"status": status}, err
	case "fail":
		status, err := (*jobs)[call.Job].Fail(ctx, call.Reason)
		return object{"status": status}, err
	case "release":
		status, err := (*jobs)[call.Job].Release(ctx, ms(call.DelayMs))
		return object{"status": status}, err
	case "renew":
		status, err := (*jobs)[call.Job].Renew(ctx, ms(call.VisibilityMs))
		return object{"status": status}, err
	case "stats":
		return q.Stats(ctx)
	case "redrive":
		count, err := q.Redrive(ctx, 0)
		return object{"redriven": count}, err
	case "delete":
		return object{}, q.Delete(ctx, call.ID)
	case "create":
		return client.API().CreateQueue(ctx, &api.CreateQueueRequest{Queue: call.Queue, Settings: call.Settings})
	case "collect":
		return q.Collect(ctx, call.IDs)
	case "result":
		ctx, cancel := context.WithTimeout(ctx, ms(call.TimeoutMs))
		defer cancel()
		result, err := q.Result(ctx, call.ID)
		if err != nil {
			return nil, err
		}
		var value any
		err = result.Decode(&value)
		return object{"value": value}, err
	case "pause_ms":
		time.Sleep(ms(call.Ms)) // the case asks for it
		return object{}, nil
	}
	return nil, fmt.Errorf("the runner does not know the call %q", call.Do)
}

func checkError(t *testing.T, want object, err error) {
	t.Helper()
	var e *sluice.Error
	class := want["class"].(string)
	if !errors.As(err, &e) || !errors.Is(err, errorClasses[class]) {
		t.Errorf("the error is %v, not %s", err, class)
		return
	}
	got := object{"code": e.Code, "reason": e.Reason, "field": e.Field, "retry_after_ms": float64(e.RetryAfter.Milliseconds())}
	for name, value := range want {
		switch name {
		case "class":
		case "detail_has":
			if !strings.Contains(e.Detail, value.(string)) {
				t.Errorf("the detail %q does not have %q", e.Detail, value)
			}
		default:
			if got[name] != value {
				t.Errorf("%s of the error is %v, not %v", name, got[name], value)
			}
		}
	}
}

func checkResult(t *testing.T, want, got any) {
	t.Helper()
	text, err := json.Marshal(got)
	var plain any
	if err == nil {
		err = json.Unmarshal(text, &plain)
	}
	if err != nil || !matches(want, plain) {
		t.Errorf("the result is %s, not %v", text, want)
	}
}

// Of an object, only the fields that the case names count.
func matches(want, got any) bool {
	switch w := want.(type) {
	case object:
		g, ok := got.(object)
		for name, value := range w {
			ok = ok && matches(value, g[name])
		}
		return ok
	case []any:
		g, ok := got.([]any)
		ok = ok && len(g) == len(w)
		for i := 0; ok && i < len(w); i++ {
			ok = matches(w[i], g[i])
		}
		return ok
	}
	return reflect.DeepEqual(want, got)
}
