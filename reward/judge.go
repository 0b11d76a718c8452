package reward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("judge_reward",
		"What a model says of the reply. mode score: a number from `lowest` to `highest`, mapped to 0 to 1. mode label: one of `labels`, which "+
			"maps each to its reward. mode rubric: the weighted share of `criteria` that the reply meets, a list of {criterion, weight: 1}, from 0 "+
			"to 1; a negative weight counts against the reply. In the other modes the judge reads the criteria with their weights. "+
			"`criteria_key` names the column of the row that has the list; description means criterion there. "+
			"mode pairwise: the share of the other replies of its group that the reply beats; a tie counts half, equal replies tie, and which "+
			"reply the judge reads first follows from `seed`. The judge sees the conversation and, if the task has one, the reference answer. "+
			"A reply without a readable answer has no valid reward. Part: judge; mode rubric also has criterion_<number> for each.",
		func() trinity.RewardFunc {
			return &judgeReward{askArgs: defaultAsking(), Mode: "score", Highest: 10, Instruction: "Judge how good the reply is."}
		})
}

// judgeReward asks a model about each reply, or about pairs of a group.
type judgeReward struct {
	askArgs     `yaml:",inline"`
	Mode        string             `yaml:"mode" enum:"score|label|rubric|pairwise" doc:"score, label, rubric or pairwise"`
	Instruction string             `yaml:"instruction" doc:"what the judge is to look at"`
	Lowest      float64            `yaml:"lowest" doc:"worst score"`
	Highest     float64            `yaml:"highest" doc:"best score"`
	Labels      map[string]float64 `yaml:"labels" range:"(,)" doc:"rewards by label"`
	Criteria    []criterion        `yaml:"criteria" doc:"what a reply should meet: a list of {criterion, weight}"`
	CriteriaKey string             `yaml:"criteria_key" doc:"column of the row with the criteria, in place of criteria"`
	Seed        int                `yaml:"seed" doc:"of the order of pairs"`
}

// Validate checks the arguments.
func (j *judgeReward) Validate() error {
	switch j.Mode {
	case "score":
		if !(j.Lowest < j.Highest) || math.IsInf(j.Highest-j.Lowest, 0) {
			return fmt.Errorf("highest: must be above lowest %g, got %g", j.Lowest, j.Highest)
		}
	case "label":
		if len(j.Labels) < 2 {
			return errors.New("labels: map at least two labels to rewards, such as {good: 1, bad: 0}")
		}
	case "rubric":
		if len(j.Criteria) == 0 && j.CriteriaKey == "" {
			return errors.New("criteria: list what a reply should meet, such as [{criterion: it names its source}]")
		}
	}
	if err := complete(j.Criteria); err != nil {
		return fmt.Errorf("criteria%w", err)
	}
	return nil
}

// Requires implements [trinity.Requirer].
func (j *judgeReward) Requires() trinity.Requirements {
	needs := j.askArgs.Requires()
	needs.CheckTask = func(t *trinity.Task) error {
		_, err := j.criteria(t)
		return err
	}
	return needs
}

// Score implements [trinity.RewardFunc].
func (j *judgeReward) Score(ctx context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	return scoreOne(ctx, j, in)
}

// ScoreGroup implements [trinity.GroupReward].
func (j *judgeReward) ScoreGroup(ctx context.Context, in []trinity.RewardInput) ([]trinity.Reward, error) {
	if j.Mode == "pairwise" {
		return j.pairs(ctx, in)
	}
	rewards := make([]trinity.Reward, len(in))
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(j.Workers)
	for i := range in {
		eg.Go(func() (err error) {
			if rewards[i], err = j.one(ctx, in[i]); err != nil {
				rewards[i], err = unscored(err)
			}
			return err
		})
	}
	return rewards, eg.Wait()
}

// one asks about one reply.
func (j *judgeReward) one(ctx context.Context, in trinity.RewardInput) (reward trinity.Reward, err error) {
	criteria, err := j.criteria(in.Task)
	if err != nil {
		return reward, err
	}
	question, err := j.question(in, "[reply]\n"+in.Response, criteria)
	if err != nil {
		return reward, err
	}
	err = j.ask(ctx, in.Host, j.Instruction, question, func(object json.RawMessage) error {
		parts, err := j.read(object, criteria)
		if err == nil {
			reward = trinity.Reward{Value: parts["judge"], Valid: true, Parts: parts}
		}
		return err
	}, in.Experience)
	return reward, err
}

// question returns what the judge reads about replies.
func (j *judgeReward) question(in trinity.RewardInput, replies string, criteria []criterion) (string, error) {
	messages, err := chat(in)
	if err != nil {
		return "", err
	}
	text := "The conversation:\n\n" + transcript(messages[:len(messages)-1])
	if in.Truth != "" {
		text += "\nThe reference answer:\n\n" + in.Truth + "\n"
	}
	text += "\n" + replies + "\n\n"
	if len(criteria) > 0 {
		text += "The criteria:\n" + written(criteria, j.Mode != "rubric")
	}
	return text + j.form(len(criteria)), nil
}

// form says how the judge is to answer.
func (j *judgeReward) form(criteria int) string {
	switch j.Mode {
	case "score":
		return fmt.Sprintf(`Answer with one JSON object: {"score": n}, where n is a number from %g (worst) to %g (best).`, j.Lowest, j.Highest)
	case "label":
		return fmt.Sprintf(`Answer with one JSON object: {"label": "…"}, where the label is one of: %s.`,
			strings.Join(slices.Sorted(maps.Keys(j.Labels)), ", "))
	case "rubric":
		return fmt.Sprintf(`Answer with one JSON object: {"met": [true or false for each of the %d criteria, in order]}.`, criteria)
	}
	return `Answer with one JSON object: {"better": "A"}, {"better": "B"}, or {"better": "tie"}.`
}

// read returns the parts of the reward in an answer.
func (j *judgeReward) read(object json.RawMessage, criteria []criterion) (map[string]float64, error) {
	var answer struct {
		Score *float64
		Label string
		Met   []bool
	}
	if err := json.Unmarshal(object, &answer); err != nil {
		return nil, fmt.Errorf("the answer is not of the form %s", j.form(len(criteria)))
	}
	switch j.Mode {
	case "score":
		if answer.Score == nil || !(*answer.Score >= j.Lowest && *answer.Score <= j.Highest) {
			return nil, fmt.Errorf("the answer has no score from %g to %g", j.Lowest, j.Highest)
		}
		return map[string]float64{"judge": (*answer.Score - j.Lowest) / (j.Highest - j.Lowest)}, nil
	case "label":
		v, ok := j.Labels[answer.Label]
		if !ok {
			return nil, fmt.Errorf("the answer has the label %q, which is not in labels", answer.Label)
		}
		return map[string]float64{"judge": v}, nil
	}
	return met(criteria, answer.Met)
}

// pair is a comparison of two replies of a group, by their numbers.
type pair struct {
	a, b int
	won  float64 // by a: 1, 0, or 0.5 for a tie
	err  error
}

// pairs compares each two replies of a group.
func (j *judgeReward) pairs(ctx context.Context, in []trinity.RewardInput) ([]trinity.Reward, error) {
	var all []*pair
	for a := range in {
		for b := range a {
			p := &pair{a: a, b: b}
			if order(j.Seed+len(all), in[0], 2)[0] == 0 {
				p.a, p.b = b, a
			}
			all = append(all, p)
		}
	}
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(j.Workers)
	for _, p := range all {
		eg.Go(func() error {
			var engine *trinity.EngineError
			if p.err = j.compare(ctx, in, p); errors.As(p.err, &engine) {
				return p.err
			}
			return nil
		})
	}
	if err := eg.Wait(); err != nil {
		return nil, err
	}
	rewards := make([]trinity.Reward, len(in))
	for i := range in {
		won, compared, why := 0.0, 0, errors.New("mode pairwise needs a group of at least two replies")
		for _, p := range all {
			switch {
			case p.a != i && p.b != i:
			case p.err != nil:
				why = p.err
			case p.a == i:
				won, compared = won+p.won, compared+1
			default:
				won, compared = won+1-p.won, compared+1
			}
		}
		if rewards[i] = unscoredBy(trinity.KindOf(why, ""), why.Error()); compared > 0 {
			rewards[i] = trinity.NewReward(map[string]float64{"judge": won / float64(compared)})
		}
	}
	return rewards, nil
}

// compare asks which of two replies is better.
func (j *judgeReward) compare(ctx context.Context, in []trinity.RewardInput, p *pair) error {
	a, b := in[p.a], in[p.b]
	if a.Response == b.Response {
		p.won = 0.5
		return nil
	}
	criteria, err := j.criteria(a.Task)
	if err != nil {
		return err
	}
	question, err := j.question(a, "[reply A]\n"+a.Response+"\n\n[reply B]\n"+b.Response, criteria)
	if err != nil {
		return err
	}
	return j.ask(ctx, a.Host, j.Instruction, question, func(object json.RawMessage) error {
		var answer struct{ Better string }
		if err := json.Unmarshal(object, &answer); err != nil {
			return err
		}
		won, ok := map[string]float64{"A": 1, "B": 0, "tie": 0.5}[answer.Better]
		if !ok {
			return fmt.Errorf("the answer prefers %q, want A, B or tie", answer.Better)
		}
		p.won = won
		return nil
	})
}
