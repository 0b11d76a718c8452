package workflow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// keeper is a recorder that opens workers and closes them with the test.
type keeper struct {
	recorder
	open map[string]io.Closer
	log  strings.Builder
}

func (k *keeper) Open(key string, open func(io.Writer) (io.Closer, error)) (io.Closer, error) {
	var err error
	if k.open[key] == nil {
		k.open[key], err = open(&k.log)
	}
	return k.open[key], err
}

func (*keeper) Wait(ctx context.Context, until func(context.Context) error) error { return until(ctx) }

// workers returns a function that lets a worker, written for sh, make a rollout.
func workers(t *testing.T, script string) func(context.Context) (float64, error) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("there is no shell")
	}
	w := build(t, "exec", map[string]any{"command": []any{"sh", "-c", script}, "workers": 1})
	host := &keeper{open: map[string]io.Closer{}}
	t.Cleanup(func() {
		for _, c := range host.open {
			c.Close()
		}
	})
	return func(ctx context.Context) (float64, error) {
		host.recording = two()
		r := rollout(task(), model(&parrot{}), nil)
		r.Host = host
		exps, err := w.Run(ctx, r)
		if err != nil {
			return 0, err
		}
		return exps[1].Reward.Value, nil
	}
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
	run := workers(t, `while read -r task; do
		n=$((n+1)); echo "rollout $n of $OPENAI_API_KEY at $OPENAI_BASE_URL and $ANTHROPIC_BASE_URL"
		case $task in *'"base_url":"http://here/r/k/v1","api_key":"k"}') echo "{\"reward\": $n}";; *) echo '{"error": "no address"}';; esac
	done`)
	for want := 1.0; want < 4; want++ {
		if got, err := run(t.Context()); got != want || err != nil {
			t.Errorf("reward %v, %v; want %v of one process", got, err, want)
		}
	}
	env := (&Exec{}).environment("http://here/v1", noKey)
	if env["ANTHROPIC_BASE_URL"] != "http://here" || env["OPENAI_API_KEY"] == "k" {
		t.Errorf("the environment of workers is %v", env)
	}
}

// A worker that dies fails its rollout. The next one has a new worker.
func TestAWorkerThatDies(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "died")
	run := workers(t, `while read -r task; do
		if [ ! -e `+mark+` ]; then touch `+mark+`; echo "no disk" >&2; exit 3; fi
		echo '{"reward": 7}'
	done`)
	_, err := run(t.Context())
	if kindOf(err) != trinity.FailedAgent || !strings.Contains(err.Error(), "exit status 3; it said: no disk") {
		t.Errorf("error %v", err)
	}
	if got, err := run(t.Context()); got != 7 || err != nil {
		t.Errorf("after that: %v, %v", got, err)
	}
}

// A worker that hangs is killed at its rollout's deadline.
func TestAWorkerThatHangs(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	run := workers(t, `echo $$ >> `+pids+`
	while read -r task; do [ "$(wc -l < `+pids+`)" -gt 1 ] || exec sleep 50; echo '{"reward": 7}'; done`)
	late := &trinity.RolloutError{Kind: trinity.FailedTimeout, Err: errors.New("max_timeout passed")}
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for text := ""; text == ""; time.Sleep(5 * time.Millisecond) {
			data, _ := os.ReadFile(pids)
			text = string(data)
		}
		cancel(late)
	}()
	if _, err := run(ctx); kindOf(err) != trinity.FailedTimeout {
		t.Errorf("error %v", err)
	}
	pid, err := os.ReadFile(pids)
	if _, alive := os.Stat("/proc/" + strings.TrimSpace(string(pid)) + "/stat"); alive == nil || err != nil {
		t.Errorf("process %s runs: %v", pid, err)
	}
	if got, err := run(t.Context()); got != 7 || err != nil {
		t.Errorf("after that: %v, %v", got, err)
	}
}

// A worker that gives two answers to one task would score the next rollout with the second.
func TestAWorkerThatAnswersTwice(t *testing.T) {
	run := workers(t, `while read -r task; do n=$((n+1)); echo "{\"reward\": $n}"; echo '{"more": 1}'; done`)
	for try := 0; ; try++ { // its second line may be late
		_, err := run(t.Context())
		if err == nil && try < 1000 {
			continue
		}
		if strings.Contains(fmt.Sprint(err), "which answers no question") && kindOf(err) == trinity.FailedAgent {
			break
		}
		if try == 1000 {
			t.Fatal(err)
		}
	}
	if got, err := run(t.Context()); got != 1 || err != nil {
		t.Errorf("of a new worker: %v, %v", got, err)
	}
}
