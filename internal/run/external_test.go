package run_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/trinity-go/trinity/internal/config"
)

// behindAPI serves a model that answers the questions of the project, and text of a special token to those with a 9 first. It
// asks to come back at its first request.
func behindAPI(t *testing.T) (overrides []string, asked *atomic.Int32) {
	asked = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Model       string
			Messages    []struct{ Role, Content string }
			Temperature *float64
			MaxTokens   int `json:"max_tokens"`
		}
		if asked.Add(1) == 1 {
			w.Header().Set("Retry-After", "0.001")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.Model != "gpt-x" || q.Temperature == nil || q.MaxTokens == 0 ||
			r.Header.Get("Authorization") != "Bearer sesame" {
			t.Errorf("got %+v, %v", q, err)
		}
		var a, b int
		if _, err := fmt.Sscanf(q.Messages[len(q.Messages)-1].Content, "max %d %d", &a, &b); err != nil {
			t.Error(err)
		}
		reply := fmt.Sprintf("<answer>%d</answer>", max(a, b))
		if a == 9 {
			reply += "<|im_end|>"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"choices": []any{map[string]any{"message": map[string]any{"content": reply}, "finish_reason": "stop"}},
			"usage":   map[string]any{"prompt_tokens": 5, "completion_tokens": 5},
		})
	}))
	t.Cleanup(server.Close)
	t.Setenv("TEST_API_KEY", "sesame")
	return []string{"explorer.rollout_model.engine_type=external", "model.external_model={model_name: gpt-x, base_url: \"" + server.URL +
		"\", api_key_env: TEST_API_KEY}", "buffer.explorer_input.default_reward_fn_type=math_reward", "explorer.max_retry_times=0",
		"model.max_response_tokens=30"}, asked
}

// Mode bench evaluates a model behind an API of text.
func TestBenchAsksAnAPI(t *testing.T) {
	p := newProject(t, tiny, rl)
	api, asked := behindAPI(t)
	if _, err := p.run(t, append(api, "mode=bench", "explorer.eval_on_startup=true")...); err != nil {
		t.Fatal(err)
	}
	if got := curve(t, p.job(), "explorer", "bench/few/accuracy/mean@2"); len(got) != 1 || got[0] != 1 {
		t.Errorf("accuracy %v after %d requests, want 1", got, asked.Load())
	}
}

// Mode explore writes what a model behind an API says to a file, and raft learns from it. A reply whose tokens read otherwise is a
// failed rollout. Where log-probabilities are read, and where tokens are asked with, the API is refused.
func TestWordsOfAnAPIBecomeExperiences(t *testing.T) {
	p := newProject(t, tiny, rl)
	api, asked := behindAPI(t)
	explore := append(api, "mode=explore", "algorithm.algorithm_type=raft", "algorithm.advantage_fn=null", noEvaluation,
		"buffer.trainer_input.experience_buffer.storage_type=file")
	if _, err := p.run(t, explore...); err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(p.job(), "buffer", "experience_buffer.jsonl")
	all, failed := experiences(t, kept), 0.0
	for _, e := range all {
		if e.Source != "external:gpt-x" || e.Logprobs != nil || e.Versions != [2]int64{-1, -1} || !strings.HasPrefix(e.Response, "<answer>") ||
			e.TrainedTokens() != 4 || e.PromptLen == 0 || strings.HasPrefix(e.Prompt, "max 9") {
			t.Fatalf("%+v", e)
		}
	}
	for _, n := range curve(t, p.job(), "explorer", "rollout/failed_model_count") {
		failed += n
	}
	if want := 8 * 3 * 4; failed == 0 || len(all)+int(failed) != want || int(asked.Load()) != want+1 {
		t.Errorf("%d experiences, %v failed rollouts, %d requests; want %d in all", len(all), failed, asked.Load(), want)
	}
	train := []string{"mode=train", "buffer.train_batch_size=12", "buffer.total_steps=2",
		"buffer.trainer_input.experience_buffer={storage_type: file, path: '" + kept + "'}"}
	if _, err := p.copyOf(t).run(t, append(train, "algorithm.algorithm_type=raft", "algorithm.advantage_fn=null")...); err != nil {
		t.Error(err)
	}
	_, err := p.copyOf(t).run(t, append(train, "algorithm.advantage_fn=reinforceplusplus")...)
	oneLine(t, err, "was written by external:gpt-x", "algorithm grpo reads", "sft, raft, dpo or cpt")

	for change, want := range map[string]string{
		"algorithm.algorithm_type=grpo": "algorithm.algorithm_type: algorithm grpo reads log-probabilities",
		"mode=both":                     "a model behind an API of text in mode both",
		"buffer.trainer_input.experience_buffer.storage_type=queue":   "a model behind an API of text in mode explore",
		"buffer.explorer_input.default_workflow_type=sudoku_workflow": "over several turns, and gpt-x, behind an API",
		"model.external_model.model_name=":                            "the model has no name at its server",
		"explorer.rollout_model.engine_type=tgi":                      "it takes text alone, no new weights, and its repository is archived",
		"explorer.rollout_model.top_k=3":                              "what the API does not take",
		"explorer.rollout_model.enable_return_routed_experts=true":    "the experts of tokens, which the API does not return",
		"algorithm.enable_router_replay=true":                         "the experts of tokens, which the API does not return",
		"buffer.explorer_input.taskset.rollout_args={top_k: 5}":       "rollout_args.top_k: not built into this version: what the API",
		"buffer.explorer_input.taskset.format.reply_prefix=x":         "which the API cannot continue",
	} {
		cfg, err := config.Load(p.config, config.Options{Overrides: append(slices.Clone(explore), change)})
		if err == nil {
			_, err = runConfig(t, cfg)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", change, err, want)
		}
	}
	_, err = p.copyOf(t).run(t, append(explore, "model.external_model.max_requests=20", "name=limited")...)
	oneLine(t, err, "model gpt-x: max_requests 20 is reached: raise it")
}

// A key that the API refuses, and a model that it does not have, end mode bench at the first answers, with one line that says where
// the key or the name is from.
func TestBenchEndsWhereTheAPIIsBarred(t *testing.T) {
	for status, want := range map[int]string{
		401: "refuses the key in the environment variable TEST_API_KEY (api_key_env): POST ",
		403: "refuses the question or the key in the environment variable TEST_API_KEY (api_key_env): POST ",
		404: "knows no such model or path (model_name, base_url): POST ",
	} {
		p := newProject(t, tiny, rl)
		api, _ := behindAPI(t)
		var asked atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.WriteHeader(status)
		}))
		t.Cleanup(server.Close)
		_, err := p.run(t, append(api, "mode=bench", "explorer.eval_on_startup=true", "explorer.max_retry_times=2",
			"model.external_model.base_url="+server.URL)...)
		oneLine(t, err, "model gpt-x: ", want)
		if most := int32(p.load(t).Settled()[0].Batch.Sequences) + 2; asked.Load() > most { // two answers end nothing
			t.Errorf("status %d: %d requests, want at most %d", status, asked.Load(), most)
		}
	}
}

// An evaluation trains nothing, and an API returns no experts.
func TestAnAPIReturnsNoExperts(t *testing.T) {
	p := newProject(t, tiny, rl)
	api, _ := behindAPI(t)
	load := func(overrides ...string) (*config.Config, error) {
		return config.Load(p.config, config.Options{Overrides: append(append(slices.Clone(api), "mode=bench"), overrides...)})
	}
	if _, err := load("explorer.rollout_model.enable_return_routed_experts=true"); err == nil ||
		!strings.Contains(err.Error(), "the experts of tokens, which the API does not return") {
		t.Errorf("%v", err)
	}
	cfg, err := load("algorithm.enable_router_replay=true")
	if err != nil {
		t.Fatal(err)
	}
	if notes := fmt.Sprint(cfg.Settled()[0].Unused()); !strings.Contains(notes, "the API returns no experts") {
		t.Error(notes)
	}
}
