package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
)

// Keys, types, defaults and values are frozen: if the golden file changes, users' files must
// change.
func TestKeysGolden(t *testing.T) {
	var b strings.Builder
	for _, k := range Keys() {
		fmt.Fprintf(&b, "%s\t%s\t%s", k.Path, k.Type, strings.Trim(k.defaultText(), "`"))
		for _, extra := range []struct{ name, text string }{{"enum", strings.Join(k.Enum, "|")}, {"range", k.Range}, {"plugin", k.Plugin},
			{"auto", k.Auto}} {
			if extra.text != "" {
				fmt.Fprintf(&b, "\t%s=%s", extra.name, extra.text)
			}
		}
		b.WriteString("\n")
	}
	golden(t, filepath.Join("testdata", "keys.golden"), b.String())
}

func TestEveryKeyIsDescribed(t *testing.T) {
	docs, err := comments()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range Keys() {
		if k.description(docs) == "" {
			t.Errorf("%s.%s (%s) has no comment", k.owner.Name(), k.field.Name, k.Path)
		}
	}
}

// Field names are the keys in camel case, with Go's initialisms.
func TestFieldNames(t *testing.T) {
	initialisms := map[string]string{"api": "API", "cpu": "CPU", "db": "DB", "gpu": "GPU", "kl": "KL", "lr": "LR", "url": "URL"}
	for _, k := range Keys() {
		want := ""
		for _, word := range strings.Split(lastKey(k.Path), "_") {
			if up, ok := initialisms[word]; ok {
				want += up
			} else {
				want += strings.ToUpper(word[:1]) + word[1:]
			}
		}
		if k.field.Name != want {
			t.Errorf("%s: field %s, want %s", k.Path, k.field.Name, want)
		}
	}
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	data, err := JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func asJSON(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := yaml.Load([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestJSONSchema(t *testing.T) {
	s := compileSchema(t)
	for _, good := range []string{base, offlineBase, staged, "buffer: {batch_size: '${oc.env:N}'}", "monitor: {monitor_type: [console]}",
		"model: null"} {
		if err := s.Validate(asJSON(t, good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"buffer: {batch_size: 0}", "buffer: {batchsize: 1}", "mode: bothe", "model: {top_p: 1.5}",
		"model: {temperature: hot}",
		"stages: [{stage_nam: a}]", "buffer: {explorer_input: {tasksets: [{format: {prompt: a}}]}}"} {
		if err := s.Validate(asJSON(t, bad)); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

func TestJSONSchemaTakesUserConfigs(t *testing.T) {
	s := compileSchema(t)
	err := filepath.WalkDir(sharedDir(t, "data", "trinity_rft_configs"), func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := s.Validate(asJSON(t, string(data))); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The tags set the defaults of the structs, and the printed defaults load again.
func TestDefaults(t *testing.T) {
	c := newDefault[Config]()
	if c.Mode != "both" || c.Algorithm.Optimizer.LR != 1e-6 || c.Explorer.RolloutModel.GPUMemoryUtilization != 0.9 ||
		c.Synchronizer.SyncTimeout != 3600 ||
		!reflect.DeepEqual(c.Algorithm.Optimizer.Betas, []float64{0.9, 0.999}) || c.Algorithm.RepeatTimes != nil {
		t.Errorf("%+v", c)
	}
	var b ExperienceBuffer
	setDefaults(valueOf(&b))
	if !reflect.DeepEqual(b.ReplayBuffer.PriorityFnArgs, map[string]any{"decay": 2.0}) {
		t.Error(b.ReplayBuffer.PriorityFnArgs)
	}
	d := mustParse(t, base, Options{Overrides: []string{"buffer.trainer_input.experience_buffer.replay_buffer.priority_fn_args={sigma: 2.0}"}})
	if got := d.Buffer.TrainerInput.ExperienceBuffer.ReplayBuffer.PriorityFnArgs; !reflect.DeepEqual(got,
		map[string]any{"decay": 2.0, "sigma": 2.0}) {
		t.Error(got)
	}
}
