package workflow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	_ "github.com/trinity-go/trinity/reward" // the reward functions that ask a judge
)

// court is a host with the first auxiliary model as judge, whose answers a test writes.
type court struct {
	trinity.Host
	answer    string
	err       error
	mu        sync.Mutex
	questions []string
}

func (c *court) Asker(name string) (trinity.Asker, error) {
	if name != "0" {
		return nil, fmt.Errorf("no model is called %q", name)
	}
	return c, nil
}

func (c *court) Ask(_ context.Context, messages []trinity.Message, _ trinity.AskOptions) (trinity.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.questions = append(c.questions, messages[0].Content+"\n"+messages[1].Content)
	return trinity.Answer{Message: trinity.Message{Role: "assistant", Content: c.answer}}, c.err
}

// judged runs a group of a workflow whose judge gives these answers.
func judged(
	t *testing.T, name string, c *court, task *trinity.Task, reward trinity.RewardFunc, replies ...string,
) (g trinity.Group, err error) {
	t.Helper()
	w := build(t, name, nil).(trinity.GroupWorkflow)
	r := rollout(task, nil, reward)
	r.Host = c
	for _, says := range replies {
		r.Model = model(&parrot{says: says})
		exps, err := w.Run(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		g = append(g, exps...)
	}
	return g, w.Compare(t.Context(), r, g)
}

func TestMathRuler(t *testing.T) {
	c := &court{answer: `{"scores": [0.25, 0.25]}`}
	g, err := judged(t, "math_ruler_workflow", c, task(), &echo{}, "5", "6", "5")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range g {
		if m := e.Metrics; !e.Reward.Valid || e.Reward.Value != 0.25 || m["gold_reward"] != 1.5 || m["accuracy"] != 1 || m["judge_success"] != 1 {
			t.Errorf("%s: reward %+v, metrics %v", e.Response, e.Reward, m)
		}
	}
	if len(c.questions) != 1 || strings.Count(c.questions[0], "2+3?") != 1 || !strings.Contains(c.questions[0], "<answer>") {
		t.Errorf("asked %q", c.questions)
	}
	g, err = judged(t, "async_math_ruler_workflow", &court{answer: "all are fine"}, task(), &echo{}, "5", "6")
	if err != nil || g[0].Reward.Valid || g[0].Metrics["judge_success"] != 0 || g[0].Metrics["gold_reward"] != 1.5 {
		t.Errorf("an unreadable answer: %+v, %v, %v", g[0].Reward, g[0].Metrics, err)
	}
	_, err = judged(t, "math_ruler_workflow", &court{err: &trinity.EngineError{Err: errors.New("away")}}, task(), &echo{}, "5")
	if engine := (*trinity.EngineError)(nil); !errors.As(err, &engine) {
		t.Errorf("a failed engine: %v", err)
	}
}

func TestRubricJudge(t *testing.T) {
	task := task()
	task.Row["rubric"] = []any{
		map[string]any{"title": "Source", "description": "names its source", "weight": 5},
		map[string]any{"description": "is rude", "weight": -1.5},
	}
	c := &court{answer: `{"score": 4}`}
	g, err := judged(t, "rubric_judge_workflow", c, task, nil, "5", "6")
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range g {
		if !e.Reward.Valid || e.Reward.Value != 1./3 || e.Metrics["judge_success"] != 1 || len(e.Metrics) != 1 {
			t.Errorf("reward %+v, metrics %v", e.Reward, e.Metrics)
		}
		for _, want := range []string{
			"2+3?", "[reply]\n" + e.Response, "(weight 5) names its source\n", "(weight -1.5) is rude\n", "from 1 (worst) to 10",
		} {
			if all := strings.Join(c.questions, "\n"); !strings.Contains(all, want) || strings.Contains(all, "reference answer") {
				t.Errorf("question %d lacks %q: %q", i, want, c.questions)
			}
		}
	}
	g, err = judged(t, "rubric_judge_workflow", &court{answer: `{"score": 0}`}, task, &echo{}, "5")
	if err != nil || g[0].Reward.Valid || g[0].Metrics["judge_success"] != 0 || g[0].Metrics["gold_reward"] != 1.5 {
		t.Errorf("a rating out of range: %+v, %v, %v", g[0].Reward, g[0].Metrics, err)
	}
	check := trinity.RequirementsOf(build(t, "rubric_judge_workflow", nil)).CheckTask
	if err := check(task); err != nil {
		t.Error(err)
	}
	for _, wrong := range []any{
		nil, "be kind", []any{}, []any{map[string]any{"title": "x"}}, []any{map[string]any{"description": "x", "weight": -1}},
	} {
		task.Row["rubric"] = wrong
		if err := check(task); err == nil || !strings.Contains(err.Error(), `"rubric"`) {
			t.Errorf("rubric %v: %v", wrong, err)
		}
	}
}

// The judge of rubric_judge_openai_workflow is at a server that no list of the configuration names.
func TestRubricJudgeAtAServer(t *testing.T) {
	const name = "rubric_judge_openai_workflow"
	w := build(t, name, map[string]any{"judge_model_name": "gpt", "judge_api_key_env": "KEY"}).(trinity.GroupWorkflow)
	needs := trinity.RequirementsOf(w)
	want := trinity.AskerServer{Model: "gpt", BaseURLEnv: "OPENAI_BASE_URL", KeyEnv: "KEY"}
	if len(needs.Askers) != 1 || *needs.Askers[0].Server != want || needs.Askers[0].Name != "gpt at OPENAI_BASE_URL" {
		t.Fatalf("it needs %+v", needs.Askers)
	}
	task := task()
	task.Row["rubric"] = []any{map[string]any{"description": "names its source", "weight": 5}}
	if err := needs.CheckTask(task); err != nil {
		t.Error(err)
	}
	r := rollout(task, model(&parrot{says: "5"}), nil)
	r.Host = served{&court{answer: `{"score": 10}`}, t}
	g, err := w.Run(t.Context(), r)
	if err == nil {
		err = w.Compare(t.Context(), r, g)
	}
	if err != nil || g[0].Reward.Value != 1 {
		t.Errorf("got %+v, %v", g, err)
	}
	if _, err := registry.Workflows.Build(name, nil); err == nil || !strings.Contains(err.Error(), "judge_model_name") {
		t.Errorf("without a model: %v", err)
	}
}

// served is a court with a judge at a server.
type served struct {
	*court
	t *testing.T
}

func (s served) Asker(name string) (trinity.Asker, error) {
	if name != "gpt at OPENAI_BASE_URL" {
		s.t.Errorf("the judge is called %q", name)
	}
	return s.court, nil
}
