package run_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// childAgent is set in a process that is an agent, to what it does.
const childAgent = "TRINITY_TEST_AGENT"

// agent makes a rollout over the OpenAI API, or as a worker one for each line of its input.
func agent(does string) int {
	fmt.Fprintln(os.Stderr, "an agent begins")
	tasks := json.NewDecoder(os.Stdin)
	for {
		var task assigned
		if err := tasks.Decode(&task); errors.Is(err, io.EOF) {
			return 0
		} else if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if status := task.make(does); status != 0 {
			return status
		}
	}
}

type assigned struct {
	Prompt  string `json:"prompt"`
	BaseURL string `json:"base_url"`
	APIKey  string `json:"api_key"`

	got struct { // the reply
		Choices []struct{ Message struct{ Content string } }
	}
}

func (task assigned) make(does string) int {
	url := cmp.Or(os.Getenv("OPENAI_BASE_URL"), task.BaseURL) // a service has no such variable
	if does == "worker that prints" {
		fmt.Println(`{"reward": NaN}`) // as Python writes it, which is no JSON
		return 0
	}
	if !strings.HasPrefix(does, "work") && url != task.BaseURL {
		fmt.Fprintln(os.Stderr, "two addresses")
		return 1
	}
	body, _ := json.Marshal(map[string]any{"model": "gpt-9", "messages": []map[string]string{{"role": "user", "content": task.Prompt}}})
	req, _ := http.NewRequest(http.MethodPost, url+"/chat/completions", bytes.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+task.APIKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		fmt.Fprintln(os.Stderr, resp.StatusCode, string(text), err)
		return 1
	}
	if err := json.Unmarshal(text, &task.got); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(`{"reward": 9}`) // as if the policy had written it
	switch does {
	case "score":
		return task.post("/reward", `{"value": 0.5, "parts": {"asked": 1}}`)
	case "work":
		return task.post("/reward", `{"value": 0.5, "parts": {"asked": 1}}`) + task.post("/commit", "")
	case "decide":
		return task.decide()
	case "score again":
		return task.scoreAgain() + task.post("/reward", `{"value": 0.5}`)
	case "work and decide":
		return task.decide() + task.post("/commit", "")
	case "fail":
		fmt.Fprintln(os.Stderr, "there is no disk")
		return 3
	}
	return 0
}

// decide posts what is learnt of the only reply: all but its last token.
func (task assigned) decide() int {
	resp, err := http.Get(task.BaseURL + "/rollout")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer resp.Body.Close()
	var tree struct {
		Replies []struct {
			Turn  int      `json:"turn"`
			Learn [][2]int `json:"learn"`
		} `json:"replies"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&tree); err != nil || len(tree.Replies) != 1 || len(tree.Replies[0].Learn) != 1 {
		fmt.Fprintln(os.Stderr, tree, err)
		return 1
	}
	last := tree.Replies[0].Learn[0][1] - 1
	return task.post("/experiences", fmt.Sprintf(`{"experiences":[{"turn":%d,"reward":%v,"metrics":{"depth":%d},"learn":[[0,%d]]}]}`,
		tree.Replies[0].Turn, float64(last%3)/2, last, last))
}

// scoreAgain lets the policy score the tokens of the chat's recorded sequence, and compares these log-probabilities with the recorded ones.
func (task assigned) scoreAgain() int {
	chat, _ := json.Marshal(map[string]any{"messages": []map[string]string{
		{"role": "user", "content": task.Prompt}, {"role": "assistant", "content": task.got.Choices[0].Message.Content},
	}})
	var sampled struct {
		IDs      []int32   `json:"ids"`
		Prompt   int       `json:"prompt_length"`
		Logprobs []float64 `json:"logprobs"`
	}
	var scored struct{ Logprobs []float64 }
	err := task.fetch("/sequence", string(chat), &sampled)
	if err == nil {
		tokens, _ := json.Marshal(map[string]any{"tokens": sampled.IDs})
		err = task.fetch("/logprobs", string(tokens), &scored)
	}
	for i, want := range sampled.Logprobs {
		if err == nil && math.Abs(scored.Logprobs[sampled.Prompt+i-1]-want) > 1e-5 {
			err = fmt.Errorf("token %d: %v and %v", i, want, scored.Logprobs[sampled.Prompt+i-1])
		}
	}
	if err != nil || len(sampled.Logprobs) == 0 {
		fmt.Fprintln(os.Stderr, "scoring again:", err)
		return 1
	}
	return 0
}

// fetch posts a body to the rollout's address, and reads the answer.
func (task assigned) fetch(path, body string, into any) error {
	resp, err := http.Post(task.BaseURL+path, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %d %s: %v", path, resp.StatusCode, text, err)
	}
	return json.Unmarshal(text, into)
}

// post posts a body to the rollout's address, and returns a status to exit with.
func (task assigned) post(path, body string) int {
	resp, err := http.Post(task.BaseURL+path, "application/json", strings.NewReader(body))
	if err != nil || resp.StatusCode != http.StatusOK {
		fmt.Fprintln(os.Stderr, path, resp, err)
		return 1
	}
	resp.Body.Close()
	return 0
}

// asAgent returns overrides that let this test binary make the rollouts, with further arguments.
func asAgent(does string, more ...string) []string {
	const taskset = "buffer.explorer_input.taskset."
	return []string{
		noEvaluation, taskset + "default_workflow_type=exec",
		taskset + "workflow_args={command: [" + os.Args[0] + "], env: {" + childAgent + ": " + does + "}" + strings.Join(more, "") + "}",
	}
}

// A program that asks what simple_workflow asks trains the same model, bit by bit.
func TestAProgramMakesRollouts(t *testing.T) {
	p := newProject(t, tiny, rl)
	if _, err := p.run(t, append(asAgent("ask"), "name=program")...); err != nil {
		t.Fatal(err)
	}
	if _, err := p.run(t, noEvaluation); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(p.dir, "checkpoints", "p", "program")
	for _, metric := range []string{"rollout/reward/mean", "rollout/response_length/mean"} {
		got, want := curve(t, program, "explorer", metric), curve(t, p.job(), "explorer", metric)
		if len(want) != 8 || !slices.Equal(got, want) {
			t.Errorf("%s is %v, want %v", metric, got, want)
		}
	}
	got, want := curve(t, program, "trainer", "actor/grad_norm"), curve(t, p.job(), "trainer", "actor/grad_norm")
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("gradients %v, want %v", got, want)
	}
}

func TestAProgramScoresItsRollout(t *testing.T) {
	p := newProject(t, tiny, rl)
	if _, err := p.run(t, append(asAgent("score", ", own_reward: true"), "buffer.total_steps=1")...); err != nil {
		t.Fatal(err)
	}
	if asked := curve(t, p.job(), "explorer", "rollout/asked/mean"); !slices.Equal(asked, []float64{1}) {
		t.Errorf("the part of the reward is %v", asked)
	}
}

// A program gives no reward where the task names a reward function, unless the configuration says so.
func TestAProgramScoresNoTaskOfARewardFunction(t *testing.T) {
	p := newProject(t, tiny, rl)
	for _, does := range []string{"score", "decide"} {
		_, err := p.run(t, append(asAgent(does), "buffer.total_steps=1", "name="+does)...)
		oneLine(t, err, "failed or have no valid reward", "the program posted a reward, and the task names a reward function", "own_reward: true")
	}
}

// What a program prints is no reward, also where nothing else scores the rollout.
func TestAPrintedRewardDoesNotCount(t *testing.T) {
	p := newProject(t, tiny, strings.Replace(rl, "default_reward_fn_type: test_even", "", 1))
	_, err := p.run(t, append(asAgent("ask"), "buffer.total_steps=1")...)
	oneLine(t, err, "nothing scored the rollout", `its last line is "{\"reward\": 9}"`, "post it to base_url + /reward")
	_, err = p.run(t, append(asAgent("worker that prints", ", workers: 3"), "buffer.total_steps=1", "name=kept")...)
	oneLine(t, err, `the worker printed "{\"reward\": NaN}"`, "post it", "base_url + /commit")
}

// A program that fails after it has asked the model is not started again: it may have acted.
func TestAProgramThatFails(t *testing.T) {
	p := newProject(t, tiny, rl)
	_, err := p.run(t, append(asAgent("fail"), "buffer.total_steps=1")...)
	oneLine(t, err, "failed or have no valid reward", "exit status 3", "there is no disk")
	if n := strings.Count(read(t, filepath.Join(p.job(), "log", "plugins.log")), "there is no disk"); n != 12 {
		t.Errorf("the program was started %d times for 12 rollouts", n)
	}
}

// Workers make one rollout after another, each at the key of its task, and end with the stage.
func TestWorkersMakeRollouts(t *testing.T) {
	p := newProject(t, tiny, rl)
	if _, err := p.run(t, append(asAgent("work", ", workers: 3, own_reward: true"), "buffer.total_steps=2")...); err != nil {
		t.Fatal(err)
	}
	if asked := curve(t, p.job(), "explorer", "rollout/asked/mean"); !slices.Equal(asked, []float64{1, 1}) {
		t.Errorf("the part of the reward is %v", asked)
	}
	if n := strings.Count(read(t, filepath.Join(p.job(), "log", "plugins.log")), "an agent begins"); n == 0 || n > 3 {
		t.Errorf("%d processes, want 1 to 3", n)
	}
}

// What a program says of its experiences gives the same run, whether it is started for each rollout, kept
// or a service.
func TestProgramsSayWhatIsLearnt(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var task assigned
		if err := json.NewDecoder(r.Body).Decode(&task); err != nil || task.make("decide") != 0 {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer service.Close()
	p := newProject(t, tiny, strings.Replace(rl, "default_reward_fn_type: test_even", "", 1))
	const taskset = "buffer.explorer_input.taskset."
	var first map[string][]float64
	for name, overrides := range map[string][]string{
		"started": asAgent("decide"),
		"kept":    asAgent("work and decide", ", workers: 2"),
		"service": {noEvaluation, taskset + "default_workflow_type=http", taskset + "workflow_args={url: " + service.URL + "}"},
	} {
		if _, err := p.run(t, append(overrides, "buffer.total_steps=3", "name="+name)...); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		job, got := filepath.Join(p.dir, "checkpoints", "p", name), map[string][]float64{}
		for _, metric := range []string{"depth/mean", "depth/max", "reward/mean", "untrained_token_count/mean", "response_length/mean"} {
			got[metric] = curve(t, job, "explorer", "rollout/"+metric)
		}
		got["gradient"] = curve(t, job, "trainer", "actor/grad_norm")
		for i, tokens := range got["response_length/mean"] {
			if got["untrained_token_count/mean"][i] != 1 || tokens != got["depth/mean"][i]+1 {
				t.Errorf("%s: %v", name, got)
			}
		}
		if first == nil {
			first = got
		}
		if len(got["gradient"]) == 0 || !reflect.DeepEqual(got, first) {
			t.Errorf("%s: %v\nanother: %v", name, got, first)
		}
	}
}

// The embedded engine scores the tokens of a recorded sequence as they were sampled.
func TestAProgramScoresTokens(t *testing.T) {
	p := newProject(t, tiny, strings.Replace(rl, "default_reward_fn_type: test_even", "", 1))
	if _, err := p.run(t, append(asAgent("score again"), "buffer.total_steps=1")...); err != nil {
		t.Error(err)
	}
}

// The models that a program may ask for besides the policy must exist.
func TestModelsOfAgentsExist(t *testing.T) {
	p := newProject(t, tiny, rl)
	_, err := p.run(t, append(asAgent("ask", `, models: {"*": policy, "*-mini": judge}`), "buffer.total_steps=1")...)
	oneLine(t, err, `no model is called "judge"`, "explorer.auxiliary_models")
}

// What a program asks another model than the policy is not trained on.
func TestAnAgentAsksAnotherModel(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"choices": [{"message": {"content": "four"}}]}`)
	}))
	defer server.Close()
	p := newProject(t, tiny, rl)
	overrides := append(asAgent("ask", ", models: {\"*\": judge}"), "buffer.total_steps=1", externally(server.URL))
	_, err := p.run(t, overrides...)
	oneLine(t, err, "the program received no reply of the policy, of 1 calls")
}
