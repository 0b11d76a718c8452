package run_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// childAgent is set in a process that is an agent, to what it does.
const childAgent = "TRINITY_TEST_AGENT"

// agent asks the question of its assignment over the OpenAI API.
func agent(does string) int {
	var task struct {
		Prompt  string `json:"prompt"`
		BaseURL string `json:"base_url"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&task); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if task.BaseURL != os.Getenv("OPENAI_BASE_URL") {
		fmt.Fprintln(os.Stderr, "two addresses")
		return 1
	}
	body, _ := json.Marshal(map[string]any{"model": "gpt-9", "messages": []map[string]string{{"role": "user", "content": task.Prompt}}})
	resp, err := http.Post(task.BaseURL+"/chat/completions", "application/json", bytes.NewReader(body))
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
	switch does {
	case "score":
		fmt.Println("I have an answer.")
		fmt.Println(`{"reward": 0.5, "parts": {"asked": 1}}`)
	case "fail":
		fmt.Fprintln(os.Stderr, "there is no disk")
		return 3
	}
	return 0
}

// asAgent returns overrides that let this test binary make the rollouts.
func asAgent(does string) []string {
	const taskset = "buffer.explorer_input.taskset."
	return []string{
		noEvaluation, taskset + "default_workflow_type=exec",
		taskset + "workflow_args={command: [" + os.Args[0] + "], env: {" + childAgent + ": " + does + "}}",
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
	if _, err := p.run(t, append(asAgent("score"), "buffer.total_steps=1")...); err != nil {
		t.Fatal(err)
	}
	if asked := curve(t, p.job(), "explorer", "rollout/asked/mean"); !slices.Equal(asked, []float64{1}) {
		t.Errorf("the part of the reward is %v", asked)
	}
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
