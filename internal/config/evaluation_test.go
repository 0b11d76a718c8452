package config

import (
	"strings"
	"testing"
)

// measuring is offlineBase with eval_buffers of its own schema.
var measuring = offlineBase + `    eval_buffers:
      held_out: {path: few.jsonl}
`

func TestEvalBuffers(t *testing.T) {
	c := mustParse(t, measuring, Options{Overrides: []string{evalBuffersKey + ".other={path: o, schema_type: cpt, capacity: 3}"}})
	all := c.settled[0].Data.Measured
	if len(all) != 2 || all[0].Name != "held_out" || all[0].SchemaType != "sft" || all[0].StorageType != "file" ||
		all[0].Key != evalBuffersKey+".held_out" {
		t.Fatalf("%+v", all)
	}
	if all[1].Format.PromptType != "plaintext" || all[0].Format.PromptType != "messages" {
		t.Errorf("prompt types %s and %s", all[0].Format.PromptType, all[1].Format.PromptType)
	}
	if notes := c.settled[0].Unused(); len(notes) != 1 || notes[0].Key != evalBuffersKey+".other.capacity" {
		t.Errorf("%+v", notes)
	}
	p, err := c.Plan(Facts{Rows: map[string]int{all[0].Key: 5}, Missing: map[string]string{all[1].Key + ".path": "o"}})
	if err != nil || !strings.Contains(p.String(), "measures     eval buffer held_out (sft): few.jsonl, 5 rows\n") ||
		len(planned[[]string](p.Stages[0], "missing")) != 1 {
		t.Errorf("%v\n%s", err, p)
	}
	effective, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if again := mustParse(t, effective).settled[0].Data.Measured; len(again) != 2 || again[0].Path != "few.jsonl" {
		t.Errorf("the effective configuration measures %+v", again)
	}
	kto := mustParse(t, strings.Replace(measuring, "algorithm_type: sft", "algorithm_type: kto", 1),
		Options{Overrides: []string{evalBuffersKey + ".held_out.schema_type=dpo"}})
	if b := kto.settled[0].Data.Measured[0]; b.SchemaType != "dpo" || kto.Buffer.TrainerInput.ExperienceBuffer.SchemaType != "kto" {
		t.Errorf("%+v", b)
	}
}

func TestRefusedEvalBuffers(t *testing.T) {
	const buffer = evalBuffersKey + ".held_out"
	for _, c := range []struct {
		text, override, key, words string
		unsupported                bool
	}{
		{base, buffer + "={path: p}", buffer, "grpo trains on rollouts; use buffer.explorer_input.eval_tasksets", false},
		{measuring, buffer + ".path=", buffer + ".path", "nothing to measure", false},
		{measuring, buffer + ".schema_type=dpo", buffer + ".schema_type", "the run has none", false},
		{measuring, buffer + ".schema_type=experience", buffer + ".schema_type", "not a schema of datasets", false},
		{measuring, buffer + ".data_selector={selector_type: shuffle}", buffer + ".data_selector", "the trainer measures every row once", false},
		{measuring, buffer + ".total_epochs=2", buffer + ".total_epochs", "the trainer measures every row once", false},
		{measuring, buffer + ".storage_type=queue", buffer + ".storage_type", "a dataset, not a queue", false},
		{measuring, buffer + ".storage_type=sql", buffer + ".path", "want sqlite:///file.db", false},
		{measuring, buffer + ".format.packing=true", buffer + ".format.packing", "every row is a sequence of its own", false},
		{measuring, buffer + ".format.image_key=i", buffer + ".format.image_key", "image", true},
	} {
		t.Run(c.override, func(t *testing.T) { expectError(t, c.text, c.override, c.key, c.words, c.unsupported) })
	}
}
