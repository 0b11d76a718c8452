package workflow

import (
	"context"
	"errors"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// thinkSystem asks for reasoning before the answer.
const thinkSystem = "First work through the question step by step, then give the answer."

func init() {
	register("rubric_judge_workflow",
		"One turn whose reward is a model's rating of the reply, from 1 to 10, by the rubric in the row's column rubric: a list of "+
			"{description, weight}. The rating is mapped to 0 to 1. If the task names a reward function, that is only watched. Metrics: "+
			"judge_success, and gold_reward if it is watched. A reply without a readable rating has no valid reward.",
		func() trinity.Workflow { return &rubricJudge{judgedArgs: defaultJudged()} })
	registry.Workflows.Register("rubric_judge_openai_workflow",
		"rubric_judge_workflow whose judge is the model `judge_model_name` at the OpenAI-compatible server in the environment variable "+
			"`judge_api_base_url_env`.",
		func() trinity.Workflow { return &rubricServer{BaseURLEnv: "OPENAI_BASE_URL", KeyEnv: "OPENAI_API_KEY"} })
}

// rubricJudge asks one question and lets a model rate the reply.
//
// Unlike Trinity-RFT: without a readable answer there is no reward, while there it is 0, and a row
// without a rubric is an error.
type rubricJudge struct {
	judgedArgs `yaml:",inline"`
}

// Validate builds the rating.
func (w *rubricJudge) Validate() error {
	return w.build("judge_reward", map[string]any{"lowest": 1, "highest": 10, "criteria_key": "rubric",
		"instruction": "Rate how well the reply meets all criteria together. Each criterion has a weight, which says how much it counts; " +
			"one with a negative weight is a fault. A reply that misses several criteria is rated low, and one that meets all is rated high."})
}

// Requires implements [trinity.Requirer].
func (w *rubricJudge) Requires() trinity.Requirements {
	needs := trinity.RequirementsOf(w.by)
	check := needs.CheckTask
	needs.CheckTask = func(t *trinity.Task) error {
		if err := checkPrompt(t); err != nil {
			return err
		}
		return check(t)
	}
	return needs
}

// Run implements [trinity.Workflow].
func (*rubricJudge) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	return ask(ctx, r, thinkSystem)
}

// Compare implements [trinity.GroupWorkflow].
func (w *rubricJudge) Compare(ctx context.Context, r *trinity.Rollout, g trinity.Group) error {
	return w.compare(ctx, r, g, thinkSystem)
}

// rubricServer is a rubricJudge whose judge is at a server that no section of the configuration names.
type rubricServer struct {
	ModelName  string `yaml:"judge_model_name" doc:"name of the judge at its server"`
	BaseURLEnv string `yaml:"judge_api_base_url_env" doc:"environment variable with the address of the server"`
	KeyEnv     string `yaml:"judge_api_key_env" doc:"environment variable with the key of the server"`

	rubricJudge `yaml:"-"`
}

// Validate builds the rating.
func (w *rubricServer) Validate() error {
	if w.ModelName == "" || w.BaseURLEnv == "" || w.KeyEnv == "" {
		return errors.New("want judge_model_name, judge_api_base_url_env and judge_api_key_env, none of them empty")
	}
	w.Judge = w.ModelName + " at " + w.BaseURLEnv
	return w.rubricJudge.Validate()
}

// Requires implements [trinity.Requirer].
func (w *rubricServer) Requires() trinity.Requirements {
	needs := w.rubricJudge.Requires()
	server := &trinity.AskerServer{Model: w.ModelName, BaseURLEnv: w.BaseURLEnv, KeyEnv: w.KeyEnv}
	needs.Askers = []trinity.AskerSpec{{Name: w.Judge, Arg: "judge_model_name", Server: server}}
	return needs
}
