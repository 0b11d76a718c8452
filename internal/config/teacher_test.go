package config

import (
	"reflect"
	"strings"
	"testing"
)

// distilBase trains on a teacher's scores of the rollouts.
var distilBase = strings.Replace(base, "algorithm_type: grpo", "algorithm_type: distilling", 1) + `explorer:
  auxiliary_models:
  - model_path: t
    temperature: 0.7
`

const two = auxiliaryModelsKey + "=[{name: a, model_path: t}, {name: b, model_path: u, dtype: bfloat16}]"

func TestTeachers(t *testing.T) {
	const key = auxiliaryModelsKey
	for _, c := range []struct {
		overrides []string
		want      []Teacher
	}{
		{nil, []Teacher{{"", "t", key + ".0", "", nil}}},
		{[]string{key + ".0.dtype=float32"}, []Teacher{{"", "t", key + ".0", "f32", nil}}},
		{[]string{"mode=explore"}, nil},
		{[]string{"algorithm.advantage_fn=grpo", key + "=[]"}, nil},
		{[]string{two, "mode=train", "buffer.train_batch_size=4"}, []Teacher{{"a", "t", key + ".0", "", nil},
			{"b", "u", key + ".1", "bf16", nil}}},
	} {
		if got := mustParse(t, distilBase, Options{Overrides: c.overrides}).settled[0].Teachers; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: %+v, want %+v", c.overrides, got, c.want)
		}
	}
	c := mustParse(t, distilBase)
	if notes := c.settled[0].Unused(); len(notes) != 1 || notes[0].Key != key+".0.temperature" ||
		!strings.Contains(notes[0].Reason, "student's temperature") {
		t.Errorf("%+v", notes)
	}
	p, err := c.Plan(Facts{Fetch: map[string]string{key + ".0.model_path": "t"}})
	if err != nil || !strings.Contains(p.String(), "  teacher      t\n") || len(planned[[]string](p.Stages[0], "fetch")) != 1 {
		t.Errorf("%v\n%s", err, p)
	}
	effective, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if again := mustParse(t, effective).settled[0].Teachers; !reflect.DeepEqual(again, c.settled[0].Teachers) {
		t.Errorf("the effective configuration has %+v", again)
	}
}

func TestRefusedTeachers(t *testing.T) {
	const first, taskset = auxiliaryModelsKey + ".0", "buffer.explorer_input.taskset.teacher"
	for _, c := range []struct {
		text, override, key, words string
		unsupported                bool
	}{
		{distilBase, auxiliaryModelsKey + "=[]", auxiliaryModelsKey, "distilling needs a teacher", false},
		{distilBase, first + ".model_path=", first + ".model_path", "no model_path", false},
		{distilBase, auxiliaryModelsKey + "=[{name: a, model_path: t}, {model_path: u}]", auxiliaryModelsKey + ".1", "has no name", false},
		{distilBase, auxiliaryModelsKey + "=[{name: a, model_path: t}, {name: a, model_path: u}]", auxiliaryModelsKey + ".1.name",
			"also the name of explorer.auxiliary_models.0", false},
		{distilBase, two, auxiliaryModelsKey + ".1", "a teacher that no taskset names", true},
		{distilBase, taskset + "=b", taskset, `"b" is not a name in explorer.auxiliary_models`, false},
		{base, taskset + "=b", taskset, "grpo does not learn from a teacher", false},
		{distilBase, first + ".engine_type=vllm", first + ".engine_type", "--engine cpu", true},
		{distilBase, first + ".dtype=float16", first + ".dtype", "float16", true},
		{distilBase, first + ".quantization=int8", first + ".quantization", "of a teacher", true},
	} {
		t.Run(c.override, func(t *testing.T) { expectError(t, c.text, c.override, c.key, c.words, c.unsupported) })
	}
	if _, err := parse(t, distilBase, Options{Engine: "cpu", Overrides: []string{first + ".engine_type=vllm"}}); err != nil {
		t.Error("the engine of the command line is not that of the teacher:", err)
	}
	if _, err := parse(t, distilBase, Options{Overrides: []string{two, taskset + "=b",
		"buffer.explorer_input.taskset.name=x"}}); err == nil || strings.Count(err.Error(), "\n") != 0 {
		t.Errorf("teacher a, the first, has no taskset: %v", err)
	}
}

// Load reports a path that it could not read only once.
func TestTeacherWithoutItsVariable(t *testing.T) {
	_, err := parse(t, distilBase, Options{Overrides: []string{auxiliaryModelsKey + ".0.model_path=${oc.env:NOT_SET}"}})
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "NOT_SET is not set") {
		t.Errorf("%v, want one line", err)
	}
}

// A policy loss over whole distributions needs a teacher, for rollouts and for a dataset. It takes
// one even if the advantage reads none.
func TestTeachersOfThePolicyLoss(t *testing.T) {
	for _, text := range []string{base, offlineBase} {
		const loss = "algorithm.policy_loss_fn=distill"
		expectError(t, text, loss, auxiliaryModelsKey, "policy_loss_fn distill needs a teacher", false)
		c := mustParse(t, text, Options{Overrides: []string{loss, auxiliaryModelsKey + "=[{model_path: t}]"}})
		if all := c.settled[0].Teachers; !c.settled[0].Method.Compares || len(all) != 1 || all[0].Path != "t" {
			t.Errorf("%+v", all)
		}
		if mustParse(t, text).settled[0].Method.Compares {
			t.Error("another loss compares with a teacher")
		}
	}
}

// A loss that reads no advantages removes the type's own advantage function and its need of a
// teacher. An advantage function that the file names stays.
func TestAdvantagesThatNobodyReads(t *testing.T) {
	const loss = "algorithm.policy_loss_fn=distill"
	for _, c := range []struct {
		overrides []string
		want      string
	}{
		{nil, "distilling"},
		{[]string{loss}, "none"},
		{[]string{loss, "algorithm.advantage_fn=distilling"}, "distilling"},
		{[]string{loss, "algorithm.repeat_times=1"}, "none"},
	} {
		cfg := mustParse(t, distilBase, Options{Overrides: c.overrides})
		if got := cfg.Algorithm.AdvantageFn; got != c.want || cfg.settled[0].Method.Needs.Teacher != (c.want == "distilling") ||
			len(cfg.settled[0].Teachers) != 1 {
			t.Errorf("%v: advantage_fn %s with needs %+v", c.overrides, got, cfg.settled[0].Method.Needs)
		}
		effective, err := cfg.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if again := mustParse(t, effective).Algorithm.AdvantageFn; again != c.want {
			t.Errorf("%v: the effective configuration has advantage_fn %s", c.overrides, again)
		}
	}
	expectError(t, strings.Replace(distilBase, "algorithm_type: distilling", "algorithm_type: distilling\n  policy_loss_fn: distill", 1),
		"algorithm.advantage_fn_args.kl_coef=2",
		"algorithm.advantage_fn_args.kl_coef", "it takes none", false)
}
