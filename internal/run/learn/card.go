package learn

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/model/hub"
	"github.com/trinity-go/trinity/internal/report"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/run/record"
	"github.com/trinity-go/trinity/model"
)

// WriteCard writes a model card called name into dir, which holds the model or the adapter of a
// checkpoint. library, "transformers" or "peft", opens it. The card describes the checkpoint's run,
// and before it the runs and stages whose checkpoints it began with, as far as they are still there.
func WriteCard(dir, name, checkpointDir, library string) error {
	card := report.Card{Name: name, Library: library, Scores: IsRewardModel(dir)}
	seen := map[string]bool{}
	for at := checkpointDir; at != "" && !seen[at]; {
		seen[at] = true
		step, made, err := checkpoint.Read(at)
		if err != nil {
			return err
		}
		set := made.Settings
		t := report.Training{Dir: filepath.Dir(at), Step: step, Algorithm: set["algorithm.algorithm_type"], Seed: set["seed"]}
		for _, key := range slices.Sorted(maps.Keys(made.Data)) {
			t.Data = append(t.Data, data(set[key]))
		}
		card.Trainings = append(card.Trainings, t)
		base := set[checkpoint.ModelKey]
		path, _ := feed.Local(base, false)
		if library != "peft" || len(card.Trainings) == 1 { // what an adapter is opened on, or what a model once was
			card.Base = report.Source{Name: base, OnHub: path != base && hub.IsName(base)}
		}
		at = checkpoint.Above(cmp.Or(set[checkpoint.AdapterKey], base))
	}
	slices.Reverse(card.Trainings)
	return card.WriteFile(dir)
}

// IsRewardModel reports whether a directory holds a reward model.
func IsRewardModel(dir string) bool {
	cfg, err := model.ReadConfig(dir)
	return err == nil && cfg.Head == model.SequenceClassification
}

// data returns the name of a dataset. Of the address of a database, which may hold a password, it
// keeps the scheme.
func data(path string) report.Source {
	if dburl.IsURL(path) {
		scheme, _, _ := strings.Cut(path, ":")
		return report.Source{Name: scheme + " database"}
	}
	if at, _ := feed.Local(path, true); at != path && feed.IsHubDataset(path) {
		return report.Source{Name: strings.TrimPrefix(feed.DatasetName(path), "hf://datasets/"), OnHub: true}
	}
	return report.Source{Name: path}
}

// Cards writes the cards of the models that a run has made. A run does not fail because of them.
func Cards(stages []record.StageSummary, name string, say func(string)) {
	for _, s := range stages {
		at := checkpoint.Above(s.Model)
		if at == "" {
			continue
		}
		library := "transformers"
		if strings.HasSuffix(filepath.ToSlash(s.Model), checkpoint.AdapterDir) {
			library = "peft"
		}
		if err := WriteCard(s.Model, name, at, library); err != nil {
			say("no model card in " + s.Model + ": " + err.Error())
		}
	}
}
