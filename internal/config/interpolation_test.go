package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

var testEnv = map[string]string{"N": "4", "T": "true", "F": "1e-6", "S": "some text", "EMPTY": "", "NAME": "N", "NULL": "null",
	"DATE": "2024-01-02"}

func lookup(name string) (string, bool) { v, ok := testEnv[name]; return v, ok }

// Each case is the value of workflow_args.x and its type: free dicts show the result of an
// interpolation.
func TestInterpolation(t *testing.T) {
	for _, c := range []struct {
		text string
		want any
	}{
		{"${model.max_prompt_tokens}", 8},
		{"${project}-${group}-${name}", "Trinity-RFT--rft"},
		{"${buffer.explorer_input.eval_tasksets.0.name}", "eval"},
		{"${buffer.explorer_input.eval_tasksets[0].path}", "eval.jsonl"},
		{"${algorithm.optimizer.lr}", 1e-6},
		{"${..name}", "train"},
		{"${...taskset.name}", "train"},
		{"${oc.env:N}", 4},
		{"${oc.env:T}", true},
		{"${oc.env:F}", 1e-6},
		{"${oc.env:S}", "some text"},
		{"${oc.env:DATE}", "2024-01-02"},
		{"${oc.env:NULL}", nil},
		{"${oc.env:NONE,7}", 7},
		{"${oc.env:NONE, a b }", "a b"},
		{"${oc.env:NONE,false}", false},
		{"${oc.env:NONE,null}", nil},
		{"${oc.env:NONE,'7'}", "7"},
		{"${oc.env:NONE,''}", ""},
		{`${oc.env:NONE,"a,b}"}`, "a,b}"},
		{"${oc.env:NONE,}", ""},
		{"${oc.env:NONE,a\\,b}", "a,b"},
		{"${oc.env:NONE,${oc.env:N}}", 4},
		{"${oc.env:${oc.env:NAME}}", 4},
		{"a-${oc.env:N}-b", "a-4-b"},
		{"${oc.env:NONE,/d}/${oc.env:N}", "/d/4"},
		{"${oc.decode:${oc.env:T}}", true},
		{"${oc.decode:${oc.env:NONE,null}}", nil},
		{"${oc.decode:'[1, 2]'}", []any{1, 2}},
		{"${oc.decode:text}", "text"},
		{"${oc.select:no.such.key,5}", 5},
		{"${oc.select:project}", "Trinity-RFT"},
		{`\${not}`, "${not}"},
		{`a \${not} ${oc.env:N}`, "a ${not} 4"},
		{`\\${oc.env:N}`, `\4`},
		{`a\b`, `a\b`},
		{"$N and {x}", "$N and {x}"},
	} {
		got, err := interpolated(t, c.text)
		if err != nil || fmt.Sprintf("%T %v", got, got) != fmt.Sprintf("%T %v", c.want, c.want) {
			t.Errorf("%s: %T %v (%v), want %T %v", c.text, got, got, err, c.want, c.want)
		}
	}
}

// interpolated resolves the text as a value of the taskset's workflow_args. The section above has
// another name than in a run.
func interpolated(t *testing.T, text string) (any, error) {
	quoted := "'" + strings.ReplaceAll(text, "'", "''") + "'"
	file := strings.Replace(base, "      path: train.jsonl\n", "      path: train.jsonl\n      workflow_args:\n        x: "+quoted+"\n", 1)
	src, err := readSource("c.yaml", []byte(file), Options{Env: lookup})
	if err != nil {
		return nil, err
	}
	c, errs := src.decode(src.root)
	return c.Buffer.ExplorerInput.Taskset.WorkflowArgs["x"], src.unresolved.with(errs).orNil()
}

func TestInterpolationErrors(t *testing.T) {
	for text, want := range map[string]string{
		"${oc.env:NONE}":            "the environment variable NONE is not set",
		"${model.max_promt_tokens}": "did you mean ${model.max_prompt_tokens}?",
		"${nothing.here}":           "names no key",
		"${}":                       "names no key",
		"${project":                 "the closing } is missing",
		"${oc.env:'x}":              "the closing ' is missing",
		"${oc.env:'x'y}":            "after a quoted argument",
		"${oc.env:a,b,c}":           "got 3 arguments",
		"${oc.decode:}":             "",
		"${oc.foo:1}":               "not a known resolver",
		"${${project}:1}":           "plain text",
		"a ${model}":                "cannot stand inside text",
		"${.........x}":             "above the root",
		"${buffer.explorer_input.taskset.workflow_args.x}": "needs its own value",
		"${buffer.explorer_input.taskset.workflow_args}":   "needs its own value",
	} {
		_, err := interpolated(t, text)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		var errs Errors
		if !errors.As(err, &errs) || !strings.Contains(err.Error(), want) || errs[0].Line != 16 {
			t.Errorf("%s: got %v, want %s at line 16", text, err, want)
		}
	}
}

func TestInterpolationCycle(t *testing.T) {
	_, err := parse(t, "project: ${group}\ngroup: a ${name}\nname: ${project}\n")
	if err == nil || !strings.Contains(err.Error(), "needs its own value") {
		t.Error(err)
	}
}

// The key that takes the result of an interpolation decides its type.
func TestInterpolationTypedKeys(t *testing.T) {
	text := strings.NewReplacer("batch_size: 4", "batch_size: ${oc.env:N}\n  total_epochs: '3'", "model_path: m",
		"model_path: ${oc.env:N}\n  enable_thinking: ${oc.env:NONE,False}").Replace(base)
	c := mustParse(t, text, Options{Env: lookup})
	if c.Buffer.BatchSize != 4 || c.Buffer.TotalEpochs != 3 || c.Model.ModelPath != "4" || *c.Model.EnableThinking {
		t.Error(c.Buffer.BatchSize, c.Buffer.TotalEpochs, c.Model.ModelPath)
	}
}

// A few short lines cannot make an endless configuration.
func TestGrowthIsBounded(t *testing.T) {
	text, nodes := "project: xxxxxxxxxx\n", "a0: [1, 1, 1, 1, 1, 1, 1, 1]\n"
	for i := range 40 {
		text += fmt.Sprintf("k%d: ${k%d}${k%d}\n", i+1, i, i)
		nodes += fmt.Sprintf("a%d: ['${a%d}', '${a%d}', '${a%d}']\n", i+1, i, i, i)
	}
	aliases := "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1]\n"
	for i := range 40 {
		aliases += fmt.Sprintf("a%d: &a%d [*a%d, *a%d, *a%d]\n", i+1, i+1, i, i, i)
	}
	for _, file := range []string{strings.Replace(text, "${k0}${k0}", "${project}${project}", 1), nodes, aliases,
		"x: " + strings.Repeat("${", 100_000),
		"x: " + strings.Repeat("[", 5_000)} {
		if _, err := parse(t, file); err == nil {
			t.Error("no error")
		}
	}
}
