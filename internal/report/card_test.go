package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// cardOf writes a card and returns it.
func cardOf(t *testing.T, c *Card) string {
	t.Helper()
	dir := t.TempDir()
	if err := c.WriteFile(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, CardFile))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestCardHasTheNumbersUpToItsCheckpoint(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sums")
	monitor := filepath.Join(dir, "monitor")
	writeStage(t, monitor, explored(1, "0.25", `[]`), explored(2, "0.5", `[]`), explored(3, "0.75", `[]`),
		`{"step":2,"role":"explorer","time":"2026-01-02T15:05:00.000Z","metrics":{"eval/held_out/accuracy/mean@1":0.625,"time/eval":3}}`, "")
	settings := "seed: 7\npaths: [/home/ann/a.jsonl, b.jsonl]\n" +
		"model:\n  model_path: \"/home/ann/models/base\"\n  url: http://127.0.0.1:1/v1\nfiles:\n- /home/ann/c.jsonl\n- C:\\ann\\d.jsonl\n" +
		"- /home/ann/my data/e f.jsonl\n- 'C:\\ann smith\\g h.jsonl'\n- sqlite:////home/ann/rows.db\n- {p: /home/ann/my data/}\n" +
		"- file:///home/ann/i.jsonl\n" +
		"buffer:\n  explorer_input:\n    taskset:\n      format:\n        system_prompt: |\n          Add.\n          Be brief.\n" +
		"reward_fn_args:\n  command:\n  - python3\n  - /opt/score.py\n  - --key=s3cret\n  workers: 2\nscript: |\n  ````\n  end\n"
	if err := os.WriteFile(filepath.Join(monitor, "config.yaml"), []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	card := cardOf(t, &Card{
		Name: "sums", Library: "transformers", Base: Source{"org/base", true},
		Trainings: []Training{{
			Dir: dir, Step: 2, Algorithm: "grpo", Seed: "7", Data: []Source{{"org/sums", true}, {"/home/ann/own.jsonl", false}},
		}},
	})
	const front = "---\nbase_model: org/base\nlibrary_name: transformers\npipeline_tag: text-generation\ndatasets:\n- org/sums\n" +
		"tags:\n- trinity-go\n- grpo\n---\n\n# sums\n\n"
	if !strings.HasPrefix(card, front) {
		t.Errorf("the card begins with\n%s\nwant\n%s", card[:min(len(card), len(front))], front)
	}
	wantAll(t, card, "A model that began as `org/base`, trained with Trinity-Go.",
		"AutoModelForCausalLM.from_pretrained(path)", "\n## Training\n",
		"| algorithm | `grpo` |\n| data | `org/sums` |\n| data | `own.jsonl` |\n"+
			"| system prompt | `Add. Be brief.` |\n| steps | 2 |\n| seed | 7 |\n",
		"| `rollout/reward/mean` | 0.25 | 0.5 |\n", "| `eval/held_out/accuracy/mean@1` | 0.625 | 0.625 |\n",
		"seed: 7\n", "model_path: \"…/base\"", "url: http://127.0.0.1:1/v1", "- …/c.jsonl\n", "- …/d.jsonl\n", "[…/a.jsonl, b.jsonl]",
		"- …/e f.jsonl\n", "- '…/g h.jsonl'\n", "- sqlite://…/rows.db\n", "{p: …/my data}", "- file://…/i.jsonl\n",
		"\n  workers: 2\n", "\n`````yaml\n", "\n  ````\n  end\n`````\n")
	for _, private := range []string{"ann", "time/", "command", "python3", "s3cret"} {
		if strings.Contains(card, private) {
			t.Errorf("the card contains %q:\n%s", private, card)
		}
	}
}

func TestCardOfAnAdapterWithoutItsRun(t *testing.T) {
	dir := t.TempDir() // of two stages, whose records are gone
	writeStage(t, filepath.Join(dir, "elsewhere", "monitor"), explored(1, "0.25", `[]`))
	hub := []Source{{"org/sums", true}, {"own.jsonl", false}, {"org/more", true}}
	card := cardOf(t, &Card{
		Name: "sums", Library: "peft", Base: Source{"/home/ann/models/base", false},
		Trainings: []Training{
			{Dir: filepath.Join(dir, "warmup"), Step: 1, Algorithm: "sft", Data: hub},
			{Dir: dir, Step: 2, Algorithm: "grpo", Data: hub},
		},
	})
	wantAll(t, card, "---\nlibrary_name: peft\npipeline_tag", "\ndatasets:\n- org/sums\n- org/more\ntags:\n",
		"- sft\n- grpo\n---", "A LoRA adapter for `base`, trained with", "## Training: warmup\n",
		"AutoPeftModelForCausalLM.from_pretrained(path)")
	if strings.Contains(card, "base_model") || strings.Contains(card, "| metric |") || strings.Contains(card, "````") {
		t.Errorf("the card tells what it cannot know:\n%s", card)
	}
}

// Names that a user has chosen are text: they neither format the card nor break its tables.
func TestCardEscapesNames(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "_rl_")
	writeStage(t, filepath.Join(dir, "monitor"),
		`{"step":1,"role":"explorer","time":"2026-01-02T15:05:00.000Z","metrics":{"eval/a|b`+"`c"+`/accuracy/mean@1":1}}`, "")
	card := cardOf(t, &Card{
		Name: "a_b *c* [d](e) <f> _g_", Library: "peft", Base: Source{"/models/x`y", false},
		Trainings: []Training{
			{Dir: filepath.Join(root, "warm"), Step: 1, Algorithm: "sft", Data: []Source{{"a|b.jsonl", false}, {"`", false}}},
			{Dir: dir, Step: 2, Algorithm: "grpo"},
		},
	})
	wantAll(t, card, "\n# a_b \\*c\\* \\[d\\](e) \\<f\\> \\_g\\_\n", "for ``x`y``, trained", "\n## Training: \\_rl\\_\n",
		"| data | `a\\|b.jsonl` |\n| data | `` ` `` |\n", "| ``eval/a\\|b`c/accuracy/mean@1`` | 1 | 1 |\n")
}

// The page of an adapter says what opens it. PEFT opens no GGUF file.
func TestCardOfAnAdapterOfAGGUFFile(t *testing.T) {
	card := cardOf(t, &Card{Name: "sums", Library: "peft", Base: Source{"/home/ann/small.Q4_1.gguf", false}})
	wantAll(t, card, "`trinity chat --model .`", "\ntrinity convert small.Q4_1.gguf --output base\n```\n",
		`PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained("base"), path)`)
	if strings.Contains(card, "AutoPeft") || strings.Contains(card, "\n\n\n") {
		t.Errorf("the card is\n%s", card)
	}
}
