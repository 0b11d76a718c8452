package workflow

import (
	"context"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("door", "An environment for tests.", func() trinity.EnvironmentOpener { return &door{} })
}

// door is won by the command "open", and lost by the second other one.
type door struct{ tries int }

func (*door) OpenEnvironment(context.Context, *trinity.Task) (trinity.Environment, error) {
	return &door{}, nil
}

func (*door) Reset(context.Context, uint64) (trinity.Observation, error) {
	return trinity.Observation{Messages: []trinity.Message{{Role: "system", Content: "A game."}, {Role: "user", Content: "A door."}}}, nil
}

func (d *door) Step(_ context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	d.tries++
	out.Reward, out.Messages = new(float64), []trinity.Message{{Role: "user", Content: "Nothing happens."}}
	if a.Text == "open" {
		*out.Reward = 1
	}
	out.Done = a.Text == "open" || d.tries == 2
	return out, nil
}

func (*door) Close() error { return nil }

func TestRAFTLearnsWhatIsWorthIt(t *testing.T) {
	const open, knock = "<experience>Doors open.</experience><think>So.</think><action>open</action>",
		"<experience>Doors open.</experience><think>So.</think><action>knock</action>"
	const bare = "<action>open</action>"
	for _, c := range []struct {
		again, eval  bool
		replies      []string
		reward       float64
		learnt       []string
		success      float64
		secondReward float64 // −1 without a second attempt
		improvement  float64
	}{
		{false, false, []string{knock, open}, 1, []string{knock, open}, 1, -1, 0},
		{false, false, []string{bare}, 1, nil, 1, -1, 0},
		{false, false, []string{knock, bare}, 1, nil, 1, -1, 0},
		{false, false, []string{knock, knock}, 0, nil, 0, -1, 0},
		{true, false, []string{open}, 1, []string{open}, 1, -1, 0},
		{true, false, []string{bare}, 1, nil, 1, -1, 0},
		{true, false, []string{knock, knock, knock, open}, 1, []string{knock, open}, 0, 1, 1},
		{true, false, []string{knock, "Hm.", open}, 1, []string{open}, 0, 1, 1},
		{true, false, []string{knock, knock, bare}, 1, nil, 0, 1, 1},
		{true, false, []string{knock, knock, knock, knock}, 0, nil, 0, 0, 0},
		{true, true, []string{knock, knock}, 0, nil, 0, -1, 0},
	} {
		name := "RAFT_alfworld_workflow"
		if c.again {
			name = "RAFT_reflect_alfworld_workflow"
		}
		m := model(nil)
		s := &script{replies: c.replies}
		m.Sampler = s
		task := task()
		task.Eval = c.eval
		exps, err := build(t, name, map[string]any{"environment": "door"}).Run(t.Context(), rollout(task, m, nil))
		if err != nil || len(exps) != 1 || s.made != len(c.replies) {
			t.Fatalf("%v: %d experiences after %d replies, %v", c.replies, len(exps), s.made, err)
		}
		e := exps[0]
		var learnt []int32
		for i, on := range e.Mask {
			if on {
				learnt = append(learnt, e.Tokens[i])
			}
		}
		if got, want := (plain{}).Decode(learnt), strings.Join(c.learnt, ""); got != want {
			t.Errorf("%v: training learns %q, want %q", c.replies, got, want)
		}
		second, twice := e.Metrics["second_reward"]
		if !e.Reward.Valid || e.Reward.Value != c.reward || e.Metrics["success"] != c.success || twice != (c.secondReward >= 0) ||
			twice && second != c.secondReward || e.Metrics["improvement"] != c.improvement {
			t.Errorf("%v: reward %+v, metrics %v", c.replies, e.Reward, e.Metrics)
		}
		text := plain{}.Decode(e.Tokens)
		if !strings.HasPrefix(text, "system: A game.\n\nYou act in a world of text.") || strings.Count(text, "system:") != 1 ||
			strings.Contains(text, "has ended after 2 steps") != twice {
			t.Errorf("%v: the policy read %q", c.replies, text)
		}
	}
}
