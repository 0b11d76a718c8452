package config

import (
	"strings"
	"testing"
)

func TestBestMetric(t *testing.T) {
	for value, want := range map[string]struct {
		metric string
		lower  bool
	}{
		"eval/held_out/accuracy/mean@1":             {"eval/held_out/accuracy/mean@1", false},
		"eval/held_out/final_loss":                  {"eval/held_out/final_loss", true},
		"eval/held_out/loss/mean@4":                 {"eval/held_out/loss/mean@4", true},
		"eval/kl/accuracy/mean@4":                   {"eval/kl/accuracy/mean@4", false},
		"min:eval/held_out/response_length/mean@1":  {"eval/held_out/response_length/mean@1", true},
		"max:eval/held_out/final_loss":              {"eval/held_out/final_loss", false},
		"eval/held_out/glossary/best@2":             {"eval/held_out/glossary/best@2", false},
		"eval/held_out/reward_accuracy":             {"eval/held_out/reward_accuracy", false},
		"eval/held_out/failed_run_count":            {"eval/held_out/failed_run_count", true},
		"eval/held_out/entropy_loss":                {"eval/held_out/entropy_loss", true},
		"eval/held_out_loss/accuracy/mean@1":        {"eval/held_out_loss/accuracy/mean@1", false},
		"min:eval/held_out/accuracy/worst@8":        {"eval/held_out/accuracy/worst@8", true},
		"eval/held_out/format/mean@16":              {"eval/held_out/format/mean@16", false},
		"eval/held_out/reference_perplexity/mean@1": {"eval/held_out/reference_perplexity/mean@1", true},
	} {
		trainer := Trainer{KeepBest: value}
		if metric, lower := trainer.BestMetric(); metric != want.metric || lower != want.lower {
			t.Errorf("%s: %s, less is better: %v", value, metric, lower)
		}
	}
}

func TestRefusedKeepBest(t *testing.T) {
	const evaluated = "buffer.explorer_input.eval_tasksets=[{name: few, path: few.jsonl}]"
	const accuracy = "trainer.keep_best=eval/few/accuracy/mean@1"
	for _, c := range []struct {
		text      string
		overrides []string
		key, says string
	}{
		{base, []string{"trainer.patience=2"}, "trainer.patience", "no metric says which is better"},
		{base, []string{"buffer.explorer_input.eval_tasksets=[]", accuracy}, KeepBestKey, "needs an evaluation, and the run has none"},
		{base, []string{evaluated, "trainer.keep_best=eval/many/accuracy/mean@1"}, KeepBestKey,
			"no evaluation measures: the run evaluates few"},
		{base, []string{evaluated, "trainer.keep_best=rollout/reward/mean"}, KeepBestKey, "no evaluation measures: the run evaluates few"},
		{base, []string{evaluated, "trainer.keep_best=min:eval/few"}, KeepBestKey, "is eval/few, which no evaluation measures"},
		{base, []string{evaluated, "trainer.keep_best='min:'"}, KeepBestKey, "names no metric"},
		{base, []string{evaluated, accuracy, "synchronizer.sync_style=fully_async"}, KeepBestKey, "needs sync_style fixed: with fully_async"},
		{base, []string{evaluated, accuracy, "mode=train", "buffer.total_steps=3"}, KeepBestKey, "explorers in other processes"},
		{measuring, []string{"trainer.keep_best=eval/few/final_loss"}, KeepBestKey, "the run evaluates held_out"},
	} {
		_, err := Parse("c.yaml", []byte(c.text), Options{Overrides: c.overrides})
		if err == nil || !strings.Contains(err.Error(), c.key) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v", c.overrides, err)
		}
	}
	mustParse(t, base, Options{Overrides: []string{evaluated, accuracy, "trainer.patience=3"}})
	mustParse(t, measuring, Options{Overrides: []string{"trainer.keep_best=eval/held_out/final_loss"}})
	if notes := mustParse(t, base, Options{Overrides: []string{evaluated, accuracy, "mode=bench"}}).settled[0].Unused(); len(notes) == 0 {
		t.Error("mode bench does not say that it reads no trainer.keep_best")
	}
}
