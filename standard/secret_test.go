package standard

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/registry"
)

// looksSecret matches the names of fields that may hold a secret.
var looksSecret = regexp.MustCompile(`(?i)key|token|secret|passw|auth|cred|cookie|header|hook|url|env|dsn|dingtalk|email`)

// notSecret says why a field whose whole name matches holds no secret.
var notSecret = []struct{ name, reason string }{
	{`(base_|api_|server_|db_|document_)?url`, "an address; the password and the token in it are hidden by their form"},
	{`base_urls`, "addresses; one with a password is refused"},
	{`(judge_api_)?(base_url|api_key|key)_env`, "the name of an environment variable"},
	{`(text|input|field|prompt|system_prompt|response|messages|tools|chosen|rejected|label|answer\d|numbers|feature|image|video|tests)_keys?`,
		"the name of a column"},
	{`(reward_fn|workflow|target|criteria|margin)_key`, "the name of a column"},
	{`(metric|stats|step_reward|env_state_hash|dim_required)_keys?`, "the name of a metric"},
	{`environment(_args)?`, "the name of a plug-in; the secrets among its arguments are marked by their own names"},
	{`keys|reward_key`, "the keys of a JSON object"},
	{`pass_env`, "the names of environment variables"},
	{`tokenization`, "how a text is cut"},
	{`tokens`, "whose tokens a trace keeps"},
	{`webhook_addr`, "a host and a port; the path of the webhook is random"},
}

// Every field whose name looks secret is marked, or is known to hold no secret.
func TestFieldsThatLookSecretAreMarked(t *testing.T) {
	visit := func(where string, f reflect.StructField) {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if !looksSecret.MatchString(name) || f.Tag.Get("secret") == "true" || !mayHoldText(f.Type) {
			return
		}
		for _, n := range notSecret {
			if regexp.MustCompile("^(?:" + n.name + ")$").MatchString(name) {
				return
			}
		}
		t.Errorf(`%s: %s looks secret: give its field the tag secret:"true", or say in notSecret why it holds no secret`, where, name)
	}
	for _, kind := range registry.Kinds() {
		c, _ := registry.Find(kind)
		for _, name := range c.Names() {
			walkFields(reflect.TypeOf(c.Default(name)), map[reflect.Type]bool{}, func(f reflect.StructField) { visit(kind+" "+name, f) })
		}
	}
	walkFields(reflect.TypeFor[config.Config](), map[reflect.Type]bool{}, func(f reflect.StructField) { visit("config", f) })
}

func mayHoldText(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return mayHoldText(t.Elem())
	case reflect.String, reflect.Interface, reflect.Map:
		return true
	}
	return false
}

// walkFields calls visit for each field with a yaml tag, at any depth.
func walkFields(t reflect.Type, seen map[reflect.Type]bool, visit func(reflect.StructField)) {
	switch {
	case t == nil || seen[t]:
	case t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map:
		walkFields(t.Elem(), seen, visit)
	case t.Kind() == reflect.Struct:
		seen[t] = true
		for i := range t.NumField() {
			f := t.Field(i)
			if tag := f.Tag.Get("yaml"); tag == "" || tag == "-" {
				continue
			}
			visit(f)
			walkFields(f.Type, seen, visit)
		}
	}
}

// withSecrets sets every secret that a configuration can hold to a text with "s3cret".
const withSecrets = `
mode: both
model: {model_path: m, max_prompt_tokens: 8, max_response_tokens: 8}
algorithm: {algorithm_type: grpo, repeat_times: 2}
explorer:
  rollout_model: {api_key: s3cret-model}
  db_url: postgresql://ann:s3cret@host/rft
buffer:
  batch_size: 4
  total_steps: 1
  explorer_input:
    taskset: {path: made.jsonl, default_workflow_type: simple_workflow, default_reward_fn_type: exec,
      reward_fn_args: {command: [go], env: {REWARD_KEY: s3cret-reward}}}
data_processor:
  experience_pipeline:
    operators:
    - name: http
      args: {url: 'http://ann:s3cret@host/edit?token=s3cret', headers: {Authorization: Bearer s3cret, X-Key: s3cret}}
    - name: exec
      args: {command: [go], env: {EDIT_KEY: s3cret-edit}}
  task_pipeline:
    inputs: [rows.jsonl]
    operators:
    - name: llm_quality_score_filter
      args: {api_or_hf_model: m, model_params: {base_url: 'http://host/v1', api_key: s3cret-score}}
    - name: human_preference_annotation_mapper
      args:
        api_url: http://host
        api_key: s3cret-studio
        notification_config:
          enabled: true
          slack: {webhook_url: 'https://hooks.example/s3cret'}
          dingtalk: {enabled: false, access_token: s3cret}
          email: {enabled: false, sender_password: s3cret}
`

// No way to show or to keep a configuration contains a secret.
func TestNothingShowsSecrets(t *testing.T) {
	c, err := config.Parse("run.yaml", []byte(withSecrets), config.Options{Engine: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	differences, err := c.Differences()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := c.Plan(config.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := checkpoint.Settings(c.Settled()[0])
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal([]any{c, plan, kept})
	if err != nil {
		t.Fatal(err)
	}
	shown := fmt.Sprint(text, differences, plan, kept, string(asJSON))
	if at := strings.Index(shown, "s3cret"); at >= 0 {
		t.Errorf("…%s", shown[max(0, at-80):min(len(shown), at+40)])
	}
	for _, name := range []string{"Authorization", "REWARD_KEY", "EDIT_KEY"} {
		if !strings.Contains(text, name+": '***'") {
			t.Errorf("the name %s is no secret:\n%s", name, text)
		}
	}
	if _, ok := kept["data_processor.experience_pipeline.operators.0.args.headers.Authorization"]; !ok {
		t.Error("what a run keeps does not tell that there is an Authorization header")
	}
	for key, wrong := range map[string]string{
		"data_processor.experience_pipeline.operators.0.args.headers":                     "{Authorization: 31337}",
		"data_processor.task_pipeline.operators.1.args.api_key":                           "31337",
		"data_processor.task_pipeline.operators.1.args.notification_config.slack":         "{webhook_url: 31337}",
		"data_processor.task_pipeline.operators.1.args.notification_config.slack.enabled": "31337",
	} {
		_, err := config.Parse("run.yaml", []byte(withSecrets), config.Options{Engine: "cpu", Overrides: []string{key + "=" + wrong}})
		if err == nil || strings.Contains(err.Error(), "31337") != strings.HasSuffix(key, "enabled") {
			t.Errorf("%s=%s: %v", key, wrong, err)
		}
	}
}

// A run whose secret has changed resumes, and a checkpoint with a secret in clear does not show it.
func TestChangedSecretsDoNotStopARun(t *testing.T) {
	c, err := config.Parse("run.yaml", []byte(withSecrets), config.Options{Engine: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	before, err := checkpoint.Settings(c.Settled()[0])
	if err != nil {
		t.Fatal(err)
	}
	const headers = "data_processor.experience_pipeline.operators.0.args.headers"
	before[headers+".Authorization"] = "Bearer s3cret"
	dir := checkpoint.Dir{Path: t.TempDir(), Say: func(line string) { t.Error(line) }}
	state := checkpoint.State{Step: 3, Algorithm: []byte("{}"), Made: checkpoint.Provenance{Settings: before}}
	if err := dir.Save(state, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	const gone = " is not set after step 3, and was ***"
	for override, want := range map[string]string{
		headers + "={Authorization: s3cret-new, X-Key: s3cret-new}": "[]",
		headers + "={}": "[" + headers + ".Authorization" + gone + " " + headers + ".X-Key" + gone + "]",
	} {
		c, err := config.Parse("run.yaml", []byte(withSecrets), config.Options{Engine: "cpu", Overrides: []string{override}})
		if err != nil {
			t.Fatal(err)
		}
		settings, err := checkpoint.Settings(c.Settled()[0])
		if err != nil {
			t.Fatal(err)
		}
		told, err := dir.Compare(c.Settled()[0], checkpoint.Provenance{Settings: settings}, true)
		if err != nil || fmt.Sprint(told) != want {
			t.Errorf("%s: %v, %v; want %s", override, told, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir.Of(3), "run.json")); err != nil {
		t.Error(err)
	}
}
