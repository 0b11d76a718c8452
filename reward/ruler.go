package reward

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("ruler_reward",
		"A score from 0 to 1 that a model gives each rollout of a group by comparing all of them (RULER). The judge reads what the "+
			"conversations begin with once, and then the rest of each, in an order that follows from `seed`. Equal conversations are sent once and "+
			"get the same score. If no answer is readable, no rollout of the group has a valid reward. Part: ruler.",
		func() trinity.RewardFunc {
			return &rulerReward{askArgs: defaultAsking(), Rubric: "A conversation that achieves its goal scores higher than one that does not. " +
				"One that achieves it with fewer steps and less detour scores higher. Partial progress deserves a partial score."}
		})
}

// rulerReward compares all rollouts of a group in one question.
type rulerReward struct {
	askArgs `yaml:",inline"`
	Rubric  string `yaml:"rubric" doc:"what scores higher"`
	Seed    int    `yaml:"seed" doc:"of the order in which the judge reads the conversations"`
}

// Score implements [trinity.RewardFunc].
func (r *rulerReward) Score(ctx context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	return scoreOne(ctx, r, in)
}

// ScoreGroup implements [trinity.GroupReward].
func (r *rulerReward) ScoreGroup(ctx context.Context, in []trinity.RewardInput) ([]trinity.Reward, error) {
	var chats [][]trinity.Message // the different ones
	which := make([]int, len(in)) // of chats, for each rollout
	for i := range in {
		messages, err := chat(in[i])
		if err != nil {
			return nil, err
		}
		which[i] = len(chats)
		for k, known := range chats {
			if reflect.DeepEqual(said(known), said(messages)) {
				which[i] = k
				break
			}
		}
		if which[i] == len(chats) {
			chats = append(chats, messages)
		}
	}
	read := order(r.Seed, in[0], len(chats))
	scores := make([]float64, len(chats))
	about := make([]*trinity.Experience, len(in))
	for i := range in {
		about[i] = in[i].Experience
	}
	unread := r.ask(ctx, in[0].Host, r.Rubric, r.question(chats, read), func(object json.RawMessage) error {
		var answer struct{ Scores []float64 }
		if err := json.Unmarshal(object, &answer); err != nil || len(answer.Scores) != len(chats) {
			return fmt.Errorf("the answer has no list of %d scores", len(chats))
		}
		for place, score := range answer.Scores {
			if !(score >= 0 && score <= 1) {
				return fmt.Errorf("the answer has the score %g, want one from 0 to 1", score)
			}
			scores[read[place]] = score
		}
		return nil
	}, about...)
	rewards := make([]trinity.Reward, len(in))
	for i := range in {
		rewards[i] = trinity.NewReward(map[string]float64{"ruler": scores[which[i]]})
		if unread != nil {
			var err error
			if rewards[i], err = unscored(unread); err != nil {
				return nil, err
			}
		}
	}
	return rewards, nil
}

// said returns what tells conversations apart: ids of calls do not.
func said(messages []trinity.Message) (all []string) {
	for _, m := range messages {
		m.ToolCallID = ""
		var calls []struct{ Function json.RawMessage }
		if json.Unmarshal(m.ToolCalls, &calls) == nil {
			m.ToolCalls, _ = json.Marshal(calls) // of JSON that was just read
		}
		all = append(all, transcript([]trinity.Message{m}), m.Reasoning)
	}
	return all
}

// question returns what the judge reads: the common beginning of the conversations once, and the rest
// of each, in the order of read.
func (r *rulerReward) question(chats [][]trinity.Message, read []int) string {
	stem := len(chats[0]) - 1
	for _, c := range chats[1:] {
		n := 0
		for n < stem && n < len(c)-1 && reflect.DeepEqual(said(chats[0][n:n+1]), said(c[n:n+1])) {
			n++
		}
		stem = n
	}
	var b strings.Builder
	if stem > 0 {
		b.WriteString("All conversations begin like this:\n\n" + transcript(chats[0][:stem]))
	}
	for place, of := range read {
		fmt.Fprintf(&b, "\n# Conversation %d\n\n%s", place+1, transcript(chats[of][stem:]))
	}
	fmt.Fprintf(&b, "\nScore each conversation from 0 (worst) to 1 (best), by comparing them. Answer with one JSON object: "+
		`{"scores": [the %d scores, in the order of the conversations]}.`, len(chats))
	return b.String()
}
