package cli_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// trained trains a model for two steps, and returns the directory of its run.
func trained(t *testing.T, dir string, settings ...string) string {
	t.Helper()
	quickstart, err := filepath.Abs("../../examples/quickstart")
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"run", "--config", "testdata/sft.yaml", "checkpoint_root_dir=" + dir, "model.model_path=" + quickstart + "/model",
		"buffer.trainer_input.experience_buffer.path=" + quickstart + "/data/sft.jsonl", "trainer.save_interval=1"}, settings...)
	if out, err := exec.CommandContext(t.Context(), "trinity", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(dir, "cli")
}

// ready loads a model and waits until it is ready.
func (s *studioAt) ready(t *testing.T, run, model string) string {
	t.Helper()
	status, reply := s.ask(t, "talk", map[string]any{"run": run, "model": model, "length": 100})
	if status != 200 || reply["length"] != 100.0 || reply["planned"].(float64) < 10e6 {
		t.Fatalf("%d %v", status, reply)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		_, now := s.ask(t, "talk", nil)
		for _, one := range now["talks"].([]any) {
			of := one.(map[string]any)
			if of["id"] == reply["id"] && of["state"] == "ready" {
				return of["id"].(string)
			}
			if of["id"] == reply["id"] && of["state"] == "ended" {
				t.Fatal(of)
			}
		}
	}
	t.Fatal("it does not load")
	return ""
}

// chat asks a model, and returns its answer and the number of its log-probabilities.
func (s *studioAt) chat(t *testing.T, id string, seed int) (text string, logprobs int) {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"messages":   []map[string]string{{"role": "user", "content": "3 + 4"}},
		"max_tokens": 8, "temperature": 1, "seed": seed, "logprobs": true,
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.address+"api/v1/talk/"+id+"/chat", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasSuffix(string(all), "data: [DONE]\n\n") {
		t.Fatalf("%v: %s", err, all)
	}
	for event := range strings.SplitSeq(strings.TrimSuffix(string(all), "data: [DONE]\n\n"), "\n\n") {
		var part struct {
			Choices []struct {
				Delta    struct{ Content string }
				Logprobs *struct{ Content []any }
			}
		}
		if event == "" {
			continue
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(event, "data: ")), &part); err != nil {
			t.Fatalf("%v: %s", err, event)
		}
		text += part.Choices[0].Delta.Content
		if l := part.Choices[0].Logprobs; l != nil {
			logprobs += len(l.Content)
		}
	}
	return text, logprobs
}

// A model and an adapter of real runs answer side by side; the same seed gives the same answer. The end
// of the studio, also by kill, ends their processes.
func TestStudioTalks(t *testing.T) {
	if testing.Short() {
		t.Skip("trains two models")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	full := filepath.Join(trained(t, dir), "sft", "global_step_2", "actor", "huggingface")
	trained(t, dir, "name=lora", "model.model_path="+full, "model.lora_configs=[{lora_rank: 4}]")
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	s := openStudio(t, dir)
	_, reply := s.ask(t, "runs/cli%2Flora/models", nil)
	text, err := json.Marshal(reply)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"kind":"adapter","name":"global_step_2"`, `"name":"global_step_1"`,
		`{"kind":"base","name":"base","path":"` + filepath.ToSlash(full),
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the models lack %s: %s", want, text)
		}
	}
	for _, c := range []struct{ run, model, says string }{
		{"cli/sft", "base", "base of cli/sft: model: safetensors: "},
	} {
		if status, reply := s.ask(t, "talk", map[string]any{"run": c.run, "model": c.model}); status != 400 ||
			!strings.HasPrefix(reply["error"].(string), c.says) {
			t.Errorf("%d %v", status, reply)
		}
	}
	if status, reply := s.ask(t, "talk", map[string]any{"run": "cli/sft", "model": "global_step_2", "length": 1 << 20}); status != 400 ||
		!strings.Contains(reply["error"].(string), "has positions for 512 tokens") {
		t.Errorf("%d %v", status, reply)
	}
	// Of these checkpoints, training has written no model.
	early, adapter := s.ready(t, "cli/sft", "global_step_1"), s.ready(t, "cli/lora", "global_step_1")
	for _, id := range []string{early, adapter} {
		if text, n := s.chat(t, id, 7); text == "" || n != 8 {
			t.Errorf("%q with %d tokens", text, n)
		}
		if status, reply := s.ask(t, "talk/"+id+"/end", map[string]any{}); status != 200 {
			t.Errorf("%d %v", status, reply)
		}
	}
	first, second := s.ready(t, "cli/sft", "global_step_2"), s.ready(t, "cli/lora", "global_step_2")
	one, n := s.chat(t, first, 7)
	again, _ := s.chat(t, first, 7)
	other, m := s.chat(t, second, 7)
	if one != again || n != 8 || m != 8 || other == "" {
		t.Errorf("%q with %d, %q; %q with %d", one, n, again, other, m)
	}
	if status, reply := s.ask(t, "talk/"+second+"/end", map[string]any{}); status != 200 || reply["state"] != "ended" {
		t.Errorf("%d %v", status, reply)
	}
	if runtime.GOOS != "linux" {
		return
	}
	s.end() // by kill
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		left, err := filepath.Glob(filepath.Join(temp, "trinity-talk*"))
		if err == nil && len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the process of a model outlives the studio: %v, %v", left, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "cli", "sft", "monitor", "config.yaml")); err != nil || len(text) == 0 {
		t.Error(err)
	}
}
