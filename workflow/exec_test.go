package workflow

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trinity-go/trinity"
)

// childWorker is set in a process that is a worker, to what it does; markFile names a file that the
// first process creates.
const childWorker, markFile = "TRINITY_TEST_WORKER", "TRINITY_TEST_MARK"

func TestMain(m *testing.M) {
	if does := os.Getenv(childWorker); does != "" {
		os.Exit(beWorker(does))
	}
	os.Exit(m.Run())
}

// beWorker makes a rollout for each line of the input.
func beWorker(does string) int {
	if does == runsPython {
		return runPython()
	}
	post := func(url, body string) {
		if resp, err := http.Post(url, "", strings.NewReader(body)); err == nil {
			resp.Body.Close()
		}
	}
	_, err := os.Stat(os.Getenv(markFile))
	isFirst := err != nil
	if isFirst {
		_ = os.WriteFile(os.Getenv(markFile), fmt.Append(nil, os.Getpid()), 0o600)
	}
	last := ""
	for n, in := 1, bufio.NewScanner(os.Stdin); in.Scan(); n++ {
		var task assignment
		if json.Unmarshal(in.Bytes(), &task) != nil || !strings.HasSuffix(task.BaseURL, "/r/"+task.APIKey+"/v1") {
			return 2
		}
		switch {
		case does == "die" && isFirst:
			fmt.Fprintln(os.Stderr, "no disk")
			return 3
		case does == "hang" && isFirst:
			time.Sleep(time.Hour)
		case strings.HasPrefix(does, "{") || strings.HasPrefix(does, " "):
			fmt.Println(does)
			continue
		case does == "be late": // for the rollout before
			post(last+"/reward", `{"value": 9}`)
			post(last+"/commit", "")
		case does == "print":
			post(task.BaseURL+"/chat/completions", "")
			fmt.Print(os.Getenv("OPENAI_BASE_URL"), " ", os.Getenv("OPENAI_API_KEY"), "\n{\"reward\": 9}\n{}\n", strings.Repeat("{", 1<<20))
		}
		post(task.BaseURL+"/reward", fmt.Sprintf(`{"value": %d}`, n))
		post(task.BaseURL+"/commit", "")
		last = task.BaseURL
	}
	return 0
}

// desk is a host whose endpoints are on a server. It keeps what workflows open until the test ends.
type desk struct {
	noHost
	server *httptest.Server
	open   map[string]io.Closer
	log    pluginLog

	mu      sync.Mutex
	current *place
	places  int
}

// place is an endpoint.
type place struct {
	*desk
	key       string
	options   trinity.EndpointOptions
	recording trinity.Recording
}

func newDesk(t *testing.T) *desk {
	d := &desk{open: map[string]io.Closer{}}
	d.server = httptest.NewServer(d)
	t.Cleanup(func() {
		for _, c := range d.open {
			c.Close()
		}
		d.server.Close()
	})
	return d
}

// ServeHTTP takes a reward or a commit of the rollout that is open.
func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.current
	if p == nil || !strings.HasPrefix(r.URL.Path, "/r/"+p.key+"/v1/") {
		w.WriteHeader(http.StatusConflict)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/chat/completions") {
		p.options.Called()
		return
	}
	if strings.HasSuffix(r.URL.Path, "/commit") {
		p.options.Committed()
		return
	}
	var in struct{ Value float64 }
	if json.NewDecoder(r.Body).Decode(&in) == nil {
		p.recording.Reward = &trinity.Reward{Value: in.Value, Valid: true}
	}
}

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

func (d *desk) Open(key string, open func(io.Writer) (io.Closer, error)) (io.Closer, error) {
	var err error
	if d.open[key] == nil {
		d.open[key], err = open(&d.log)
	}
	return d.open[key], err
}

func (*desk) Wait(ctx context.Context, until func(context.Context) error) error { return until(ctx) }

func (d *desk) Say(line string) { fmt.Fprintln(&d.log, "SAID", line) }

func (d *desk) Serve(_ context.Context, _ *trinity.Model, o trinity.EndpointOptions) (trinity.Endpoint, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.places++
	d.current = &place{d, fmt.Sprint("k", d.places), o, two()}
	return d.current, nil
}

func (p *place) URL() string { return p.server.URL + "/r/" + p.key + "/v1" }
func (p *place) Key() string { return p.key }
func (p *place) Close() (*trinity.Recording, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = nil
	return &p.recording, nil
}

// workers returns a function that lets a worker, which is this binary, make a rollout.
func workers(t *testing.T, does string) (run func(context.Context) (float64, error), mark string) {
	d, mark := newDesk(t), filepath.Join(t.TempDir(), "mark")
	w := build(t, "exec", map[string]any{
		"command": []any{os.Args[0]}, "env": map[string]any{childWorker: does, markFile: mark}, "workers": 1,
	})
	return func(ctx context.Context) (float64, error) {
		r := rollout(task(), model(&parrot{}), nil)
		r.Host = d
		exps, err := w.Run(ctx, r)
		if err != nil {
			return 0, err
		}
		return exps[1].Reward.Value, nil
	}, mark
}

// kindOf returns the kind of a rollout's failure.
func kindOf(err error) trinity.FailureKind {
	var failed *trinity.RolloutError
	errors.As(err, &failed)
	if failed == nil {
		return ""
	}
	return failed.Kind
}

func TestAWorkerMakesSeveralRollouts(t *testing.T) {
	run, _ := workers(t, "work")
	for want := 1.0; want < 4; want++ {
		if got, err := run(t.Context()); got != want || err != nil {
			t.Errorf("reward %v, %v; want %v of one process", got, err, want)
		}
	}
	env := (&execWorkflow{}).environment("http://here/v1", noKey)
	if env["ANTHROPIC_BASE_URL"] != "http://here" || env["OPENAI_API_KEY"] == "k" {
		t.Errorf("the environment of workers is %v", env)
	}
}

// A worker prints what the policy wrote, in lines of any length, and only its posts count.
func TestAWorkerPrintsWhatItLikes(t *testing.T) {
	run, _ := workers(t, "print")
	for want := 1.0; want < 4; want++ {
		if got, err := run(t.Context()); got != want || err != nil {
			t.Errorf("reward %v, %v; want %v", got, err, want)
		}
	}
}

// A worker that answers on its standard output, and before it has asked a model, fails its rollout
// at once. What begins like no answer is the program's own words.
func TestAWorkerThatPrintsItsAnswer(t *testing.T) {
	for _, line := range []string{
		`{"reward": 0.5}`, `{"reward": NaN}`, `{"reward": Infinity, "parts": {}}`, `{'reward': 1}`, `{reward: 1}`, ` { "error" : "no disk"}`,
		`{}`, `{"parts": {"a": NaN}}`, `{"reason": "late`,
	} {
		run, _ := workers(t, line)
		_, err := run(t.Context())
		if kindOf(err) != trinity.FailedAgent || !strings.Contains(err.Error(), "and has not ended its rollout: a reward that") {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, line := range []string{"reward: 1", `{"rewards": 1}`, `{"level": "info", "reward": 1}`, "{", "{1}", "", "0.5"} {
		if looksLikeAnswer([]byte(line)) {
			t.Errorf("%s looks like an answer", line)
		}
	}
}

// After a call of a model such a line may be the policy's, and is an error if no call follows it.
func TestAWorkerThatIsSilentAfterItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancelCause(t.Context())
		defer stop(nil)
		c := &crew{}
		p := &progress{}
		p.calls.Add(1)
		if err := c.heard(p, []byte(`{"reward": 9}`), stop); err != nil {
			t.Fatal(err)
		}
		time.Sleep(silence - time.Millisecond)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Fatal("too early")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if err := context.Cause(ctx); err == nil || !strings.Contains(err.Error(), "has not ended its rollout") {
			t.Errorf("error %v", err)
		}
		ctx, stop = context.WithCancelCause(t.Context())
		if err := c.heard(p, []byte(`{}`), stop); err != nil {
			t.Fatal(err)
		}
		time.Sleep(laterSilence)
		synctest.Wait()
		if ctx.Err() == nil {
			t.Error("the second time takes as long as the first")
		}
		ctx, stop = context.WithCancelCause(t.Context())
		defer stop(nil)
		for _, follows := range []func(){
			func() { p.calls.Add(1) },
			func() { c.commits.Store(true) },
		} {
			if err := c.heard(p, []byte(`{"reward": 9}`), stop); err != nil {
				t.Fatal(err)
			}
			follows()
			time.Sleep(2 * silence)
			synctest.Wait()
			if ctx.Err() != nil {
				t.Errorf("a worker that goes on: %v", context.Cause(ctx))
			}
		}
	})
}

// A post for the rollout before does not count for this one.
func TestAWorkerThatIsLate(t *testing.T) {
	run, _ := workers(t, "be late")
	for want := 1.0; want < 4; want++ {
		if got, err := run(t.Context()); got != want || err != nil {
			t.Errorf("reward %v, %v; want %v", got, err, want)
		}
	}
}

// A worker that dies fails its rollout. The next one has a new worker.
func TestAWorkerThatDies(t *testing.T) {
	run, _ := workers(t, "die")
	_, err := run(t.Context())
	if kindOf(err) != trinity.FailedAgent || !strings.Contains(err.Error(), "exit status 3; it said: no disk") {
		t.Errorf("error %v", err)
	}
	if got, err := run(t.Context()); got != 1 || err != nil {
		t.Errorf("after that: %v, %v", got, err)
	}
}

// A worker that hangs is killed at its rollout's deadline.
func TestAWorkerThatHangs(t *testing.T) {
	run, mark := workers(t, "hang")
	late := &trinity.RolloutError{Kind: trinity.FailedTimeout, Err: errors.New("max_timeout passed")}
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for text := ""; text == "" && t.Context().Err() == nil; time.Sleep(5 * time.Millisecond) {
			data, _ := os.ReadFile(mark)
			text = string(data)
		}
		cancel(late)
	}()
	if _, err := run(ctx); kindOf(err) != trinity.FailedTimeout || !strings.Contains(err.Error(), "ends its rollout with a POST") {
		t.Errorf("error %v", err)
	}
	pid, err := os.ReadFile(mark)
	if _, alive := os.Stat("/proc/" + strings.TrimSpace(string(pid)) + "/stat"); alive == nil || err != nil {
		t.Errorf("process %s runs: %v", pid, err)
	}
	if got, err := run(t.Context()); got != 1 || err != nil {
		t.Errorf("after that: %v, %v", got, err)
	}
}
