package workflow

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// student replies right or wrong, and judges: with skill s it gives right replies the score s, and wrong ones 1 − s. Without a
// form its judgements cannot be read.
type student struct {
	says   string
	skill  float64
	form   string
	err    error
	judged int
}

func (s *student) Sample(ctx context.Context, prompt trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	said, asked := s.says, plain{}.Decode(prompt.Tokens)
	if text, _, judges := strings.Cut(asked, "Score each conversation"); judges {
		s.judged++
		if s.err != nil {
			return nil, s.err
		}
		var scores []string
		for _, reply := range strings.Split(text, "# Conversation")[1:] {
			score := 1 - s.skill
			if strings.Contains(reply, "right") {
				score = s.skill
			}
			scores = append(scores, fmt.Sprint(score))
		}
		said = fmt.Sprintf(s.form, strings.Join(scores, ", "))
	}
	return (&parrot{says: said}).Sample(ctx, prompt, p)
}

// truth gives right replies the highest reward of mathematics, and others the lowest.
type truth struct{}

func (truth) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	v := -0.1
	if in.Response == "right" {
		v = 1.1
	}
	return trinity.NewReward(map[string]float64{"accuracy": v}), nil
}

// policyCourt is a host whose policy judges.
type policyCourt struct {
	trinity.Host
	by *student
}

func (c policyCourt) Asker(name string) (trinity.Asker, error) {
	if name != trinity.PolicyAsker {
		return nil, fmt.Errorf("no model is called %q", name)
	}
	m := trinity.Model{Sampler: c.by, Renderer: plain{}, ID: id, Params: trinity.SamplingParams{Untrained: true}}
	return m.Asker(name), nil
}

// trainedRuler runs a group of four rollouts, two of them right.
func trainedRuler(t *testing.T, p float64, s student, change func(*trinity.Rollout)) ([][]*trinity.Experience, []*student, error) {
	t.Helper()
	var group []*trinity.Rollout
	var students []*student
	for run := range 4 {
		own := s
		if own.says = "wrong"; run%2 == 0 {
			own.says = "right"
		}
		r := rollout(task(), nil, truth{})
		r.Model = &trinity.Model{Sampler: &own, Renderer: plain{}, ID: id, Params: trinity.SamplingParams{Temperature: 0.5}}
		r.Model.ID.Run, r.Seed, r.Host = run, 7, policyCourt{by: &own}
		if change != nil {
			change(r)
		}
		group, students = append(group, r), append(students, &own)
	}
	w := build(t, "math_trainable_ruler_workflow", map[string]any{"truth_probability": p})
	all, err := trinity.RequirementsOf(w).RunGroup(t.Context(), group)
	return all, students, err
}

const scoresForm = `{"scores": [%s]}`

// The better a policy judges, the higher the reward of its judgements, which are experiences of the rollouts before the replies.
func TestJudgementsAreRewardedByTheTruth(t *testing.T) {
	for _, skill := range []float64{0, 0.25, 0.75, 1} {
		all, _, err := trainedRuler(t, 1, student{skill: skill, form: scoresForm}, nil)
		if err != nil || len(all) != 4 {
			t.Fatalf("%v, %v", all, err)
		}
		for run, own := range all {
			if len(own) != 2 {
				t.Fatalf("rollout %d has %d experiences, want a judgement and a reply", run, len(own))
			}
			judge, reply := own[0], own[1]
			if judge.Part != "judge" || !judge.Reward.Valid || math.Abs(judge.Reward.Value-skill) > 1e-6 || judge.Metrics["judge_success"] != 1 ||
				math.Abs(judge.Metrics["judge_mae"]-(1-skill)) > 1e-6 || judge.TrainedTokens() == 0 || judge.ID.Run != run {
				t.Errorf("skill %v: the judgement has part %q, reward %+v, metrics %v", skill, judge.Part, judge.Reward, judge.Metrics)
			}
			if want := []float64{1.1, -0.1}[run%2]; reply.Part != "" || reply.Reward.Value != want || reply.Info != nil {
				t.Errorf("the reply has part %q, reward %+v, info %v", reply.Part, reply.Reward, reply.Info)
			}
		}
	}
}

// A judgement that cannot be read is the judge's fault: it has reward 0, and replies keep theirs. Without the truth it gives no reward,
// and nobody learns from it. Without a draw, or in an evaluation, nobody judges.
func TestJudgementsWithoutTruth(t *testing.T) {
	all, _, err := trainedRuler(t, 1, student{form: "%.0sfine"}, nil)
	if err != nil || len(all[0]) != 2 || !all[0][0].Reward.Valid || all[0][0].Reward.Value != 0 || all[0][1].Reward.Value != 1.1 {
		t.Errorf("an unreadable judgement: %+v, %v", all, err)
	}
	all, students, err := trainedRuler(t, 0, student{skill: 0.75, form: scoresForm}, nil)
	for run, own := range all {
		if want := []float64{0.75, 0.25}[run%2]; len(own) != 1 || own[0].Reward.Value != want || own[0].Metrics["gold_reward"] == 0 {
			t.Errorf("rollout %d: %+v", run, own)
		}
	}
	if n := students[0].judged + students[1].judged + students[2].judged + students[3].judged; n != 1 || err != nil {
		t.Errorf("%d judgements, %v", n, err)
	}
	if all, _, err = trainedRuler(t, 0, student{form: "%.0sfine"}, nil); err != nil || len(all[0]) != 1 || all[0][0].Reward.Valid {
		t.Errorf("an unreadable judgement gave %+v, %v", all[0][0].Reward, err)
	}
	all, students, err = trainedRuler(t, 1, student{form: scoresForm}, func(r *trinity.Rollout) { r.Task.Eval = true })
	if err != nil || len(all[0]) != 1 || students[0].judged > 0 || all[0][0].Reward.Value != 1.1 {
		t.Errorf("an evaluation: %+v, %v", all[0], err)
	}
	all, _, err = trainedRuler(t, 1, student{form: scoresForm}, func(r *trinity.Rollout) { r.Model.MaxPromptLen = 700 })
	if err == nil || !strings.Contains(err.Error(), "judging the group: ") || !strings.Contains(err.Error(), "over max_prompt_tokens 700") {
		t.Errorf("a question that is too long: %+v, %v", all, err)
	}
	_, _, err = trainedRuler(t, 1, student{form: scoresForm, err: errors.New("away")}, nil)
	if engine := (*trinity.EngineError)(nil); !errors.As(err, &engine) {
		t.Errorf("a failed engine: %v", err)
	}
}

// The draw follows from the group's seed.
func TestTheTruthIsDrawnFromTheSeed(t *testing.T) {
	const p, groups = 0.2, 400
	known, first := 0, []bool{}
	for again := range 2 {
		for seed := range uint64(groups) {
			all, _, err := trainedRuler(t, p, student{skill: 1, form: scoresForm}, func(r *trinity.Rollout) { r.Seed = seed * 0x9e3779b97f4a7c15 })
			if err != nil {
				t.Fatal(err)
			}
			judged := len(all[0]) == 2
			if again == 0 {
				first = append(first, judged)
			} else if judged != first[seed] {
				t.Fatalf("seed %d drew another time otherwise", seed)
			}
			if judged {
				known++
			}
		}
	}
	if share := float64(known) / 2 / groups; share < 0.14 || share > 0.26 {
		t.Errorf("the truth was there for %v of the groups, want %v", share, p)
	}
}
