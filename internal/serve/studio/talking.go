package studio

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/trinity-go/trinity/internal/process"
)

// talk is a model that a process of its own serves. It ends with the studio.
type talk struct {
	id      string
	run     string
	model   Model
	plan    ModelPlan
	token   string // that the process wants
	began   time.Time
	idle    time.Duration
	process *process.Process
	kill    context.CancelCauseFunc
	ended   chan struct{} // closed after the process has ended

	mu       sync.Mutex
	line     []byte // of the process, as far as it has come
	said     string // its last line
	failed   string // the line with which it failed
	address  string // "" until it serves
	cause    error  // why it ends; nil: somebody wanted it, or the process has ended itself
	ending   bool
	busy     int         // requests in flight
	deadline *time.Timer // for loading, then for the next use
	ends     time.Time   // when the deadline comes; zero while it answers
}

// endTime is how long the end of a process may come after its connections break.
const endTime = 2 * time.Second

// status is what the page knows of a model.
type status struct {
	ID       string `json:"id"`
	Run      string `json:"run"`
	Model    string `json:"model"`
	Kind     string `json:"kind"`
	State    string `json:"state"`  // loading, ready, ended
	Length   int    `json:"length"` // tokens of the longest conversation
	Said     string `json:"said"`   // the last line of its process
	Error    string `json:"error"`  // why it has ended
	Planned  int64  `json:"planned"`
	Resident int64  `json:"resident"` // bytes that it has now; 0 if not known
	Began    int64  `json:"began"`    // ms since 1970
	Ends     int64  `json:"ends"`     // when it ends if nobody uses it, or it has not loaded; 0 while it answers
}

func (t *talk) status() status {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := status{
		ID: t.id, Run: t.run, Model: t.model.Name, Kind: t.model.Kind, State: "ready", Length: t.plan.Length, Said: t.said,
		Planned: t.plan.Sum, Began: millis(t.began), Ends: millis(t.ends),
	}
	switch {
	case t.ending:
		s.State, s.Ends = "ended", 0
		if t.cause != nil {
			s.Error = t.cause.Error()
		}
		return s
	case t.address == "":
		s.State = "loading"
	}
	s.Resident = t.process.Resident()
	return s
}

func (t *talk) name() string { return t.model.Name + " of " + t.run }

// list returns all models, the newest last.
func (t *talks) list() []*talk {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.all)
}

// live returns those whose process has not ended.
func (t *talks) live() []*talk {
	return slices.DeleteFunc(t.list(), func(one *talk) bool {
		select {
		case <-one.ended:
			return true
		default:
			return false
		}
	})
}

// start starts the process of a model.
func (t *talks) start(run string, model Model, plan ModelPlan) (*talk, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errors.New("the studio ends")
	}
	scratch, err := os.MkdirTemp("", "trinity-talk")
	if err != nil {
		return nil, err
	}
	load := cmp.Or(t.load, loadTime)
	one := &talk{
		id: rand.Text(), run: run, model: model, plan: plan, token: rand.Text(), began: time.Now(), ends: time.Now().Add(load),
		idle: cmp.Or(t.idle, idleTime), ended: make(chan struct{}),
	}
	program := process.Program{
		Path: plan.Command[0], Command: append([]string{os.Args[0]}, plan.Command[1:]...), Scratch: scratch, Stderr: one, Expendable: true,
		Env: map[string]string{"TRINITY_TOKEN": one.token, "TMPDIR": scratch, "TMP": scratch},
	}
	ctx, kill := context.WithCancelCause(context.Background())
	one.kill = kill
	one.mu.Lock() // its process may speak at once
	defer one.mu.Unlock()
	if one.process, err = program.Start(ctx); err != nil {
		kill(nil)
		return nil, errors.Join(err, os.RemoveAll(scratch))
	}
	one.deadline = time.AfterFunc(load, func() { one.late(load) })
	go one.wait(scratch)
	t.forget()
	t.all = append(t.all, one)
	return one, nil
}

// forget drops the oldest of those that have ended, up to a few.
func (t *talks) forget() {
	n := 0
	for i, one := range slices.Backward(t.all) {
		select {
		case <-one.ended:
			if n++; n > mostEnded {
				t.all = slices.Delete(t.all, i, i+1)
			}
		default:
		}
	}
}

// wait waits for the end of the process.
func (t *talk) wait(scratch string) {
	_, _ = io.Copy(io.Discard, t.process.Out)
	err := t.process.Wait()
	t.mu.Lock()
	if !t.ending {
		t.ending, t.cause = true, fmt.Errorf("its process ended: %s", reasonOf(err, t.failed))
	}
	t.deadline.Stop()
	t.mu.Unlock()
	t.kill(nil)
	_ = os.RemoveAll(scratch) // a file that stays is a small one
	close(t.ended)
}

// killed is the status of a process that signal 9 has ended.
const killed = 128 + 9

// reasonOf returns why a process has ended: the line with which it failed, or how it was ended.
func reasonOf(err error, failed string) string {
	var exit *exec.ExitError
	switch {
	case failed != "":
		return failed
	case errors.As(err, &exit) && exit.ExitCode() == killed:
		return "it was killed, perhaps because memory ran out"
	case errors.As(err, &exit):
		return exit.Error()
	}
	return shown(fmt.Sprint(err))
}

// served is the line with which a process says where it serves.
var served = regexp.MustCompile(`^serves .* at (http://127\.0\.0\.1:\d+/v1)$`)

// fails is the line with which a process fails.
var fails = regexp.MustCompile(`^(?:trinity: (.+)|((?:panic|fatal error): .+))$`)

// mostSaid is the size of the longest line of a process that is kept.
const mostSaid = 4096

// Write takes what the process says: its last line, and its address.
func (t *talk) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line = append(t.line, p...)
	for {
		line, rest, whole := bytes.Cut(t.line, []byte("\n"))
		if !whole {
			break
		}
		t.line = rest
		if at := served.FindSubmatch(line); at != nil && t.address == "" {
			t.address = string(at[1])
			t.rest()
		} else if len(bytes.TrimSpace(line)) > 0 {
			t.said = shown(string(line))
			if found := fails.FindStringSubmatch(t.said); found != nil && t.failed == "" {
				t.failed = found[1] + found[2]
			}
		}
	}
	t.line = t.line[:min(len(t.line), mostSaid)]
	return len(p), nil
}

// rest begins the time after which the model ends without use. The caller holds mu.
func (t *talk) rest() {
	t.deadline.Stop()
	t.ends = time.Now().Add(t.idle)
	t.deadline = time.AfterFunc(t.idle, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.busy == 0 {
			t.endNow(fmt.Errorf("nobody has used it for %v", t.idle))
		}
	})
}

// late ends a model that takes too long to load.
func (t *talk) late(after time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.address == "" {
		t.endNow(fmt.Errorf("it has not loaded within %v; the last line of its process: %s", after, cmp.Or(t.said, "it has said nothing")))
	}
}

// end ends the process. cause tells why; nil: somebody wants it.
func (t *talk) end(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endNow(cause)
}

// endNow is end for a caller that holds mu.
func (t *talk) endNow(cause error) {
	if !t.ending {
		t.ending, t.cause = true, cause
	}
	t.kill(cause)
}

// why returns why it has ended.
func (t *talk) why() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return cmp.Or(t.cause, errors.New("it was ended"))
}

// begin begins a request. While it is in flight the model does not end for want of use.
func (t *talk) begin() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ending:
		return mistake{fmt.Errorf("%s has ended: load it again", t.name())}
	case t.address == "":
		return mistake{fmt.Errorf("%s is loading: %s", t.name(), cmp.Or(t.said, "wait for it"))}
	}
	t.busy++
	t.deadline.Stop()
	t.ends = time.Time{}
	return nil
}

func (t *talk) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy--; t.busy == 0 && !t.ending {
		t.rest()
	}
}

// untaken returns the bytes of its plan that it has not taken yet. What it needs to load, it needs no more
// once it has.
func (t *talk) untaken() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	planned := t.plan.Sum
	for _, part := range t.plan.Memory {
		if part.Kind == "loading" && part.Device == "" && t.address != "" {
			planned -= part.Bytes
		}
	}
	return max(0, planned-t.process.Resident())
}
