package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	const name, reflects = "RAFT_alfworld_workflow", "RAFT_reflect_alfworld_workflow"
	registry.Workflows.Register(name,
		"alfworld_workflow for the algorithm raft: training learns an episode that is won, with <experience>, <think> and <action> in each "+
			"reply, and nothing of any other. Metrics: success, steps.",
		func() trinity.Workflow { return newRAFT(name, false) })
	registry.Workflows.Register(reflects,
		name+" that plays a lost episode once more, with the first attempt and what came of it before its eyes. Training learns the second "+
			"attempt if it has the format and a higher reward. An evaluation plays once. Metrics also: second_reward, second_steps, improvement.",
		func() trinity.Workflow { return newRAFT(reflects, true) })
}

func newRAFT(name string, again bool) *raftWorkflow {
	game := textGameWorkflow{inEnvironment: inEnvironment{gamePlay(0)}, gameArgs: gameArgs{50}, name: name}
	w := &raftWorkflow{textGameWorkflow: game, again: again}
	w.system = "You act in a world of text. Each reply has three blocks, in this order: <experience>principles and pitfalls that hold for " +
		"tasks of this kind</experience>, <think>your reasoning about this step</think>, <action>one command</action>."
	return w
}

// raftWorkflow plays games. Training learns from the games that are won or improved.
//
// Unlike Trinity-RFT: the second attempt is trained with the first one as its context, because the
// policy read the first attempt when it sampled the second. Repeated commands do not end an episode.
type raftWorkflow struct {
	textGameWorkflow `yaml:",inline"`

	again bool
}

const secondAttempt = "That attempt has ended after %d steps with the reward %g. The task begins anew. Do better: put what you have " +
	"learnt into <experience> as a principle, do not repeat commands that changed nothing, and do not mention this attempt.\n\n"

// Run implements [trinity.Workflow].
func (w *raftWorkflow) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	first, err := w.run(ctx, r)
	if err != nil {
		return nil, err
	}
	exps, err := w.whole(ctx, r, first)
	if err != nil || len(first.before) == 0 || !exps[len(exps)-1].Reward.Valid {
		return exps, err
	}
	got := exps[len(exps)-1].Reward.Value
	metrics := map[string]float64{"success": 0, "steps": float64(len(first.before))}
	if got >= 1 {
		metrics["success"] = 1
	}
	note(exps[0], metrics)
	if got >= 1 && first.hasBlocks(0) {
		return exps, nil
	}
	learnNothing(exps)
	if got >= 1 || !w.again || r.Task.Eval {
		return exps, nil
	}
	second, err := w.second(ctx, r, first, got)
	if err != nil {
		return nil, err
	}
	if len(second.before) == 0 { // no room behind the first attempt
		return exps, nil
	}
	retried, err := w.whole(ctx, r, second)
	if err != nil {
		return nil, err
	}
	reward := retried[len(retried)-1].Reward
	metrics["second_reward"], metrics["second_steps"], metrics["improvement"] = reward.Value, float64(len(second.before)), 0
	if reward.Valid && reward.Value > got {
		metrics["improvement"] = 1
	}
	if metrics["improvement"] == 0 || !second.hasBlocks(len(first.before)) {
		learnNothing(retried)
	}
	note(retried[0], metrics)
	return retried, nil
}

// second plays a game again, behind the first attempt.
func (w *raftWorkflow) second(ctx context.Context, r *trinity.Rollout, first *episode, got float64) (e *episode, err error) {
	err = w.with(ctx, r, func(env trinity.Environment, seen trinity.Observation) error {
		e = &episode{dialogue: first.dialogue.Fork(), tools: first.tools, metrics: map[string]float64{}}
		seen.Messages = slices.DeleteFunc(slices.Clone(seen.Messages), func(m trinity.Message) bool { return m.Role == "system" })
		if len(seen.Messages) == 0 {
			return errors.New("the environment begins without a message of the user")
		}
		seen.Messages[0].Prepend(fmt.Sprintf(secondAttempt, len(first.before), got))
		return w.turns(ctx, env, e, seen)
	})
	return e, err
}

// hasBlocks reports whether all replies after the first n have the three blocks.
func (e *episode) hasBlocks(n int) bool {
	for _, m := range e.dialogue.Messages() {
		if m.Role != "assistant" {
			continue
		}
		if n--; n >= 0 {
			continue
		}
		thinks := m.Reasoning != "" || hasBlock(m.Content, "think")
		if !thinks || !hasBlock(m.Content, "experience") || !hasBlock(m.Content, "action") {
			return false
		}
	}
	return true
}

// hasBlock reports whether a text has words between <name> and </name>.
func hasBlock(text, name string) bool {
	_, rest, _ := strings.Cut(text, "<"+name+">")
	inside, _, closed := strings.Cut(rest, "</"+name+">")
	return closed && strings.TrimSpace(inside) != ""
}

// learnNothing takes the tokens of experiences out of the training.
func learnNothing(exps []*trinity.Experience) {
	for _, e := range exps {
		clear(e.Mask)
	}
}
