package run_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/trinitytest"
)

// collecting is a server that records real traffic.
type collecting struct {
	p     project
	port  string
	key   string   // of the server
	rules []string // of the kills to come
	kills int
	*process
}

// traffic are the settings of a run that learns from real traffic in groups of two.
var traffic = []string{"synchronizer.sync_style=fully_async", "algorithm.repeat_times=2", "buffer.batch_size=1"}

// start starts the server with the next rule.
func (c *collecting) start(t *testing.T) {
	t.Helper()
	rules := rolling
	if len(c.rules) > 0 {
		rules, c.rules = c.rules[0]+";"+rolling, c.rules[1:]
	}
	c.process = c.p.start(t, []string{"TRINITY_TOKEN=" + c.key, failpoint.Variable + "=" + rules},
		append(slices.Clone(traffic), "mode=serve", "explorer.proxy_port="+c.port, "explorer.listen_address=127.0.0.1",
			"explorer.pending_expiry=3600")...)
}

// post posts until the server answers, and starts it again whenever it has been killed. A client of
// OpenAI numbers its attempts so.
func (c *collecting) post(t *testing.T, key, path, body string) (status int, answer []byte) {
	t.Helper()
	for attempt := 0; ; attempt++ {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:"+c.port+"/v1/"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("x-stainless-retry-count", fmt.Sprint(attempt))
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			answer, err = io.ReadAll(resp.Body)
			err = errors.Join(err, resp.Body.Close())
		}
		if err == nil {
			return resp.StatusCode, answer
		}
		select {
		case err := <-c.done:
			if err == nil || !wasKilled(err) {
				t.Fatalf("%v\n%s", err, &c.output)
			}
			c.kills++
			c.start(t)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// rollout begins a rollout, asks in it, rewards it and commits it.
func (c *collecting) rollout(t *testing.T, group, question string) {
	t.Helper()
	status, answer := c.post(t, c.key, "rollouts", `{"group": "`+group+`"}`)
	var begun struct{ Key string }
	if err := json.Unmarshal(answer, &begun); status != http.StatusOK || err != nil {
		t.Fatalf("%d %s", status, answer)
	}
	for _, r := range []struct{ path, body string }{
		{"chat/completions", `{"messages": [{"role": "user", "content": "` + question + `"}]}`},
		{"reward", fmt.Sprintf(`{"value": %d}`, len(question)%2)},
		{"commit", "{}"},
	} {
		status, answer := c.post(t, begun.Key, r.path, r.body)
		done := r.path == "commit" && status == http.StatusConflict && bytes.Contains(answer, []byte("rollout_ended")) // before the kill
		if status != http.StatusOK && !done {
			t.Fatalf("%s: %d %s", r.path, status, answer)
		}
	}
}

// The trainer trains once on each rollout of real traffic that was committed, wherever the server is
// killed.
func TestTrafficIsTrainedOnceWhateverIsKilled(t *testing.T) {
	t.Parallel()
	rollouts, kills := 8, 4
	if trinitytest.EffortFor("internal/run", "internal/serve/gateway") >= trinitytest.Changed {
		rollouts, kills = 96, 50
	}
	p := newProject(t, tiny, rl)
	c := &collecting{p: p, port: freePort(t), key: "the key of the test"}
	rng := rand.New(rand.NewPCG(11, 18))
	for i := range kills {
		c.rules = append(c.rules, []string{
			fmt.Sprintf("durable.log.record=kill@%d", 1+rng.IntN(8)), "traffic.deliver=kill", "traffic.delivered=kill",
			fmt.Sprintf("durable.log.sync=kill@%d", 1+rng.IntN(8)),
		}[i%4])
	}
	trainer := p.start(t, []string{"TRINITY_TOKEN=" + c.key}, append(slices.Clone(traffic), "mode=train", "buffer.train_batch_size=4",
		"algorithm.sample_strategy=test_audit", "algorithm.sample_strategy_args.file="+p.auditFile(),
		fmt.Sprintf("trainer.total_steps=%d", rollouts/4), fmt.Sprintf("buffer.total_steps=%d", rollouts/4),
		"trainer.trainer_config={actor_rollout_ref: {actor: {ppo_mini_batch_size: 4}}}")...)
	if !trainer.await(t, p.appears("trainer.json")) {
		t.Fatal("the trainer has ended")
	}
	c.start(t)
	for i := range rollouts {
		c.rollout(t, fmt.Sprintf("g%d", i/2), strings.Repeat("max 3 5", 1+i%2))
	}
	for ended := false; !ended; {
		select {
		case err := <-trainer.done:
			if ended = true; err != nil {
				t.Fatalf("%v\n%s", err, &trainer.output)
			}
		case err := <-c.done:
			if !wasKilled(err) {
				t.Fatalf("%v\n%s", err, &c.output)
			}
			c.kills++
			c.start(t)
		}
	}
	if err := c.cmd.Process.Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	<-c.done
	if c.kills < kills {
		t.Errorf("%d kills, want %d", c.kills, kills)
	}
	t.Logf("%d kills", c.kills)
	times := map[string]int{}
	for _, key := range slices.Concat(p.consumed(t)...) {
		id, _, _ := strings.Cut(key, " ")
		_, rollout, _ := strings.Cut(id, "/") // a delivery that is made again may have another step
		times[rollout]++
	}
	for rollout, n := range times {
		if n != 1 || !strings.HasPrefix(rollout, "traffic/g") {
			t.Errorf("trained on %s %d times", rollout, n)
		}
	}
	if len(times) != rollouts {
		t.Errorf("trained on %d rollouts, want %d", len(times), rollouts)
	}
}
