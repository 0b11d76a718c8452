package settle

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/run/place"
	"github.com/trinity-go/trinity/weights"
)

// Models are the open models of a stage.
type Models struct {
	Policy, Critic engine.Trainer // nil if the stage trains none
	Sampler        trinity.Sampler
	frozen         []engine.Trainer // the teachers
}

// OpenModels loads the weights of the policy and the critic, on a machine with so many bytes of memory available. What it has
// loaded before an error is in its models.
func (s *Stage) OpenModels(ctx context.Context, train, sample bool, available int64, say func(string)) (m Models, err error) {
	need, err := s.forecast(train, sample, available)
	if err != nil {
		return m, err
	}
	spec := need.Spec
	if n := spec.Train.Recompute; n > 0 {
		say(fmt.Sprintf("memory is short, so the backward pass computes the activations of %d layers again", n))
	}
	if train {
		warnOfBase(s.Model.LoraConfigs, say)
	}
	spec.Sample.Text, spec.Sample.Say = s.Text.Decode, say
	spec.Sample.Tokens = encoder(s.Text)
	s.Openers.Programs.Say(say)
	if m.Policy, m.Sampler, err = s.Openers.Open(ctx, spec); err != nil {
		return m, err
	}
	if sleeper, ok := m.Sampler.(weights.Sleeper); ok { // it shares GPUs with the trainer
		if err := sleeper.Sleep(ctx); err != nil {
			return m, err
		}
	}
	if s.CriticPath != "" {
		if m.Critic, err = s.Openers.Trainer.OpenTrainer(ctx, place.CriticSpec(spec.Train, s.CriticPath, s.Critic.Optim.Spec())); err != nil {
			return m, fmt.Errorf("opening critic %s: %w", s.CriticPath, err)
		}
	}
	if sample {
		err = m.loadAdapters(ctx, s)
	}
	return m, err
}

// loadAdapters gives the sampler the adapters that the stage does not train.
func (m *Models) loadAdapters(ctx context.Context, s *Stage) error {
	named := s.Model.SampledAdapters()
	loader, ok := m.Sampler.(engine.AdapterLoader)
	if len(named) > 0 && !ok {
		return fmt.Errorf("model.lora_configs: engine %s samples one adapter; leave out the others", s.Engines.Sample)
	}
	for _, l := range named {
		if err := loader.LoadAdapter(ctx, l.Name, l.Path, 0); err != nil {
			return fmt.Errorf("model.lora_configs: adapter %q: %w", l.Name, err)
		}
	}
	return nil
}

// OpenTeachers loads the teachers, by name. The name "" is the first teacher's too. Teachers of one
// file and number type share an engine.
func (m *Models) OpenTeachers(ctx context.Context, s *Stage, say func(string)) (map[string]engine.Trainer, error) {
	if len(s.TeacherModels) == 0 {
		return nil, nil
	}
	engines, byName := map[[2]string]engine.Trainer{}, map[string]engine.Trainer{}
	for _, one := range s.TeacherModels {
		if one.Served != nil {
			e, err := s.openServed(ctx, one, say)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", one.Key, err)
			}
			byName[one.Name] = e
			m.frozen = append(m.frozen, e)
			continue
		}
		file := [2]string{one.Spec.ModelPath, one.Spec.DType}
		if engines[file] == nil {
			e, err := s.Openers.Trainer.OpenTrainer(ctx, one.Spec)
			if err != nil {
				return nil, fmt.Errorf("%s: opening model %s: %w", one.Key, one.Spec.ModelPath, err)
			}
			engines[file] = e
			m.frozen = append(m.frozen, e)
		}
		byName[one.Name] = engines[file]
	}
	byName[""] = byName[s.TeacherModels[0].Name]
	return byName, nil
}

// Close frees the weights.
func (m *Models) Close() error {
	var errs []error
	if c, ok := m.Sampler.(io.Closer); ok {
		errs = append(errs, c.Close())
	}
	for _, e := range append(m.frozen, m.Policy, m.Critic) {
		if e != nil {
			errs = append(errs, e.Close())
		}
	}
	*m = Models{}
	return errors.Join(errs...)
}
