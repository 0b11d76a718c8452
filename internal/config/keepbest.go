package config

import (
	"fmt"
	"slices"
	"strings"
)

// KeepBestKey is the key that names the metric of the best checkpoint.
const KeepBestKey = "trainer.keep_best"

// losses are the words that mark a metric of which less is better.
var losses = []string{"loss", "perplexity", "ppl", "nll", "kl", "error", "errors", "failed", "invalid"}

// BestMetric returns the metric of keep_best, and whether less of it is better: min: or max: before the
// name says so, else [LessIsBetter].
func (t *Trainer) BestMetric() (metric string, lower bool) {
	if name, ok := strings.CutPrefix(t.KeepBest, "min:"); ok {
		return name, true
	}
	if name, ok := strings.CutPrefix(t.KeepBest, "max:"); ok {
		return name, false
	}
	return t.KeepBest, LessIsBetter(t.KeepBest)
}

// LessIsBetter reports whether the last part of a metric's name that is no mean@N says that less of it is better.
func LessIsBetter(metric string) bool {
	parts := strings.Split(metric, "/")
	if last := len(parts) - 1; last > 0 && strings.Contains(parts[last], "@") {
		parts = parts[:last]
	}
	words := strings.Split(parts[len(parts)-1], "_")
	return slices.ContainsFunc(words, func(word string) bool { return slices.Contains(losses, word) })
}

// checkKeepBest checks that the run can tell which of its checkpoints is the best.
func (t *Trainer) checkKeepBest(r report, data *Data, synchronizer *Synchronizer, w Work) {
	if t.KeepBest == "" {
		if t.Patience > 0 {
			r.fail("trainer.patience", "counts evaluations that are no better than the best, and no metric says which is better",
				"set trainer.keep_best, for example to eval/held_out/accuracy/mean@1")
		}
		return
	}
	var names []string
	for _, set := range data.Tasksets {
		if set.Eval {
			names = append(names, set.Name)
		}
	}
	for _, b := range data.Measured {
		names = append(names, b.Name)
	}
	metric, _ := t.BestMetric()
	parts := strings.Split(metric, "/")
	switch {
	case !w.Trains:
	case w.mode == "train" && !w.ReadsDataset:
		r.fail(KeepBestKey, "has no evaluations in mode train: those of explorers in other processes do not reach the trainer",
			"use mode both, or leave it out and compare checkpoints with mode bench")
	case len(names) == 0:
		r.fail(KeepBestKey, "needs an evaluation, and the run has none",
			"set buffer.explorer_input.eval_tasksets, or buffer.trainer_input.eval_buffers if the run trains on a dataset")
	case metric == "":
		r.fail(KeepBestKey, "names no metric", fmt.Sprintf("name one as monitors have it, for example eval/%s/…", names[0]))
	case len(parts) < 3 || parts[0] != "eval" || !slices.Contains(names, parts[1]):
		r.fail(KeepBestKey, fmt.Sprintf("is %s, which no evaluation measures: the run evaluates %s", metric, strings.Join(names, ", ")),
			fmt.Sprintf("name a metric as monitors have it, for example eval/%s/…", names[0]))
	case w.Explores && synchronizer.SyncStyle != "fixed":
		r.fail(KeepBestKey, fmt.Sprintf("needs sync_style fixed: with %s the trainer does not know which version an evaluation will measure",
			synchronizer.SyncStyle), "set synchronizer.sync_style to fixed, or leave keep_best out")
	}
}
