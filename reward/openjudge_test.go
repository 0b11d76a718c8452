package reward

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func TestOpenJudgeRewards(t *testing.T) {
	scores := func(question string) (string, error) {
		if strings.Contains(question, "broken") {
			return "?", nil
		}
		return `{"score": 2}`, nil
	}
	for _, c := range []struct {
		name string
		args map[string]any
		want string
	}{
		{"trajectory_accuracy_grader_reward", nil, "0.5map[trajectory_score:2]"},
		{"openjudge_reward", map[string]any{"normalize_score": false}, "2map[trajectory_score:2]"},
		{"openjudge_trajectory_accuracy_reward", map[string]any{"score_max": 2}, "1map[trajectory_score:2]"},
		{"openjudge_multi_grader_reward", nil, "2map[correctness_score:2 relevance_score:2]"},
		{"rm_gallery_reward", map[string]any{"score_aggregation": "sum"}, "4map[correctness_score:2 relevance_score:2]"},
	} {
		args := map[string]any{"judge": "j"}
		for k, v := range c.args {
			args[k] = v
		}
		b := &bench{answer: scores}
		got := b.scores(t, c.name, args, "3", "broken")
		if first, second, _ := strings.Cut(got, "; "); first != c.want || !strings.HasPrefix(second, "invalid: model j: unreadable") {
			t.Errorf("%s %v: %s, want %s", c.name, c.args, got, c.want)
		}
	}
}

// Files of Trinity-RFT name a model at a server in place of one in the configuration.
func TestGradersOfTrinityRFTNameAServer(t *testing.T) {
	for _, name := range []string{"trajectory_accuracy_grader_reward", "openjudge_multi_grader_reward", "rm_gallery_reward"} {
		args := map[string]any{"model_name": "big", "judge_api_base_url_env": "HERE", "judge_api_key_env": "WORD"}
		all := trinity.RequirementsOf(build(t, name, args)).Askers
		if want := (trinity.AskerServer{Model: "big", BaseURLEnv: "HERE", KeyEnv: "WORD"}); len(all) != 1 || *all[0].Server != want {
			t.Errorf("%s asks %+v", name, all)
		}
		for _, wrong := range []map[string]any{{"model_name": ""}, {"judge_api_key_env": ""}, {"max_concurrency": 0}, {"temperature": -1}} {
			if _, err := registry.Rewards.Build(name, wrong); err == nil {
				t.Errorf("%s takes %v", name, wrong)
			}
		}
	}
	for want, args := range map[string]map[string]any{
		"grader_configs":    {"grader_configs": map[string]any{"a": 1}},
		"score_aggregation": {"score_aggregation": "max"},
		"reward_name":       {"reward_name": "helpfulness"},
	} {
		if _, err := registry.Rewards.Build("rm_gallery_reward", args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// RM-Gallery's reward for mathematics is a rule, and asks nobody.
func TestRMGalleryVerifiesMathematics(t *testing.T) {
	b := &bench{}
	if got := b.scores(t, "rm_gallery_reward", map[string]any{"reward_name": "math_verify_reward"}, `\boxed{three}`, "4"); got !=
		"1map[accuracy:1]; 0map[accuracy:0]" {
		t.Error(got)
	}
	needs := trinity.RequirementsOf(build(t, "rm_gallery_reward", map[string]any{"reward_name": "math_verify_reward"}))
	if len(needs.Askers) > 0 || needs.CheckTask == nil {
		t.Errorf("it needs %s", fmt.Sprint(needs))
	}
}
