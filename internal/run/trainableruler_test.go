package run_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/config"
)

// learnsToJudge changes rl to a policy that learns to judge. Random weights write no readable judgement, so only those of groups
// with the truth train, with reward 0.
var learnsToJudge = []string{
	noEvaluation, "buffer.explorer_input.default_workflow_type=math_trainable_ruler_workflow",
	"buffer.explorer_input.taskset.workflow_args={truth_probability: 0.5}",
	"model.max_prompt_tokens=2000", "algorithm.optimizer.lr_scheduler_type=constant", "buffer.total_steps=4",
}

// withRoom returns a project whose model has room for judgements.
func withRoom(t *testing.T) project {
	p := newProject(t, tiny, rl)
	path := filepath.Join(p.dir, "model", "config.json")
	text := read(t, path)
	longer := strings.Replace(text, `"max_position_embeddings":512`, `"max_position_embeddings":4096`, 1)
	if longer == text {
		t.Fatal(text)
	}
	write(t, path, longer)
	return p
}

// A run whose rollouts have judgements in some groups has steps of as many rollouts as ever, and resumes to the same bytes.
func TestARunThatLearnsToJudgeResumes(t *testing.T) {
	p := withRoom(t)
	if _, err := p.run(t, learnsToJudge...); err != nil {
		t.Fatal(err)
	}
	again := withRoom(t)
	if _, err := again.run(t, append(learnsToJudge, "buffer.total_steps=2")...); err != nil {
		t.Fatal(err)
	}
	if _, err := again.run(t, learnsToJudge...); err != nil {
		t.Fatal(err)
	}
	results(t, again.dir).sameAs(t, results(t, p.dir))
	if !exists(filepath.Join(p.job(), "global_step_4")) {
		t.Error("train step 4 is missing")
	}
	if judged := curve(t, p.job(), "explorer", "rollout/judge_reward/mean"); len(judged) == 0 || judged[0] != 0 {
		t.Errorf("rewards of judgements %v", judged)
	}
}

// The plan says what may be left over, and algorithms that know steps refuse parts.
func TestThePlanSaysWhatPartsLeaveOver(t *testing.T) {
	p := withRoom(t)
	for size, want := range map[string]string{"16": "up to 8 of 24 experiences", "24": "", "null": ""} {
		plan, err := p.load(t, append(learnsToJudge, "buffer.train_batch_size="+size)...).Plan(config.Facts{})
		if err != nil {
			t.Fatal(err)
		}
		if text := plan.String(); strings.Contains(text, "left over") != (want != "") || !strings.Contains(text, want) {
			t.Errorf("train_batch_size %s: %s", size, text)
		}
	}
	for _, algorithm := range []string{
		"algorithm_type=multi_step_grpo", "algorithm_type=remax", "algorithm_type=reinforceplusplus", "advantage_fn=cod",
	} {
		_, err := p.run(t, append(learnsToJudge, "algorithm."+algorithm)...)
		oneLine(t, err, "workflow math_trainable_ruler_workflow gives experiences of several parts", "choose an advantage_fn")
	}
}

// A reward function that compares the group would score it after the workflow has, and take its rewards away.
func TestAPolicyThatJudgesRefusesARewardOfTheGroup(t *testing.T) {
	p := withRoom(t)
	_, err := p.run(t, append(learnsToJudge, "buffer.explorer_input.default_reward_fn_type=ruler_reward",
		"buffer.explorer_input.taskset.reward_fn_args={judge: policy}")...)
	oneLine(t, err, "workflow math_trainable_ruler_workflow reads the reward of each reply before the group has ended",
		"reward function ruler_reward compares", "default_reward_fn_type")
}
