package cpu

import (
	"errors"
	"fmt"

	"github.com/trinity-go/trinity/model"
)

// openModel opens the model with the head that opts asks for.
func openModel(opts Options) (*model.Model, error) {
	m, err := openFile(opts)
	if err != nil {
		return nil, err
	}
	with := m
	if head, isNew := opts.head(); isNew {
		with, err = m.WithHead(head, opts.Seed)
	} else {
		err = checkHead(m.Config, opts)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return with, nil
}

// checkHead returns an error if the model's head is not the head that opts ask for.
func checkHead(cfg *model.Config, opts Options) error {
	if wanted, _ := opts.head(); cfg.Head != wanted {
		return fmt.Errorf("cpu: %s is a model %s; %s", opts.ModelPath, cfg.Head, headHints[cfg.Head])
	}
	return nil
}

// headHints say what a model with this head is for.
var headHints = map[model.Head]string{
	model.CausalLM:               "it has log-probabilities and no score: a reward model has a score.weight",
	model.SequenceClassification: "it scores whole sequences: use it as a reward model or to initialise a critic",
	model.TokenClassification:    "it has a value at each token: use it as a critic",
}

// openFile opens the model's files, or makes random weights for a directory that has only a config.
func openFile(opts Options) (*model.Model, error) {
	cfg, err := readConfig(opts.ModelPath)
	if err != nil {
		return nil, err
	}
	if opts.InitStyle == "" || model.HasWeights(opts.ModelPath) {
		return model.Open(opts.ModelPath)
	}
	return model.RandomInit(cfg, opts.InitSeed, opts.InitStyle)
}

// readConfig reads the config of a model that this engine computes.
func readConfig(path string) (*model.Config, error) {
	cfg, err := model.ReadConfig(path)
	if err != nil {
		return nil, err
	}
	if err := cfg.Foreign.Refuse(); err != nil {
		return nil, fmt.Errorf("cpu: %s: %w", path, err)
	}
	return cfg, nil
}
