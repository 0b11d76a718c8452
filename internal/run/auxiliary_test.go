package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

func init() {
	registry.Rewards.Register("test_asking", "The length of a model's answer.", func() trinity.RewardFunc { return &askingReward{} })
}

type askingReward struct {
	Judge string `yaml:"judge" doc:"the model"`
}

func (a *askingReward) Requires() trinity.Requirements {
	return trinity.Requirements{Askers: []trinity.AskerSpec{{Name: a.Judge, Arg: "judge"}}}
}

func (a *askingReward) Score(ctx context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	if in.Host == nil {
		return trinity.Reward{}, errors.New("no host")
	}
	judge, err := in.Host.Asker(a.Judge)
	if err != nil {
		return trinity.Reward{}, err
	}
	answer, err := judge.Ask(ctx, []trinity.Message{{Role: "user", Content: in.Prompt}}, trinity.AskOptions{MaxTokens: 3})
	if err != nil {
		return trinity.Reward{}, err
	}
	return trinity.NewReward(map[string]float64{"length": float64(len(answer.Message.Content))}), nil
}

// asks scores with the model of a name.
func asks(judge string) []string {
	return []string{noEvaluation, "buffer.total_steps=1", "buffer.explorer_input.taskset.default_reward_fn_type=test_asking",
		"buffer.explorer_input.taskset.reward_fn_args={judge: " + judge + "}"}
}

func externally(url string) string {
	return "explorer.auxiliary_models=[{name: judge, engine_type: external, external_model_config: " +
		"{model_name: m, max_retries: 0, base_url: \"" + url + "\", api_key_env: TEST_JUDGE_KEY}}]"
}

func TestARewardAsksAModelBehindAServer(t *testing.T) {
	t.Setenv("TEST_JUDGE_KEY", "sesame")
	t.Setenv("OPENAI_API_KEY", "of another server")
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var q struct {
			Model       string
			MaxTokens   int `json:"max_tokens"`
			Temperature *float64
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.Model != "m" || q.MaxTokens != 3 || q.Temperature == nil ||
			r.Header.Get("Authorization") != "Bearer sesame" {
			t.Errorf("got %+v, %v, %v", q, err, r.Header)
		}
		_, _ = io.WriteString(w, `{"choices": [{"message": {"content": "four"}}]}`) // the run reports a broken answer
	}))
	defer server.Close()
	p := newProject(t, tiny, rl)
	if _, err := p.run(t, append(asks("judge"), externally(server.URL))...); err != nil {
		t.Fatal(err)
	}
	metrics := read(t, filepath.Join(p.job(), "monitor", "metrics.jsonl"))
	if asked.Load() != 12 || !strings.Contains(metrics, `"rollout/length/mean":4`) {
		t.Errorf("%d questions, want 12; metrics:\n%s", asked.Load(), metrics)
	}
	err := filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(read(t, path), "sesame") {
			t.Errorf("the key is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// judging are operators that ask a model.
const judging = `
class Judges:
    def set_auxiliary_model(self, models):
        self.models = models

    async def process(self, exps):
        assert list(self.models) == ["judge"]
        reply = await self.auxiliary_model_wrappers["judge"][0].chat_async([{"role": "user", "content": "How many?"}])
        return exps, {"said": len(reply[0].response_text)}


def judged(exps, auxiliary_models, factor=1):
    return exps, {"told": factor * len(auxiliary_models[0].chat("How many?"))}


def plain(exps):
    return exps
`

// Operators in Python ask models that the run does not train, of which a class gets clients as in Trinity-RFT.
func TestOperatorsInPythonAskModels(t *testing.T) {
	trinitytest.AllowPython(t)
	t.Setenv("TEST_JUDGE_KEY", "sesame")
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, `{"choices": [{"message": {"content": "four"}}]}`) // the run reports a broken answer
	}))
	defer server.Close()
	p := newProject(t, tiny, rl)
	write(t, filepath.Join(p.dir, "judging.py"), judging)
	settings := func(operators string) []string {
		return []string{noEvaluation, "buffer.total_steps=2", externally(server.URL), "data_processor.experience_pipeline.operators=" + operators}
	}
	_, err := p.run(t, settings("[{name: judging.Judges, args: {auxiliary_models: [judge]}}, "+
		"{name: judging.judged, args: {auxiliary_models: [judge], factor: 2}}]")...)
	if err != nil {
		t.Fatal(err)
	}
	metrics := read(t, filepath.Join(p.job(), "monitor", "metrics.jsonl"))
	said, told := `"experience_pipeline/said":4`, `"experience_pipeline/told":8`
	if asked.Load() != 4 || strings.Count(metrics, said) != 2 || strings.Count(metrics, told) != 2 {
		t.Errorf("%d questions, want 4; metrics:\n%s", asked.Load(), metrics)
	}
	_, err = p.run(t, append(settings("[{name: judging.plain, args: {auxiliary_models: [judge]}}]"), "name=plain")...)
	oneLine(t, err, "auxiliary_models names judge, and judging.plain takes no models: want a method set_auxiliary_model")
	_, err = p.run(t, append(settings("[{name: judging.judged, args: {auxiliary_models: [jury]}}]"), "name=jury")...)
	oneLine(t, err, "data_processor.experience_pipeline.operators.0.args.auxiliary_models", `no model is called "jury"`)
}

const upstreamJudging = `
from trinity.buffer.operators import ExperienceOperatorV1


class Judges(ExperienceOperatorV1):
    async def prepare(self):
        assert list(self.auxiliary_models) == ["judge"]

    async def process(self, exps):
        client = self.auxiliary_models["judge"][0]
        reply = await client.chat.completions.create(model=client.model_path, messages=[{"role": "user", "content": "How many?"}])
        return exps, {"said": len(reply.choices[0].message.content)}
`

// An operator of Trinity-RFT asks by the client that it gets there.
func TestCompatOperatorsAskModels(t *testing.T) {
	python := trinitytest.CompatPython(t, "openai")
	t.Setenv("TEST_JUDGE_KEY", "sesame")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"choices": [{"message": {"content": "four"}}]}`) // the run reports a broken answer
	}))
	defer server.Close()
	p := newProject(t, tiny, rl)
	write(t, filepath.Join(p.dir, "upstream.py"), upstreamJudging)
	_, err := p.run(t, noEvaluation, "buffer.total_steps=1", externally(server.URL), "python.interpreter="+python,
		"data_processor.experience_pipeline.operators=[{name: upstream.Judges, args: {auxiliary_models: [judge]}}]")
	if err != nil {
		t.Fatal(err)
	}
	if metrics := read(t, filepath.Join(p.job(), "monitor", "metrics.jsonl")); !strings.Contains(metrics, `"experience_pipeline/said":4`) {
		t.Error(metrics)
	}
}

// judge writes a model with random weights beside the policy, with the policy's tokenizer. change
// changes its config.json; it may be nil.
func (p project) judge(t *testing.T, change func(config map[string]any)) {
	t.Helper()
	from, to := filepath.Join(p.dir, "model"), filepath.Join(p.dir, "judge")
	var shape map[string]any
	if err := json.Unmarshal([]byte(read(t, filepath.Join(from, "config.json"))), &shape); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(shape)
	}
	cfg, err := model.ParseConfig([]byte(encode(t, shape)))
	if err != nil {
		t.Fatal(err)
	}
	random, err := model.RandomInit(cfg, 1, "fan_in")
	if err != nil {
		t.Fatal(err)
	}
	if err := model.WriteDir(to, cfg, random, "f32"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
		write(t, filepath.Join(to, name), read(t, filepath.Join(from, name)))
	}
}

// A model of this machine is in the plan of memory. Its answers and those of the policy follow from the
// seed.
func TestARewardAsksAModelOfThisMachine(t *testing.T) {
	var curves []string
	for i, judge := range []string{"judge", "judge", "policy"} {
		p := newProject(t, tiny, rl)
		overrides := asks(judge)
		if judge == "judge" {
			p.judge(t, nil)
			overrides = append(overrides, "explorer.auxiliary_models=[{name: judge, model_path: "+filepath.Join(p.dir, "judge")+
				", chat_template: \"{% for m in messages %}{{ m.content }}{% endfor %}\"}]")
			f, err := settle.Facts(p.load(t, overrides...).Settled()[0])
			if n := len(f.Memory) - 1; err != nil || f.Memory[n].Kind != "asked model" || f.Memory[n].Bytes < 50_000 {
				t.Errorf("planned is %v, %v; want an asked model of more than its weights", f.Memory, err)
			}
		}
		if _, err := p.run(t, overrides...); err != nil {
			t.Fatal(i, err)
		}
		metrics := read(t, filepath.Join(p.job(), "monitor", "metrics.jsonl"))
		_, rest, _ := strings.Cut(metrics, `"rollout/length/mean":`)
		curves = append(curves, strings.SplitN(rest, ",", 2)[0])
	}
	if curves[0] != curves[1] || curves[0] == "" {
		t.Errorf("two runs with one seed: %s and %s", curves[0], curves[1])
	}
}

func TestModelsThatNobodyCanAskAreErrors(t *testing.T) {
	p := newProject(t, tiny, rl)
	t.Setenv("OPENAI_BASE_URL", "")
	const args = "buffer.explorer_input.taskset.reward_fn_args.judge"
	for _, c := range []struct {
		judge, models string
		want          []string
	}{
		{"jugde", externally("http://127.0.0.1:1"), []string{args, `no model is called "jugde"`, `ask "policy"`}},
		{"policy", externally("http://127.0.0.1:1"), []string{"auxiliary_models.0",
			`no workflow, no reward function and no operator asks the model "judge"`}},
		{"judge", externally(""), []string{"auxiliary_models.0", `the model "judge" has no server; set`, "base_url", "OPENAI_BASE_URL"}},
		{"judge", "explorer.auxiliary_models=[{name: judge, model_path: " + filepath.Join(p.dir, "model") + ", chat_template: hi}]",
			[]string{"auxiliary_models.0.model_path", "has no weights"}},
	} {
		overrides := append(asks(c.judge), c.models)
		_, checked := settle.Facts(p.load(t, overrides...).Settled()[0])
		oneLine(t, checked, c.want...)
		_, ran := p.run(t, overrides...)
		oneLine(t, ran, c.want...)
	}
}

// A judge that is gone costs no reward 0. If it stays away, the run ends.
func TestAJudgeThatStaysAwayEndsTheRun(t *testing.T) {
	p := newProject(t, tiny, rl)
	_, err := p.run(t, append(asks("judge"), externally("http://127.0.0.1:1"))...)
	oneLine(t, err, "model judge was unreachable for 10 questions in a row")
}

// Graders of Trinity-RFT name a server themselves. Without an address the check says which variable to
// set.
func TestAGraderAsksAServerThatItsArgumentsName(t *testing.T) {
	t.Setenv("TEST_GRADER_KEY", "sesame")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !strings.Contains(string(body), `"model":"big"`) || r.Header.Get("Authorization") != "Bearer sesame" {
			t.Errorf("got %s, %v, %v", body, err, r.Header)
		}
		_, _ = io.WriteString(w, `{"choices": [{"message": {"content": "{\"score\": 2}"}}]}`) // the run reports a broken answer
	}))
	defer server.Close()
	p := newProject(t, tiny, rl)
	overrides := []string{noEvaluation, "buffer.total_steps=1",
		"buffer.explorer_input.default_reward_fn_type=trajectory_accuracy_grader_reward",
		"buffer.explorer_input.taskset.reward_fn_args={model_name: big, judge_api_base_url_env: TEST_GRADER, " +
			"judge_api_key_env: TEST_GRADER_KEY}"}
	_, err := settle.Facts(p.load(t, overrides...).Settled()[0])
	oneLine(t, err, "taskset.reward_fn_args.judge", `the model "big at TEST_GRADER" has no server; set TEST_GRADER`)
	t.Setenv("TEST_GRADER", server.URL)
	if _, err := p.run(t, overrides...); err != nil {
		t.Fatal(err)
	}
	metrics := read(t, filepath.Join(p.job(), "monitor", "metrics.jsonl"))
	if !strings.Contains(metrics, `"rollout/trajectory_score/mean":2`) {
		t.Errorf("metrics:\n%s", metrics)
	}
}

// A group is scored once its rollouts have ended, so a judge sees all of them at once.
func TestAJudgeScoresWholeGroups(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		body, err := io.ReadAll(r.Body)
		n := strings.Count(string(body), "# Conversation ")
		if err != nil || n == 0 {
			t.Errorf("got %s, %v", body, err)
		}
		scores := strings.TrimSuffix(strings.Repeat("0.5,", n), ",")
		_, _ = fmt.Fprintf(w, `{"choices": [{"message": {"content": "{\"scores\": [%s]}"}}]}`, scores) // the run reports a broken answer
	}))
	defer server.Close()
	for _, by := range [][]string{
		append(asks("judge"), "buffer.explorer_input.taskset.default_reward_fn_type=ruler_reward"),
		{noEvaluation, "buffer.total_steps=1", "buffer.explorer_input.default_workflow_type=math_ruler_workflow", // asks the first model
			"buffer.explorer_input.taskset.format.system_prompt=Go."},
	} {
		asked.Store(0)
		p := newProject(t, tiny, rl)
		if _, err := p.run(t, append(by, externally(server.URL))...); err != nil {
			t.Fatal(err)
		}
		metrics := read(t, filepath.Join(p.job(), "monitor", "metrics.jsonl"))
		if asked.Load() != 3 || !strings.Contains(metrics, `"rollout/ruler/mean":0.5`) {
			t.Errorf("%d questions for three groups; metrics:\n%s", asked.Load(), metrics)
		}
	}
}

// Configurations of Trinity-RFT name these workflows. Each passes the check as it is there: judges have
// no names, and workflows that score by themselves keep the file's default reward function.
func TestWorkflowsOfTrinityRFTPassTheCheck(t *testing.T) {
	for _, c := range []struct {
		workflow, row, args string
		asks                bool
	}{
		{"math_eval_workflow", `, "answer": "5"`, "{top_p: 1}", false}, // its own values are for evaluations
		{"math_rm_workflow", "", "{}", false},
		{"thinking_budget_workflow", `, "messages": [{"role": "user", "content": "2+3?"}]`, "{thinking_token_budget: 8}", false},
		{"math_ruler_workflow", `, "answer": "5"`, "{}", true},
		{"rubric_judge_workflow", `, "rubric": [{"description": "kind", "weight": 5}]`, "{}", true},
		{"learn2ask_workflow", `, "decision_truth": "stop"`, "{train_mode: Ra+Rs, fusion_mode: default}", true},
		{"user_simulation_workflow", "", "{}", true},
	} {
		p := newProject(t, tiny, rl)
		write(t, filepath.Join(p.dir, "train.jsonl"), `{"question": "2+3?"`+c.row+"}\n")
		overrides := []string{noEvaluation, "buffer.explorer_input.default_workflow_type=" + c.workflow,
			"buffer.explorer_input.taskset.workflow_args=" + c.args,
			"explorer.rollout_model.enable_openai_api=true", "explorer.rollout_model.enable_history=true"}
		if c.asks {
			overrides = append(overrides, externally("http://127.0.0.1:1"))
		}
		if _, err := settle.Facts(p.load(t, overrides...).Settled()[0]); err != nil {
			t.Errorf("%s: %v", c.workflow, err)
		}
	}
}
