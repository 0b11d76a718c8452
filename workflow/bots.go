package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Workflows.Register("bots_math_boxed_workflow",
		"math_boxed_workflow on rows whose prompt is a list of messages already, as in the data of BOTS. It adds no system prompt of its own.",
		func() trinity.Workflow { return &botsMath{} })
	registry.Workflows.Register("bots_ref_eval_collect_math_boxed_workflow",
		"bots_math_boxed_workflow that also collects the rewards of a reference model for the selector difficulty_based: a line of JSON for "+
			"each group, with question, truth, rewards and model_version, in the file that the environment variable BOTS_REF_EVAL_LOG_FILE "+
			"names, else in bots/bots_ref_eval_log.jsonl among the plug-ins' files of the run. After a kill a step's lines may be there twice.",
		func() trinity.Workflow { return &botsCollect{} })
}

// botsMath asks a mathematical question that is a list of messages.
type botsMath struct {
	WithThink       bool     `yaml:"with_think" doc:"score a <think> block before the answer"`
	FormatScoreCoef *float64 `yaml:"format_score_coef" doc:"passed to the reward; null keeps the reward's own, 0.1"`
}

// Requires implements [trinity.Requirer].
func (*botsMath) Requires() trinity.Requirements {
	return trinity.Requirements{Reward: true, DefaultReward: "math_boxed_reward", CheckTask: func(t *trinity.Task) error {
		_, err := chatOf(t, "")
		return err
	}}
}

// Run implements [trinity.Workflow].
func (w *botsMath) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	r = withFormat(r, w.WithThink, w.FormatScoreCoef)
	messages, err := chatOf(r.Task, "")
	if err != nil {
		return nil, err
	}
	return askIn(ctx, r, messages)
}

// botsCollect writes the rewards of each group into a file.
type botsCollect struct {
	botsMath `yaml:",inline"`
}

// Compare implements [trinity.GroupWorkflow].
func (w *botsCollect) Compare(_ context.Context, r *trinity.Rollout, g trinity.Group) error {
	messages, err := chatOf(r.Task, "")
	if err != nil {
		return err
	}
	line := struct {
		Version  int64             `json:"model_version"`
		Rewards  []float64         `json:"rewards"`
		Question []trinity.Message `json:"question"`
		Truth    string            `json:"truth"`
	}{Question: messages, Truth: r.Task.Truth()}
	for _, e := range g {
		if e.Reward.Valid {
			line.Version, line.Rewards = e.Versions[1], append(line.Rewards, e.Reward.Value)
		}
	}
	if len(line.Rewards) == 0 {
		return nil
	}
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	path := os.Getenv("BOTS_REF_EVAL_LOG_FILE")
	if path == "" {
		dir, err := r.Host.Dir("bots")
		if err != nil {
			return err
		}
		path = filepath.Join(dir, "bots_ref_eval_log.jsonl")
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n')) // one write, since groups end at once
	return errors.Join(err, f.Close())
}
