package standard

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/registry"
)

// Every configuration that Trinity-RFT's users have passes, with the engines that it names, with the
// embedded one and with PyTorch, or each refusal names a line and a part that this version does not have.
func TestConfigsOfTrinityRFTUsers(t *testing.T) {
	t.Run("own engines", func(t *testing.T) { passesOrNames(t, config.Options{}) })
	t.Run("embedded", func(t *testing.T) { passesOrNames(t, config.Options{Engine: "cpu"}) })
	torch := []string{"trainer.trainer_type=torch", "trainer.trainer_args={python: sh}"}
	t.Run("torch", func(t *testing.T) { passesOrNames(t, config.Options{Overrides: torch}) })
}

func passesOrNames(t *testing.T, opts config.Options) {
	root := filepath.Join("..", "..", "shared", "data", "trinity_rft_configs")
	if _, err := os.Stat(root); err != nil {
		t.Skip("no configurations of Trinity-RFT users: they are in shared/data beside the repository")
	}
	withoutDefault := regexp.MustCompile(`\$\{oc\.env:(\w+)\}`)
	passed := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		set := map[string]bool{}
		for _, m := range withoutDefault.FindAllSubmatch(data, -1) {
			set[string(m[1])] = true
		}
		env := func(name string) (string, bool) { return "some_" + strings.ToLower(name), set[name] }
		opts.Env = env
		_, err = config.Parse(path, data, opts)
		var errs config.Errors
		switch {
		case err == nil:
			passed++
		case !errors.As(err, &errs):
			t.Errorf("%s: %v", path, err)
		}
		for _, e := range errs {
			if e.Line == 0 {
				t.Errorf("no line: %v", e)
			}
			if e.Hint == "" {
				t.Errorf("it does not say what to do: %v", e)
			}
			if !e.Unsupported && !strings.Contains(path, "-template.yaml") {
				t.Errorf("refused, though nothing is missing: %v", e)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if passed == 0 {
		t.Error("no configuration passed")
	}
	t.Logf("%d configurations pass", passed)
}

// Every plug-in says what it is, and what each of its arguments means.
func TestPluginsAreDocumented(t *testing.T) {
	for _, kind := range registry.Kinds() {
		c, _ := registry.Find(kind)
		if len(c.Names()) == 0 {
			t.Errorf("kind %s has no plug-in", kind)
		}
		for _, name := range c.Names() {
			info, err := c.Explain(name)
			if err != nil {
				t.Fatal(err)
			}
			if info.Doc == "" {
				t.Errorf("%s %s has no doc", kind, name)
			}
			for _, f := range info.Fields {
				if f.Doc == "" {
					t.Errorf("%s %s: argument %s has no doc", kind, name, f.Key)
				}
			}
		}
	}
}

// Arguments that Trinity-RFT's mixtures need and these do not are accepted, and listed as not used.
func TestArgumentsThatAreNotRead(t *testing.T) {
	data := `
mode: both
model: {model_path: some/model, max_prompt_tokens: 32, max_response_tokens: 32}
algorithm:
  algorithm_type: mix_chord
  repeat_times: 4
  policy_loss_fn_args: {use_dynamic_bsz: true, ppo_mini_batch_size: 320, ppo_micro_batch_size_per_gpu: 4, ngpus_trainer: 4, train_batch_size_usual: 256, train_batch_size_expert: 64, mu_peak: 0.5}
buffer:
  batch_size: 8
  train_batch_size: 40
  total_steps: 1
  explorer_input:
    taskset: {path: tasks.jsonl, default_workflow_type: simple_workflow, default_reward_fn_type: math_reward}
  trainer_input:
    auxiliary_buffers: {sft_dataset: {storage_type: file, path: sft.jsonl}}
`
	c, err := config.Parse("mix.yaml", []byte(data), config.Options{Engine: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range c.Settled()[0].Unused() {
		got = append(got, strings.TrimPrefix(n.Key, "algorithm.policy_loss_fn_args."))
	}
	want := "use_dynamic_bsz ppo_mini_batch_size ppo_micro_batch_size_per_gpu ngpus_trainer train_batch_size_usual train_batch_size_expert"
	if strings.Join(got, " ") != want {
		t.Errorf("not read: %v, want %s", got, want)
	}
}

// What the embedded engine cannot do is refused where it is written, by the engine itself and not by the configuration's rules.
func TestTheEngineRefuses(t *testing.T) {
	const data = "mode: both\nmodel: {model_path: m, max_model_len: 8}\nbuffer:\n  explorer_input:\n    taskset: {path: t.jsonl, default_workflow_type: simple_workflow, default_reward_fn_type: math_reward}\n"
	for override, want := range map[string]string{
		"model.rope_theta=3": "another rope base",
	} {
		_, err := config.Parse("run.yaml", []byte(data), config.Options{Overrides: []string{override}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", override, err, want)
		}
	}
}
