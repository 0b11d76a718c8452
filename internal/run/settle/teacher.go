package settle

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/place"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/model/renderer"
	"github.com/trinity-go/trinity/registry"
)

// teacherModel is a frozen model, on this machine or behind servers, that the trainer asks for
// log-probabilities.
type teacherModel struct {
	config.Teacher
	Spec engine.TrainerSpec // of a model on this machine
}

// teacherSpec returns how the engine opens a teacher.
func (s *Stage) teacherSpec(t config.Teacher, path string) engine.TrainerSpec {
	service := s.Model.Service(s.Seed, &s.Method)
	if service.BaseModel != "" {
		service.BaseModel = t.Path
	}
	offload, _ := s.Trainer.Offload("") // veRL's tree has no part for teachers
	layout := s.Trainer.Layout()
	layout.Tensor = 0 // its matrices may be of other sizes
	return engine.TrainerSpec{
		Service:   service,
		ModelPath: path, DType: t.DType, MicroTokens: s.Batch.MicroTokens, MaxModelLen: *s.Model.MaxModelLen, Place: s.Openers.Programs.Train,
		Compile: s.Trainer.Compiled(), Layout: layout, Offload: engine.Offload{ParamOffload: offload || s.Openers.TakeTurns()},
		Images: place.ImageFiles(s.Settled),
	}
}

// CheckTeacher returns an error if a model cannot be asked about the student's tokens. A student
// that is not on this machine, or has no tokenizer, is not compared.
func (s *Stage) CheckTeacher(path string) error {
	if s.Text == nil {
		return nil
	}
	pupil, err := model.ReadConfig(s.ModelPath)
	if err != nil {
		return err
	}
	m, err := model.ReadConfig(path)
	if err != nil {
		return err
	}
	own, err := renderer.Open(path, renderer.Options{})
	switch n := *s.Model.MaxModelLen; {
	case err != nil:
		return err
	case own == nil:
		return fmt.Errorf("model %s has no tokenizer (tokenizer.json) to compare with that of model.model_path", path)
	case m.VocabSize < pupil.VocabSize:
		return fmt.Errorf("model %s has a vocabulary of %d, model.model_path one of %d: a teacher must know every token of the student",
			path, m.VocabSize, pupil.VocabSize)
	case m.MaxPositions < n:
		return fmt.Errorf("model %s has positions for %d tokens, and %s is %d: lower that, or choose another teacher",
			path, m.MaxPositions, place.ModelLenKey, n)
	}
	if difference := s.Text.Tokenizer().Differs(own.Tokenizer()); difference != "" {
		return fmt.Errorf("model %s has another tokenizer than model.model_path: %s; a teacher must have the student's", path, difference)
	}
	return nil
}

// teacherPaths lists the models of the teachers that are on this machine.
func (s *Stage) teacherPaths() (paths []string) {
	for _, t := range s.teacherModels {
		if t.Served == nil {
			paths = append(paths, t.Spec.ModelPath)
		}
	}
	return paths
}

// teacherMemory plans the memory of the teachers that are on this machine.
func (s *Stage) teacherMemory() (plans []config.MemoryPlan, err error) {
	counted := map[[2]string]bool{}
	for _, t := range s.teacherModels {
		file := [2]string{t.Spec.ModelPath, t.DType}
		if t.Served != nil || counted[file] {
			continue
		}
		counted[file] = true
		parts, err := s.Openers.PlanTrainer(t.Spec)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Key, err)
		}
		plans = append(plans, place.Planned(parts, "teacher", t.Path)...)
	}
	return plans, nil
}

// checkCritic returns an error if the critic cannot read the policy's sequences.
func (s *Stage) checkCritic(policy *model.Config) error {
	path := s.CriticPath
	critic, err := model.ReadConfig(path)
	if err != nil {
		return s.At(checkpoint.CriticKey, err.Error(), "")
	}
	switch length := *s.Model.MaxModelLen; {
	case critic.VocabSize < policy.VocabSize:
		return s.At(checkpoint.CriticKey,
			fmt.Sprintf("%s has a vocabulary of %d and the policy one of %d", path, critic.VocabSize, policy.VocabSize),
			"a critic reads the policy's tokens, so start it from a model with the same tokenizer")
	case critic.MaxPositions < length:
		return s.At(checkpoint.CriticKey,
			fmt.Sprintf("%s has positions for %d tokens, %s is %d", path, critic.MaxPositions, place.ModelLenKey, length),
			"lower it or use another critic")
	}
	return nil
}

// encoder returns a function that encodes a text without special tokens.
func encoder(text *renderer.Renderer) func(string) []int32 {
	return func(s string) []int32 { return text.Tokenizer().Encode(s, false) }
}

// openServed opens a teacher behind servers.
func (s *Stage) openServed(ctx context.Context, t teacherModel, say func(string)) (engine.Trainer, error) {
	m := t.Served
	opener, err := registry.Samplers.Build(m.EngineType, m.EngineArgs)
	if err != nil {
		return nil, err
	}
	sampler, err := opener.OpenSampler(ctx, engine.SamplerSpec{
		ModelPath: s.ModelPath, Servers: m.BaseUrls, Key: m.APIKey, Patience: wait.Seconds(s.Explorer.MaxTimeout), Scores: true,
		MaxSequences: scoredAtOnce, MaxModelLen: *s.Model.MaxModelLen, Text: s.Text.Decode, Tokens: encoder(s.Text), Say: say,
	})
	if err != nil {
		return nil, err
	}
	scorer, ok := sampler.(engine.Rescorer)
	if !ok {
		err := fmt.Errorf("engine %s scores no tokens that it is given, which a teacher must: choose another", m.EngineType)
		return nil, closeAfter(err, sampler)
	}
	return &servedTeacher{scorer}, nil
}

// scoredAtOnce is the most sequences that a teacher behind servers scores at once.
const scoredAtOnce = 16

// servedTeacher is a frozen engine that asks a sampler for the log-probabilities of given tokens.
type servedTeacher struct{ scorer engine.Rescorer }

// Forward implements engine.Trainer. It has log-probabilities alone, at temperature 1.
func (t *servedTeacher) Forward(ctx context.Context, b *trinity.Batch, want trinity.Streams) ([]trinity.TokenStats, error) {
	if want != (trinity.Streams{}) {
		return nil, errForwardAlone
	}
	for _, e := range b.Experiences {
		if e.Temperature != 1 {
			return nil, fmt.Errorf("experience %s was sampled at temperature %v, and a teacher behind servers scores at temperature 1: "+
				"set the temperature to 1", e.ID, e.Temperature)
		}
	}
	stats := make([]trinity.TokenStats, len(b.Experiences))
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(scoredAtOnce)
	for i, e := range b.Experiences {
		eg.Go(func() error {
			logprobs, err := t.scorer.Logprobs(ctx, e.Tokens)
			if err == nil && len(logprobs) != len(e.Tokens)-1 {
				err = fmt.Errorf("%d log-probabilities for the %d tokens after the first", len(logprobs), len(e.Tokens)-1)
			}
			if err != nil {
				return fmt.Errorf("scoring experience %s: %w", e.ID, err)
			}
			stats[i].Logprob = make([]float32, len(e.Tokens))
			for at, trained := range e.Mask {
				if trained {
					stats[i].Logprob[at] = logprobs[at-1]
				}
			}
			return nil
		})
	}
	return stats, eg.Wait()
}

var errForwardAlone = errors.New("a teacher behind servers has log-probabilities alone")

// Reference implements engine.Trainer.
func (*servedTeacher) Reference(context.Context, *trinity.Batch) ([]trinity.TokenStats, error) {
	return nil, errForwardAlone
}

// ForwardBackward implements engine.Trainer.
func (*servedTeacher) ForwardBackward(context.Context, *trinity.Batch, trinity.Loss) (trinity.Metrics, error) {
	return nil, errForwardAlone
}

// OptimStep implements engine.Trainer.
func (*servedTeacher) OptimStep(context.Context, trinity.OptimParams) (trinity.Metrics, error) {
	return nil, errForwardAlone
}

// SaveState implements engine.Trainer.
func (*servedTeacher) SaveState(context.Context, string) error { return errForwardAlone }

// LoadState implements engine.Trainer.
func (*servedTeacher) LoadState(context.Context, string) error { return errForwardAlone }

// SaveModel implements engine.Trainer.
func (*servedTeacher) SaveModel(context.Context, string) error { return errForwardAlone }

// Close implements engine.Trainer.
func (t *servedTeacher) Close() error { return closeAfter(nil, t.scorer) }

// closeAfter closes a sampler, if it has anything to close, and returns both failures in one line.
func closeAfter(err error, s trinity.Sampler) error {
	c, ok := s.(io.Closer)
	if !ok {
		return err
	}
	switch failed := c.Close(); {
	case failed == nil:
		return err
	case err == nil:
		return failed
	default:
		return fmt.Errorf("%w; closing it: %w", err, failed)
	}
}
