package reward

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// TestMain makes this test binary the program of the exec reward: it does what the reply says.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "be a reward" {
		time.AfterFunc(time.Minute, func() { os.Exit(9) })
		scoreLines(os.Args[2])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func scoreLines(dir string) {
	_ = os.WriteFile(filepath.Join(dir, fmt.Sprint("started.", os.Getpid())), nil, 0o644)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		var q struct {
			Response string
			Row      map[string]any
			Messages []trinity.Message
		}
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			fmt.Printf("%q\n", err.Error())
			continue
		}
		switch do, what, _ := strings.Cut(q.Response, " "); do {
		case "say":
			fmt.Println(what)
		case "row":
			fmt.Println(q.Row[what])
		case "talk":
			fmt.Println(len(q.Messages))
		case "pid":
			time.Sleep(20 * time.Millisecond)
			fmt.Println(os.Getpid())
		case "crash":
			if what == "once" && os.Remove(filepath.Join(dir, "crashed")) == nil {
				fmt.Println(1)
				continue
			}
			_ = os.WriteFile(filepath.Join(dir, "crashed"), nil, 0o644)
			fmt.Fprintln(os.Stderr, "no memory is left")
			os.Exit(3)
		case "leave": // as Python does: standard output closes, and the process exits later
			os.Stdout.Close()
			time.Sleep(100 * time.Millisecond)
			os.Exit(3)
		case "hang":
			time.Sleep(time.Hour) // a select would be a deadlock
		}
	}
}

// opener is a host that opens resources and closes them with the test.
type opener struct {
	trinity.Host
	mu   sync.Mutex
	log  pluginLog
	said []string
	open map[string]io.Closer
}

func (*opener) Wait(ctx context.Context, until func(context.Context) error) error { return until(ctx) }

// pluginLog is what several processes write to at once, as to plugins.log.
type pluginLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *pluginLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *pluginLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newOpener(t *testing.T) *opener {
	o := &opener{open: map[string]io.Closer{}}
	t.Cleanup(o.close)
	return o
}

func (o *opener) close() {
	for _, c := range o.open {
		c.Close()
	}
	clear(o.open)
}

func (o *opener) Open(key string, open func(io.Writer) (io.Closer, error)) (io.Closer, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[key] == nil {
		opened, err := open(&o.log)
		if err != nil {
			return nil, err
		}
		o.open[key] = opened
	}
	return o.open[key], nil
}

func (o *opener) Say(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.said = append(o.said, line)
}

// asked returns an input with a reply that tells the program what to do.
func asked(host trinity.Host, reply string) trinity.RewardInput {
	task := &trinity.Task{ID: "taskset/0", Row: map[string]any{"weight": 0.25}}
	return trinity.RewardInput{Task: task, Prompt: "?", Response: reply, Host: host}
}

func scorer(t *testing.T, args map[string]any) (trinity.RewardFunc, string) {
	dir := t.TempDir()
	all := map[string]any{"command": []any{os.Args[0], "be a reward", dir}}
	for k, v := range args {
		all[k] = v
	}
	return build(t, "exec", all), dir
}

func starts(t *testing.T, dir string) int {
	files, err := filepath.Glob(filepath.Join(dir, "started.*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// answered are what a program or a service may answer, and the reward or part of the error.
var answered = map[string]string{
	`0.5`:                             "0.5 map[]",
	`{"reward": 2}`:                   "2 map[]",
	` {"parts": {"a": 1, "b": 0.5}} `: "1.5 map[a:1 b:0.5]",
	`{"reward": 0.5, "parts": {"format": 1}}`: "0.5 map[format:1]",
	`null`:                                 "invalid: the reward is null",
	`{"reward": null, "reason": "a poem"}`: "invalid: a poem",
	`{"error": "KeyError: 'x'"}`:           "error: KeyError: 'x'",
	`{}`:                                   "error: want {",
	`{"parts": {}}`:                        "error: want {",
	`{"rewrad": 1}`:                        "error: rewrad",
	`{"reward": "1"}`:                      "error: cannot unmarshal",
	`{"reward": 1} {}`:                     "error: more than one",
	`1e999`:                                "error: want {",
	`"good"`:                               "error: want {",
	`ready.`:                               "error: want {",
	`{"parts": {"reward": 1}}`:             "error: none of them called reward",
	`{"reward": 1, "parts": {"a": null, "b": 1}}`: "1 map[a:0 b:1]",
}

func describe(r trinity.Reward, err error) string {
	switch {
	case err != nil:
		return "error: " + err.Error()
	case !r.Valid:
		return "invalid: " + r.Reason
	}
	return fmt.Sprint(r.Value, " ", r.Parts)
}

// matches reports whether a description is the wanted one; an error may say more.
func matches(got, want string) bool {
	part, isError := strings.CutPrefix(want, "error: ")
	return got == want || isError && strings.HasPrefix(got, "error: ") && strings.Contains(got, part)
}

func TestAProgramScoresReplies(t *testing.T) {
	host := newOpener(t)
	fn, dir := scorer(t, map[string]any{"max_restarts": 100})
	for answer, want := range answered {
		if got := describe(fn.Score(t.Context(), asked(host, "say "+answer))); !matches(got, want) {
			t.Errorf("%s: got %s, want %s", answer, got, want)
		}
	}
	before := starts(t, dir)
	for reply, want := range map[string]string{"row weight": "0.25 map[]", "talk": "2 map[]"} {
		if got := describe(fn.Score(t.Context(), asked(host, reply))); got != want {
			t.Errorf("%s: got %s, want %s", reply, got, want)
		}
	}
	if n := starts(t, dir); n > before+1 {
		t.Errorf("started %d times, want one program for several replies", n-before)
	}
	if got := describe(fn.Score(t.Context(), asked(nil, "say 1"))); !strings.Contains(got, "only a run") {
		t.Errorf("without a host: %s", got)
	}
}

func TestAProgramThatEndsIsAskedOnceMore(t *testing.T) {
	host := newOpener(t)
	fn, dir := scorer(t, nil)
	if got := describe(fn.Score(t.Context(), asked(host, "crash once"))); got != "1 map[]" || starts(t, dir) != 2 {
		t.Errorf("got %s after %d starts, want 1 after 2", got, starts(t, dir))
	}
	got := describe(fn.Score(t.Context(), asked(host, "crash")))
	for _, want := range []string{"error: " + os.Args[0], "ended before it answered: exit status 3", "it said: no memory is left"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %q in it", got, want)
		}
	}
	if got := describe(fn.Score(t.Context(), asked(host, "leave"))); !strings.Contains(got, "exit status 3") {
		t.Errorf("a program that closes its output before it exits: %s", got)
	}
	if len(host.said) == 0 || !strings.Contains(host.said[0], "starts it again") || !strings.Contains(host.log.String(), "no memory is left") {
		t.Errorf("said %q, log %q", host.said, host.log.String())
	}
	if got := describe(fn.Score(t.Context(), asked(host, "say 4"))); got != "4 map[]" {
		t.Errorf("after the crashes: %s", got)
	}
}

// A program that ends every few replies is reported ever more rarely, with the number of restarts.
func TestRestartsAreReportedRarely(t *testing.T) {
	host := newOpener(t)
	fn, _ := scorer(t, nil)
	for range 12 {
		for _, reply := range []string{"say 1", "crash once"} {
			if got := describe(fn.Score(t.Context(), asked(host, reply))); got != "1 map[]" {
				t.Fatal(got)
			}
		}
	}
	if len(host.said) != 2 || !strings.Contains(host.said[0], "; the run starts it again") ||
		!strings.Contains(host.said[1], ": the run has started it again 10 times; the last time: the program ended") {
		t.Errorf("said %q", host.said)
	}
}

func TestAProgramIsNotRestartedForEver(t *testing.T) {
	host := newOpener(t)
	fn, dir := scorer(t, map[string]any{"max_restarts": 2})
	for range 5 {
		_, _ = fn.Score(t.Context(), asked(host, "crash"))
	}
	got := describe(fn.Score(t.Context(), asked(host, "say 1")))
	if starts(t, dir) != 3 || !strings.Contains(got, "max_restarts = 2") {
		t.Errorf("%d starts, want 3; %s", starts(t, dir), got)
	}
}

func TestASlowProgramIsKilled(t *testing.T) {
	host := newOpener(t)
	fn, dir := scorer(t, map[string]any{"timeout": 0.05})
	if got := describe(fn.Score(t.Context(), asked(host, "say 1"))); got != "1 map[]" {
		t.Fatal(got)
	}
	got := describe(fn.Score(t.Context(), asked(host, "hang")))
	if !strings.Contains(got, os.Args[0]) || !strings.Contains(got, "no answer within timeout = 0.05 s") || starts(t, dir) != 1 {
		t.Errorf("%d starts, %s", starts(t, dir), got)
	}
	if got := describe(fn.Score(t.Context(), asked(host, "say 2"))); got != "2 map[]" {
		t.Error(got)
	}
}

// A run that waits for a program says so, once.
func TestAWaitForAProgramIsTold(t *testing.T) {
	host := newOpener(t)
	fn, _ := scorer(t, nil)
	x := fn.(*execReward)
	ctx, cancel := context.WithCancel(t.Context())
	p := newProgram(x, io.Discard, func(line string) { host.Say(line); cancel() })
	p.patience = time.Millisecond
	question, err := encode(asked(host, "hang"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := p.ask(ctx, question); err == nil {
			t.Error("no error after the end of the wait")
		}
	}
	_ = p.Close()
	want := "waits for reward " + x.String() + ": no answer for 1ms (start_timeout = 300 s)"
	if len(host.said) != 1 || host.said[0] != want {
		t.Errorf("said %q, want %q", host.said, want)
	}
}

func TestSeveralWorkersScoreAtOnce(t *testing.T) {
	host := newOpener(t)
	fn, dir := scorer(t, map[string]any{"workers": 3})
	same, err := registry.Rewards.Build("exec", map[string]any{"command": []any{os.Args[0], "be a reward", dir}, "workers": 3})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var pids sync.Map
	for i := range 12 {
		wg.Go(func() {
			r, err := []trinity.RewardFunc{fn, same}[i%2].Score(t.Context(), asked(host, "pid"))
			if err != nil {
				t.Error(err)
			}
			pids.Store(int(r.Value), true)
		})
	}
	wg.Wait()
	n := 0
	pids.Range(func(any, any) bool { n++; return true })
	if n < 2 || n > 3 || starts(t, dir) != 3 {
		t.Errorf("%d processes answered of %d, want 2 or 3 of 3", n, starts(t, dir))
	}
	host.close()
	pids.Range(func(pid, _ any) bool {
		if _, err := os.Stat("/proc/" + strconv.Itoa(pid.(int))); err == nil {
			t.Errorf("process %d runs after the stage", pid)
		}
		return true
	})
}

func TestExecArgumentsAreChecked(t *testing.T) {
	command := []any{os.Args[0]}
	for want, args := range map[string]map[string]any{
		"command: name":         {},
		"executable file":       {"command": []any{"no such program"}},
		"workers: must":         {"command": command, "workers": 0},
		"timeout: must":         {"command": command, "timeout": 0},
		"start_timeout: must":   {"command": command, "start_timeout": -1},
		"max_restarts: must":    {"command": command, "max_restarts": -1},
		"max_memory_mb: must":   {"command": command, "max_memory_mb": -1},
		"env: \"a=b\" is no":    {"command": command, "env": map[string]any{"a=b": "c"}},
		`did you mean "workers`: {"command": command, "worker": 1},
	} {
		if errs := mustFind(t).Check("exec", args); len(errs) == 0 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("got %v, want %q", errs, want)
		}
	}
}
