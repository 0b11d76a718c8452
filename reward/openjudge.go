package reward

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	const doc = "A model's score of the whole conversation, from `score_min` to `score_max`, as in Trinity-RFT with OpenJudge's grader of " +
		"trajectories. `normalize_score` maps it to 0 to 1. The model is `judge`, else `model_name` at the server in the environment variable " +
		"`judge_api_base_url_env`. A conversation without a readable score has no valid reward. Part: trajectory_score, as the model said it."
	for _, name := range []string{"openjudge_reward", "openjudge_trajectory_accuracy_reward", "trajectory_accuracy_grader_reward"} {
		registry.Rewards.Register(name, doc, func() trinity.RewardFunc {
			return &trajectoryJudge{graderArgs: defaultGrader("qwen3-max"), NormalizeScore: true, ScoreMin: 1, ScoreMax: 3}
		})
	}
}

// graderArgs say which model grades, in the words of Trinity-RFT. They are part of the functions with its
// names.
//
// Unlike Trinity-RFT: a grader that fails gives no reward, while there its score is 0.
type graderArgs struct {
	Judge          string  `yaml:"judge" doc:"model that grades: a name in explorer.auxiliary_models or policy; \"\" is model_name"`
	ModelName      string  `yaml:"model_name" doc:"name of the model at its server"`
	BaseURLEnv     string  `yaml:"judge_api_base_url_env" doc:"environment variable with the address of an OpenAI-compatible server"`
	KeyEnv         string  `yaml:"judge_api_key_env" doc:"environment variable with the key of the server"`
	Temperature    float32 `yaml:"temperature" doc:"at which the model grades"`
	MaxConcurrency int     `yaml:"max_concurrency" doc:"questions at once, of one group"`
}

func defaultGrader(model string) graderArgs {
	return graderArgs{ModelName: model, BaseURLEnv: "OPENAI_BASE_URL", KeyEnv: "OPENAI_API_KEY", MaxConcurrency: 8}
}

// asking returns how the model is asked.
func (g *graderArgs) asking() (askArgs, error) {
	a := defaultAsking()
	a.Judge, a.Temperature, a.Workers = g.Judge, g.Temperature, g.MaxConcurrency
	if g.Judge != "" {
		return a, nil
	}
	if g.ModelName == "" || g.BaseURLEnv == "" || g.KeyEnv == "" {
		return a, fmt.Errorf("want judge, or model_name, judge_api_base_url_env and judge_api_key_env, none of them empty")
	}
	a.Judge = g.ModelName + " at " + g.BaseURLEnv
	a.server = &trinity.AskerServer{Model: g.ModelName, BaseURLEnv: g.BaseURLEnv, KeyEnv: g.KeyEnv}
	return a, nil
}

// trajectoryJudge scores conversations.
type trajectoryJudge struct {
	graderArgs     `yaml:",inline"`
	NormalizeScore bool    `yaml:"normalize_score" doc:"map the score to 0 to 1"`
	ScoreMin       float64 `yaml:"score_min" doc:"worst score"`
	ScoreMax       float64 `yaml:"score_max" doc:"best score"`

	by judgeReward
}

// Validate checks the arguments.
func (t *trajectoryJudge) Validate() (err error) {
	t.by = judgeReward{Mode: "score", Lowest: t.ScoreMin, Highest: t.ScoreMax, Instruction: "Judge whether the assistant's steps lead to " +
		"what the user wants: each step follows from what is known, none is needless, and the result is right. The best score is for a " +
		"conversation that reaches the goal with steps that make sense, the worst for one that misses it."}
	if t.by.askArgs, err = t.asking(); err != nil {
		return err
	}
	return registry.Validate(&t.by)
}

// Requires implements [trinity.Requirer].
func (t *trajectoryJudge) Requires() trinity.Requirements { return t.by.askArgs.Requires() }

// Score implements [trinity.RewardFunc].
func (t *trajectoryJudge) Score(ctx context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	return scoreOne(ctx, t, in)
}

// ScoreGroup implements [trinity.GroupReward].
func (t *trajectoryJudge) ScoreGroup(ctx context.Context, in []trinity.RewardInput) ([]trinity.Reward, error) {
	rewards, err := t.by.ScoreGroup(ctx, in)
	for i, r := range rewards {
		if r.Valid {
			said := t.by.said(r)
			if rewards[i].Parts = map[string]float64{"trajectory_score": said}; !t.NormalizeScore {
				rewards[i].Value = said
			}
		}
	}
	return rewards, err
}

// said returns the score that the model wrote for a reward of mode score.
func (j *judgeReward) said(r trinity.Reward) float64 { return j.Lowest + r.Value*(j.Highest-j.Lowest) }
