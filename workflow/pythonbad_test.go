package workflow

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// badFlows do what no worker survives, or should not notice.
const badFlows = `
import gc, io, os, re, time

def flood(task, model):
    for fd in (1, 2):
        os.write(fd, b"x" * (4 << 20))
        os.write(fd, b"\n")
    return len(model.chat(task.prompt))

def stray(task, model, mark, text):
    begin(mark)
    for file in gc.get_objects():
        if isinstance(file, io.BufferedWriter) and not file.closed and file.fileno() > 2:
            file.write(text.encode() + b"\n")
            file.flush()
    time.sleep(1000)

def in_c(task, model, mark):
    begin(mark)
    re.match("(a+)+$", "a" * 64 + "b")  # with the lock of the interpreter

def waits(task, model, mark):
    begin(mark)
    time.sleep(1000)

def begin(mark):
    open(mark, "w").close()
`

// inBad returns a workflow of badFlows, and the file that it writes when it begins.
func inBad(t *testing.T, folder, name string, more map[string]any) (w trinity.Workflow, mark string) {
	t.Helper()
	mark = filepath.Join(t.TempDir(), "mark")
	args := map[string]any{}
	if name != "flood" {
		args["mark"] = mark
	}
	for key, value := range more {
		args[key] = value
	}
	python := map[string]any{"path": []any{folder}}
	return build(t, "python", map[string]any{"class": "bad_flows." + name, "args": args, "python": python}), mark
}

// begun waits until a workflow has begun.
func begun(t *testing.T, mark string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(mark); err == nil {
			return
		} else if time.Now().After(end) {
			t.Fatal("the rollout has not begun")
		}
	}
}

// A workflow that floods its outputs, that writes answers itself or that never gives the interpreter back ends no other than
// the rollouts of its process. The next rollout has another process.
func TestBadWorkflowsInPython(t *testing.T) {
	python := flows(t, "agent", nil)["python"].(map[string]any)
	folder := python["path"].([]any)[0].(string)
	if err := os.WriteFile(filepath.Join(folder, "bad_flows.py"), []byte(badFlows), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newGated(t)
	works := func(name string) {
		t.Helper()
		w, _ := inBad(t, folder, "flood", nil)
		if exps, err := w.Run(t.Context(), onGated(s, teller{"four"}, 0, nil)); err != nil || exps[0].Reward.Value != 4 {
			t.Errorf("after %s: %v, %v", name, exps, err)
		}
	}
	works("nothing")
	waits, mark := inBad(t, folder, "waits", nil)
	run := func(ctx context.Context, w trinity.Workflow) (wait func() error) {
		failed := make(chan error, 1)
		go func() {
			_, err := w.Run(ctx, onGated(s, teller{"four"}, 0, nil))
			failed <- err
		}()
		return func() error { return <-failed }
	}
	for name, text := range map[string]string{"unknown": `{"id": 4000000000}`, "none": "hello"} {
		other := run(t.Context(), waits)
		begun(t, mark)
		stray, _ := inBad(t, folder, "stray", map[string]any{"text": text})
		want := fmt.Sprintf("the program ended before it answered: it was killed, because it wrote %q, which answers no open question", text)
		for _, err := range []error{run(t.Context(), stray)(), other()} {
			if kindOf(err) != trinity.FailedAgent || !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
		works(name)
		if err := os.Remove(mark); err != nil {
			t.Fatal(err)
		}
	}
	if testing.Short() {
		return // the next waits ten seconds
	}
	late := &trinity.RolloutError{Kind: trinity.FailedTimeout, Err: errors.New("explorer.max_timeout passed")}
	ctx, cancel := context.WithCancelCause(t.Context())
	other := run(t.Context(), waits)
	begun(t, mark)
	inC, began := inBad(t, folder, "in_c", nil)
	hung := run(ctx, inC)
	begun(t, began)
	cancel(late)
	if err := hung(); kindOf(err) != trinity.FailedTimeout {
		t.Error(err)
	}
	want := "it did not give up another question (rollout) within 10s"
	if err := other(); kindOf(err) != trinity.FailedAgent || !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	works("in_c")
}
