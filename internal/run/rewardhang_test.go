package run_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// unanswered is the number of questions that a reward never answers, of the 96 of the run.
const unanswered = 3

// A reward that hangs costs the rollout that asked it. The others of its group are scored and
// trained on, and the run goes on.
func TestAHangingRewardCostsItsRollout(t *testing.T) {
	t.Run("exec", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("sh"); err != nil {
			t.Skip("there is no shell")
		}
		p := newProject(t, tiny, strings.ReplaceAll(rl, "test_even", "exec"))
		const script = `n=0
while read -r line; do
  for k in 1 2 3; do mkdir "$HUNG/$k" 2>/dev/null && exec sleep 600; done
  n=$((n+1)); echo $((n % 2))
done`
		write(t, filepath.Join(p.dir, "reward.sh"), script)
		p.costsItsRollouts(t, "reward: no answer", "command: [sh, "+filepath.Join(p.dir, "reward.sh")+"], timeout: 0.5, start_timeout: 0.5, "+
			"env: {HUNG: "+p.dir+"}, workers: 2")
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		var asked atomic.Int64
		released := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n := asked.Add(1)
			if n <= unanswered {
				<-released
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n%2)
		}))
		t.Cleanup(func() {
			close(released)
			server.Close()
		})
		p := newProject(t, tiny, strings.ReplaceAll(rl, "test_even", "http"))
		p.costsItsRollouts(t, "reward: no answer", "url: "+server.URL+", timeout: 0.5, max_retry_times: 0")
	})
}

// costsItsRollouts runs with a reward that hangs at some questions. words are the kind and a part
// of what the log says of each.
func (p project) costsItsRollouts(t *testing.T, words, args string) {
	t.Helper()
	summary, err := p.run(t, noEvaluation, "buffer.explorer_input.taskset.reward_fn_args={"+args+"}")
	if err != nil {
		t.Fatal(err)
	}
	if n := summary.Stages[0].Steps; n != 8 {
		t.Errorf("the run ended after step %d, want 8", n)
	}
	kind, reason, _ := strings.Cut(words, ": ")
	lines := strings.Split(strings.TrimSpace(read(t, filepath.Join(p.job(), "log", "failed_rollouts.log"))), "\n")
	for _, line := range lines {
		if _, what, _ := strings.Cut(line, " "); !strings.HasPrefix(what, kind+": task digits/") || !strings.Contains(what, reason) {
			t.Errorf("the log says %q, want the kind %s and %q", line, kind, reason)
		}
	}
	total := func(name string) (sum float64) {
		for _, v := range curve(t, p.job(), "explorer", name) {
			sum += v
		}
		return sum
	}
	if invalid, ofKind := total("rollout/invalid_reward_count"), total("rollout/failed_"+kind+"_count"); len(lines) != unanswered ||
		invalid != unanswered || ofKind != unanswered {
		t.Errorf("%d lines in the log, %v invalid rewards, %v of kind %s; want %d of each", len(lines), invalid, ofKind, kind, unanswered)
	}
	if scored := curve(t, p.job(), "explorer", "rollout/reward/mean"); len(scored) != 8 {
		t.Errorf("%d steps have rewards, want 8", len(scored))
	}
}
