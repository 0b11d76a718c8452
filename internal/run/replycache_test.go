//go:build unix

package run_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/trinity-go/trinity/internal/failpoint"
)

// A run that is killed before its rollouts are in the buffer samples them again, but asks the judge
// nothing that it has answered. An answer that nobody can read is asked for again.
func TestAKilledRunAsksItsJudgeNothingTwice(t *testing.T) {
	var mu sync.Mutex
	asked, unread := map[string]int{}, map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		question := string(body)
		mu.Lock()
		defer mu.Unlock()
		answer := `{\"score\": 5}`
		if len(asked) == 1 && asked[question] == 0 {
			unread[question], answer = true, "no idea"
		}
		asked[question]++
		_, _ = io.WriteString(w, `{"choices": [{"message": {"content": "`+answer+`"}}]}`) // the run reports a broken answer
	}))
	defer server.Close()
	p := newProject(t, tiny, rl)
	overrides := []string{noEvaluation, "buffer.total_steps=2", "buffer.explorer_input.default_reward_fn_type=judge_reward",
		"buffer.explorer_input.taskset.reward_fn_args={judge: judge}", externally(server.URL)}
	for _, hit := range []string{"1", "1", "2"} {
		c := p.start(t, []string{failpoint.Variable + "=explorer.rollouts=kill@" + hit}, overrides...)
		if !c.killedWithin(t, 0) {
			t.Fatalf("the run was not killed\n%s", &c.output)
		}
	}
	p.start(t, nil, overrides...).finish(t)
	metrics := read(t, filepath.Join(p.job(), "monitor", "metrics.jsonl"))
	if strings.Count(metrics, `"rollout/judge/mean":0.5`) != 2 || len(asked) < 4 || len(unread) != 1 {
		t.Errorf("%d questions; metrics:\n%s", len(asked), metrics)
	}
	for question, n := range asked {
		if unread[question] && n != 2 || !unread[question] && n != 1 {
			t.Errorf("asked %d times: %s", n, question)
		}
	}
}
