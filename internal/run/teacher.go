package run

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/place"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/model/renderer"
)

// teacher is a frozen model, on this machine or behind servers, that the trainer asks for
// log-probabilities.
type teacher struct {
	config.Teacher
	spec engine.TrainerSpec // of a model on this machine
}

// teacherSpec returns how the engine opens a teacher.
func (s *Settled) teacherSpec(t config.Teacher, path string) engine.TrainerSpec {
	return engine.TrainerSpec{
		ModelPath: path, DType: t.DType, MicroTokens: s.Batch.MicroTokens, MaxModelLen: *s.Model.MaxModelLen, Place: s.engines.Programs.Train,
		Strategy: s.Trainer.TrainerStrategy, ParamOffload: s.Trainer.ParamOffload || s.engines.TakeTurns(),
	}
}

// checkTeacher returns an error if a model cannot be asked about the student's tokens. A student
// that is not on this machine, or has no tokenizer, is not compared.
func (s *Settled) checkTeacher(path string) error {
	if s.text == nil {
		return nil
	}
	pupil, err := model.ReadConfig(s.modelPath)
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
	if difference := s.text.Tokenizer().Differs(own.Tokenizer()); difference != "" {
		return fmt.Errorf("model %s has another tokenizer than model.model_path: %s; a teacher must have the student's", path, difference)
	}
	return nil
}

// openTeachers loads the teachers, by name. The name "" is the first teacher's too. Teachers of one
// file and number type share an engine.
func (s *stage) openTeachers(ctx context.Context) (map[string]engine.Trainer, error) {
	if len(s.Settled.teachers) == 0 {
		return nil, nil
	}
	engines, byName := map[[2]string]engine.Trainer{}, map[string]engine.Trainer{}
	for _, one := range s.Settled.teachers {
		if one.Served != nil {
			e, err := one.openServed(ctx, s)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", one.Key, err)
			}
			byName[one.Name] = e
			s.frozen = append(s.frozen, e)
			continue
		}
		file := [2]string{one.spec.ModelPath, one.spec.DType}
		if engines[file] == nil {
			e, err := s.engines.Trainer.OpenTrainer(ctx, one.spec)
			if err != nil {
				return nil, fmt.Errorf("%s: opening model %s: %w", one.Key, one.spec.ModelPath, err)
			}
			engines[file] = e
			s.frozen = append(s.frozen, e)
		}
		byName[one.Name] = engines[file]
	}
	byName[""] = byName[s.Settled.teachers[0].Name]
	return byName, nil
}

// teacherPaths lists the models of the teachers that are on this machine.
func (s *Settled) teacherPaths() (paths []string) {
	for _, t := range s.teachers {
		if t.Served == nil {
			paths = append(paths, t.spec.ModelPath)
		}
	}
	return paths
}

// teacherMemory plans the memory of the teachers that are on this machine.
func (s *Settled) teacherMemory() (plans []config.MemoryPlan, err error) {
	counted := map[[2]string]bool{}
	for _, t := range s.teachers {
		file := [2]string{t.spec.ModelPath, t.DType}
		if t.Served != nil || counted[file] {
			continue
		}
		counted[file] = true
		parts, err := s.engines.PlanTrainer(t.spec)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Key, err)
		}
		plans = append(plans, place.Planned(parts, "teacher", t.Path)...)
	}
	return plans, nil
}
