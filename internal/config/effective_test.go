package config

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// The printed effective configuration loads again and prints the same.
func TestEffectiveLoadsAgain(t *testing.T) {
	for _, c := range []struct {
		text      string
		overrides []string
	}{
		{base, nil},
		{offlineBase, nil},
		{base, []string{"algorithm.optimizer.clip_grad=0.5", "model.lora_configs=[{target_modules: [q_proj, v_proj]}]",
			"monitor.monitor_type=console",
			`buffer.explorer_input.taskset.workflow_args={use_base: true}`, "algorithm.policy_loss_fn_args={clip_range: 0.3}", `group="1"`,
			`buffer.explorer_input.taskset.format.system_prompt='\${x} and \\\${y}: #'`, "model.enable_thinking=false"}},
	} {
		first, err := mustParse(t, c.text, Options{Overrides: c.overrides}).YAML()
		if err != nil {
			t.Fatal(err)
		}
		second, err := mustParse(t, first).YAML()
		if err != nil {
			t.Fatal(err)
		}
		if first != second {
			t.Errorf("%v: %s", c.overrides, firstDifference(second, first))
		}
	}
}

func TestEffectiveGolden(t *testing.T) {
	text, err := mustParse(t, staged).YAML()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("testdata", "effective.golden"), text)
}

func TestEffectiveJSON(t *testing.T) {
	data, err := json.Marshal(mustParse(t, base))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Algorithm struct {
			Optimizer struct {
				LR float64 `json:"lr"`
			} `json:"optimizer"`
		} `json:"algorithm"`
	}
	if err := json.Unmarshal(data, &got); err != nil || got.Algorithm.Optimizer.LR != 1e-6 {
		t.Error(got, err)
	}
	if data, err = json.Marshal(mustParse(t, staged)); err != nil || !strings.Contains(string(data), `"stage_name":"warmup"`) {
		t.Error(string(data), err)
	}
	endless := map[string]any{"a": []any{math.Inf(1), math.Inf(-1), math.NaN(), 1.5}}
	if data, err = json.Marshal(withoutInfinity(endless)); err != nil || string(data) != `{"a":[".inf","-.inf",".nan",1.5]}` {
		t.Error(string(data), err)
	}
}

func TestOverrides(t *testing.T) {
	c := mustParse(t, base, Options{Overrides: []string{"buffer.batch_size=7", "buffer.batch_size=8", "trainer.save_interval=3", "name=a=b",
		"buffer.explorer_input.eval_tasksets.0.path=x y", "model.temperature=1e-1", "project=${name}", "group=", "explorer.eval_on_startup=off",
		"algorithm.optimizer.betas=[0.5, 0.6]", "algorithm.kl_loss_fn_args={kl_coef: 0.5}"}})
	if c.Buffer.BatchSize != 8 || c.Trainer.SaveInterval != 3 || c.Name != "a=b" || c.Buffer.ExplorerInput.EvalTasksets[0].Path != "x y" ||
		c.Model.Temperature != 0.1 || c.Project != "a=b" || c.Explorer.EvalOnStartup || c.Algorithm.Optimizer.Betas[1] != 0.6 ||
		c.Algorithm.KLLossFnArgs["kl_coef"] != 0.5 {
		t.Errorf("%+v", c)
	}
	for override, want := range map[string]string{
		"buffer": "is not an override",
		"=3":     "is not an override",
		"buffer.explorer_input.eval_tasksets.1.path=x": `has no item "1"`,
		"buffer.explorer_input.eval_tasksets.a=x":      `has no item "a"`,
		"model.model_path.x=1":                         "is a single value",
		"buffer.batch_size=[1":                         "not valid YAML",
	} {
		if _, err := parse(t, base, Options{Overrides: []string{override}}); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "command line: ") {
			t.Errorf("%s: got %v, want %s", override, err, want)
		}
	}
}

// The differences are what is set to another value than the default, without secrets.
func TestDifferencesAreWhatIsSet(t *testing.T) {
	c := mustParse(t, base, Options{Overrides: []string{"seed=42", "algorithm.optimizer.lr=0.5", "trainer.save_interval=7",
		"monitor.monitor_args={jsonl: {}}", "explorer.rollout_model.api_key=hidden"}})
	text, err := c.Differences()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"lr: 0.5\n", "save_interval: 7\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	for _, not := range []string{"seed", "hidden", "weight_decay"} {
		if strings.Contains(text, not) {
			t.Errorf("want no %q in\n%s", not, text)
		}
	}
	settings := c.Settings()
	if fmt.Sprint(settings["algorithm.optimizer.lr"], settings["trainer.save_interval"], settings["seed"]) != "0.5 7 <nil>" ||
		strings.Contains(fmt.Sprint(settings), "hidden") {
		t.Errorf("%#v", settings)
	}
}

func TestFlattenNamesEveryLeaf(t *testing.T) {
	tree := map[string]any{"a": map[string]any{"b": []any{1, map[string]any{"c": nil}}}, "d": "e"}
	want := map[string]any{"a.b.0": 1, "a.b.1.c": nil, "d": "e"}
	if got := Flatten(tree); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
