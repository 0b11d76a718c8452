package config

import (
	"strings"
	"testing"
)

func TestOptimizersHaveOwnDefaults(t *testing.T) {
	for _, c := range []struct {
		set      string
		momentum float64
		nesterov bool
	}{
		{"{optimizer_type: sgd}", 0.9, false},
		{"{optimizer_type: sgd, momentum: 0}", 0, false},
		{"{optimizer_type: sgd, momentum: 0.5, nesterov: true}", 0.5, true},
		{"{optimizer_type: Muon}", 0.95, true},
		{"{optimizer_type: muon, momentum: 0}", 0, false},
		{"{optimizer_type: muon, nesterov: false}", 0.95, false},
	} {
		o := mustParse(t, base, Options{Overrides: []string{optimizerKey + "=" + c.set}}).Algorithm.Optimizer
		if *o.Momentum != c.momentum || *o.Nesterov != c.nesterov {
			t.Errorf("%s: momentum %v, nesterov %v", c.set, *o.Momentum, *o.Nesterov)
		}
	}
	for _, name := range []string{"adam", "adamw", "adamw_8bit"} {
		if o := mustParse(t, base, Options{Overrides: []string{optimizerKey + ".optimizer_type=" + name}}).Algorithm.Optimizer; o.Momentum != nil || o.Nesterov != nil {
			t.Errorf("%s has momentum", name)
		}
	}
}

// The configuration that `check` prints loads again for every optimizer.
func TestEffectiveOptimizersLoadAgain(t *testing.T) {
	for _, set := range []string{"{optimizer_type: sgd}", "{optimizer_type: muon}", "{optimizer_type: adamw_8bit}",
		"{lr_scheduler_type: wsd, lr_decay_steps_ratio: 0.3}"} {
		text, err := mustParse(t, base, Options{Overrides: []string{optimizerKey + "=" + set}}).YAML()
		if err != nil {
			t.Fatal(err)
		}
		mustParse(t, text)
	}
}

func TestSchedulesNeedTheNumberOfSteps(t *testing.T) {
	const scheduler, warmup = optimizerKey + ".lr_scheduler_type", optimizerKey + ".lr_warmup_steps_ratio"
	online := []string{"mode=train", "buffer.train_batch_size=8"}
	for set, key := range map[string]string{scheduler + "=wsd": scheduler, scheduler + "=cosine": scheduler, warmup + "=0.1": warmup} {
		_, err := parse(t, base, Options{Overrides: append(online, set)})
		if err == nil || !strings.Contains(err.Error(), key+": ") || !strings.Contains(err.Error(), "set trainer.total_steps") {
			t.Errorf("%s: %v", set, err)
		}
		mustParse(t, base, Options{Overrides: append(online, set, "trainer.total_steps=10")})
		mustParse(t, base, Options{Overrides: []string{set}})
		mustParse(t, offlineBase, Options{Overrides: []string{set}})
	}
	mustParse(t, base, Options{Overrides: append(online, optimizerKey+"={lr_warmup_steps: 3, lr_warmup_steps_ratio: 0.1}")})
	_, err := parse(t, criticBase, Options{Overrides: append(online, criticOptimKey+".lr_scheduler_type=linear")})
	if err == nil || !strings.Contains(err.Error(), criticOptimKey+".lr_scheduler_type: linear falls over all steps") {
		t.Errorf("the critic's: %v", err)
	}
}
