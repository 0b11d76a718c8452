package examples

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/model/safetensors"
	"github.com/trinity-go/trinity/trinitytest"
)

// cookbookName is a name by which recipes of tinker-cookbook find a renderer. A tiny random model has it.
const cookbookName = "Qwen/Qwen3-8B-Base"

// newCookbook makes a folder with the data and the model of recipes.
func newCookbook(t *testing.T) tinkerPlace {
	t.Helper()
	trinitytest.TooLong(t, "recipes of tinker-cookbook run as they are")
	p := newTinkerPlace(t, "TRINITY_COOKBOOK_PYTHON", "tinker_cookbook", "torch", "transformers", "datasets")
	script, err := filepath.Abs("bench/peers/cookbook_data.py")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := p.client(t.Context(), "", script, smolLM2Name, cookbookName).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return p
}

// recipe runs a recipe, and returns its lines of metrics and the path of its last checkpoint. saved gets the number of each
// checkpoint that the recipe reports, and a function that kills the recipe.
func (p tinkerPlace) recipe(t *testing.T, address, log string, saved func(n int, end func()), args ...string) ([]map[string]any, string) {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), 10*time.Minute)
	defer end()
	cmd := p.client(ctx, address, append(args, "log_path="+filepath.Join(p.dir, "logs", log))...)
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr, cmd.Stdin = w, w, strings.NewReader("How do I pay my bill?\n")
	ended := make(chan error, 1)
	go func() {
		err := cmd.Run()
		_ = w.Close()
		ended <- err
	}()
	var all bytes.Buffer
	path, n, ours := "", 0, false
	for scan := bufio.NewScanner(r); scan.Scan(); {
		fmt.Fprintln(&all, scan.Text())
		if m := checkpointSaved.FindStringSubmatch(scan.Text()); m != nil {
			path, n = m[1], n+1
			saved(n, func() { ours = true; end() })
		}
	}
	if err := <-ended; err != nil && !ours {
		t.Fatalf("%s: %v\n%s", log, err, &all)
	}
	t.Logf("%s: %d checkpoints, the last is %s", log, n, path)
	var metrics []map[string]any
	text, err := os.ReadFile(filepath.Join(p.dir, "logs", log, "metrics.jsonl"))
	for line := range strings.Lines(string(text)) {
		var m map[string]any
		if err == nil {
			err = json.Unmarshal([]byte(line), &m)
		}
		metrics = append(metrics, m)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", log, err, &all)
	}
	return metrics, path
}

var checkpointSaved = regexp.MustCompile(`Saved checkpoints: \{'state_path': 'tinker://([^']+)'`)

// Recipes of the unmodified tinker-cookbook end, and what a sampler says of its replies is what the trainer says of them.
func TestCookbook(t *testing.T) {
	p, address := newCookbook(t), freeAddress(t)
	p.serve(t, cookbookName, filepath.Join(p.dir, "service"), address)
	reinforced := []string{"renderer_name=role_colon", "eval_every=0", "max_steps=2"}
	for name, args := range map[string][]string{
		"math_rl.train": append(reinforced, "env=arithmetic", "loss_fn=importance_sampling", "groups_per_batch=4", "group_size=4", "lora_rank=8"),
		"rl_numerics_check.train": {"renderer_name=qwen3", "group_size=2", "groups_per_batch=2", "max_tokens=48", "max_trajectory_tokens=1500",
			"task.num_pages_min=2", "task.num_pages_max=3", "task.page_chars=500", "max_steps=2"},
		"multiplayer_rl.guess_number.train": append(reinforced, "group_size=2", "batch_size=2", "max_tokens=8"),
		"preference.shorter.train":          append(reinforced, "group_size=4", "batch_size=2", "max_tokens=16"),
		"preference.dpo.train":              {"renderer_name=role_colon", "batch_size=8", "max_steps=2"},
		"prompt_distillation.train":         append(reinforced, "file_path=distilled.jsonl", "batch_size=8", "lora_rank=8", "max_length=512"),
		"distillation.on_policy_distillation": append(reinforced, "teacher_model="+cookbookName, "groups_per_batch=2", "group_size=2",
			"max_tokens=16", "lora_rank=8"),
		"sdft.train": append(reinforced, "dataset=toolalpaca", "toolalpaca_data_path=toolalpaca", "groups_per_batch=2", "max_tokens=16",
			"topk=8", "lora_rank=8"),
		"sl_loop": {"batch_size=8", "lora_rank=8", "learning_rate=1e-3", "max_steps=3"},
		"rl_loop": {"batch_size=4", "group_size=4", "lora_rank=8", "max_tokens=16", "loss_fn=importance_sampling", "max_steps=2"},
	} {
		t.Run(name, func(t *testing.T) {
			command := append([]string{"-m", "tinker_cookbook.recipes." + name, "model_name=" + cookbookName}, args...)
			metrics, path := p.recipe(t, address, name, func(int, func()) {}, command...)
			if !strings.HasSuffix(path, "/weights/final") {
				t.Errorf("the last checkpoint is %q", path)
			}
			for i, m := range metrics {
				for _, kl := range []string{"optim/kl_sample_train_v1", "optim/kl_sample_train_v2"} {
					if v, ok := m[kl]; ok && v != 0. {
						t.Errorf("step %d: %s is %v", i, kl, v)
					}
				}
			}
			if _, ok := metrics[0]["optim/kl_sample_train_v1"]; !ok && strings.Contains(name, "numerics") {
				t.Errorf("no kl_sample_train in %v", metrics[0])
			}
		})
	}
	t.Run("decisions.demo", func(t *testing.T) {
		cmd := p.client(t.Context(), address, "-m", "tinker_cookbook.recipes.decisions.demo", "model_name="+cookbookName)
		cmd.Stdin = strings.NewReader("How do I pay my bill?\n")
		if out, err := cmd.CombinedOutput(); err != nil || !regexp.MustCompile(`": 0\.\d`).Match(out) {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// A recipe whose service is killed does not notice, and one that is killed itself resumes from its checkpoints: both end
// with the bytes of the recipe that nobody disturbed.
func TestCookbookResumes(t *testing.T) {
	p := newCookbook(t)
	seeded, err := filepath.Abs("bench/peers/cookbook_seeded.py")
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		model string
		args  []string
	}{
		"sl_loop": {cookbookName, []string{"batch_size=8", "lora_rank=8", "learning_rate=1e-3", "max_steps=5", "save_every=1"}},
		"math_rl.train": {smolLM2Name, []string{"renderer_name=role_colon", "env=arithmetic", "loss_fn=importance_sampling", "groups_per_batch=6",
			"group_size=8", "lora_rank=8", "learning_rate=3e-4", "max_steps=4", "eval_every=0", "save_every=1",
			"behavior_if_log_dir_exists=resume"}},
	} {
		t.Run(name, func(t *testing.T) {
			command := append([]string{seeded, "tinker_cookbook.recipes." + name, "model_name=" + x.model}, x.args...)
			ends := map[string][]byte{}
			for _, killed := range []string{"nobody", "the service", "the client"} {
				address, dir := freeAddress(t), filepath.Join(p.dir, name+" kills "+killed)
				kill := p.serve(t, x.model, dir, address)
				log := name + "-" + strings.ReplaceAll(killed, " ", "-")
				metrics, path := p.recipe(t, address, log, func(n int, end func()) {
					switch {
					case n == 2 && killed == "the service":
						kill()
						kill = p.serve(t, x.model, dir, address)
					case n == 2 && killed == "the client":
						end()
					}
				}, command...)
				if killed == "the client" {
					if strings.HasSuffix(path, "final") {
						t.Fatalf("%s ended before it was killed", name)
					}
					metrics, path = p.recipe(t, address, log, func(int, func()) {}, command...)
				}
				kill()
				at := filepath.Join(dir, filepath.FromSlash(strings.ReplaceAll(path, ":", "_")))
				for _, file := range []string{"adapter_model.safetensors", "state.safetensors"} {
					data, err := os.ReadFile(filepath.Join(at, file))
					if err != nil {
						t.Fatal(err)
					}
					if killed == "nobody" {
						ends[file] = data
					} else if !bytes.Equal(data, ends[file]) {
						t.Errorf("%s was killed: %s has other bytes", killed, file)
					}
				}
				t.Logf("%s was killed: %d steps", killed, len(metrics))
			}
			if !isTrained(t, ends["adapter_model.safetensors"]) {
				t.Error("nothing was trained")
			}
		})
	}
}

// isTrained reports whether the file of an adapter has B other than 0. A is random from the first step on, and B is 0 before it.
func isTrained(t *testing.T, adapter []byte) bool {
	t.Helper()
	path := filepath.Join(t.TempDir(), "adapter_model.safetensors")
	if err := os.WriteFile(path, adapter, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found := false
	for _, name := range f.Names() {
		if !strings.Contains(name, "lora_B") {
			continue
		}
		found = true
		if tensor, _ := f.Tensor(name); slices.ContainsFunc(tensor.Data, func(b byte) bool { return b != 0 && b != 0x80 }) { // nor −0
			return true
		}
	}
	if !found {
		t.Error("the adapter has no lora_B")
	}
	return false
}
