package workflow

import (
	"context"
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Workflows.Register("cod_learn2ask_workflow",
		"Connect-the-Dots on turns of interviews: a rollout makes the turn of each row of a pack, and learns from the judge's scores when and "+
			"what to ask. Rows, rewards and arguments are those of the workflow of one turn. Without a readable answer of the judge the pack has "+
			"no reward.",
		func() trinity.Workflow {
			return &packAsk{packArgs: defaultPack(), learn2Ask: learn2Ask{judgedArgs: defaultJudged(), TrainMode: "Ra+Rs", FusionMode: "default"}}
		})
}

// packAsk makes the turns of the interviews of a pack.
type packAsk struct {
	packArgs  `yaml:",inline"`
	learn2Ask `yaml:",inline"`
}

// Validate checks the arguments.
func (w *packAsk) Validate() error {
	return w.packArgs.validate()
}

// Requires implements [trinity.Requirer].
func (w *packAsk) Requires() trinity.Requirements {
	needs := w.learn2Ask.Requires()
	needs.Packs, needs.FillPacks = true, w.Cod.FillPacks
	return needs
}

// Run implements [trinity.Workflow].
func (w *packAsk) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	return w.run(ctx, r, w.turn)
}

// turn makes the turn of one interview.
func (w *packAsk) turn(ctx context.Context, r *trinity.Rollout, notes string) (*attempt, error) {
	messages, err := chatOf(r.Task, askSystem)
	if err != nil {
		return nil, err
	}
	seen := noted(messages, notes)
	e, err := reply(ctx, r.Model, r.Task, seen)
	if err != nil {
		return nil, err
	}
	a := &attempt{steps: []*trinity.Experience{e}, reward: e.Reward}
	if e.Truncated == trinity.PromptTruncated {
		return a, nil
	}
	e.Prompt = messages[len(messages)-1].Content
	a.chat = append(slices.Clip(messages), trinity.Message{Role: "assistant", Content: e.Response})
	scores, err := w.score(ctx, r, messages, e.Response)
	if err != nil {
		a.reward, err = unjudged(err)
		return a, err
	}
	a.reward = w.shortened(trinity.Reward{Value: w.fuse(scores), Valid: true, Parts: scores}, a.steps, 1)
	a.after = fmt.Sprintf("The right decision was to %s. Scores: decision %g, content %g, format %g.",
		decision(r.Task), scores["action_score"], scores["content_score"], scores["format_score"])
	return a, nil
}
