package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/model/hub"
	"github.com/trinity-go/trinity/model/renderer"
)

// teachers are the frozen models that the trainer of a stage asks for log-probabilities.
type teachers struct {
	opener trinity.TrainerOpener
	all    []teacher
	opened []trinity.Engine
}

type teacher struct {
	config.Teacher
	spec trinity.EngineSpec
}

// findTeachers brings the teachers onto this machine and checks that each reads what the student writes. It loads no weights.
func findTeachers(ctx context.Context, cfg *config.Settled, opener trinity.TrainerOpener, student string, text *renderer.Renderer, say func(string)) (teachers, error) {
	t := teachers{opener: opener}
	for _, one := range cfg.Teachers {
		path, err := hub.Resolve(ctx, one.Path, say)
		if err == nil {
			err = checkTeacher(cfg, path, student, text)
		}
		if err != nil {
			return t, cfg.At(one.Key, err.Error(), "")
		}
		t.all = append(t.all, teacher{one, teacherSpec(cfg, one, path)})
	}
	return t, nil
}

// teacherSpec is what is asked of the engine of a teacher.
func teacherSpec(cfg *config.Settled, t config.Teacher, path string) trinity.EngineSpec {
	return trinity.EngineSpec{ModelPath: path, DType: t.DType, MicroTokens: cfg.Batch.MicroTokens, MaxModelLen: *cfg.Model.MaxModelLen}
}

// checkTeacher tells why a model cannot be asked about the student's tokens.
func checkTeacher(cfg *config.Settled, path, student string, text *renderer.Renderer) error {
	pupil, err := model.ReadConfig(student)
	if err != nil {
		return err
	}
	m, err := model.ReadConfig(path)
	if err != nil {
		return err
	}
	own, err := renderer.Open(path, renderer.Options{})
	switch n := *cfg.Model.MaxModelLen; {
	case err != nil:
		return err
	case own == nil:
		return fmt.Errorf("model %s has no tokenizer (tokenizer.json) to compare with that of model.model_path", path)
	case m.VocabSize < pupil.VocabSize:
		return fmt.Errorf("model %s has a vocabulary of %d, model.model_path one of %d: a teacher must know every token of the student", path, m.VocabSize, pupil.VocabSize)
	case m.MaxPositions < n:
		return fmt.Errorf("model %s has positions for %d tokens, and %s is %d: lower that, or choose another teacher", path, m.MaxPositions, modelLenKey, n)
	}
	if difference := text.Tokenizer().Differs(own.Tokenizer()); difference != "" {
		return fmt.Errorf("model %s has another tokenizer than model.model_path: %s; a teacher must have the student's", path, difference)
	}
	return nil
}

// open loads the teachers, by name; nil if there are none. The first is also that of "". Teachers of one file and number type are one engine.
func (t *teachers) open(ctx context.Context) (map[string]trinity.Engine, error) {
	if len(t.all) == 0 {
		return nil, nil
	}
	engines, byName := map[[2]string]trinity.Engine{}, map[string]trinity.Engine{}
	for _, one := range t.all {
		file := [2]string{one.spec.ModelPath, one.spec.DType}
		if engines[file] == nil {
			e, err := t.opener.OpenTrainer(ctx, one.spec)
			if err != nil {
				return nil, fmt.Errorf("%s: opening model %s: %w", one.Key, one.spec.ModelPath, err)
			}
			engines[file] = e
			t.opened = append(t.opened, e)
		}
		byName[one.Name] = engines[file]
	}
	byName[""] = byName[t.all[0].Name]
	return byName, nil
}

func (t *teachers) close() error {
	var errs []error
	for _, e := range t.opened {
		errs = append(errs, e.Close())
	}
	t.opened = nil
	return errors.Join(errs...)
}

// fetchTeachers brings the teachers onto this machine.
func fetchTeachers(ctx context.Context, cfg *config.Settled, say func(string)) error {
	for _, t := range cfg.Teachers {
		if _, err := hub.Resolve(ctx, t.Path, say); err != nil {
			return cfg.At(t.Key+".model_path", err.Error(), "")
		}
	}
	return nil
}

// teacherFacts checks the teachers that are on this machine, and notes those that are not.
func teacherFacts(cfg *config.Settled, student string, f *config.Facts) error {
	all := cfg.Teachers
	if len(all) == 0 {
		return nil
	}
	text, err := renderer.Open(student, renderer.Options{})
	if err != nil || text == nil {
		return err // a run says that it needs one
	}
	for _, t := range all {
		path, ok := local(t.Path, t.Key+".model_path", false, f)
		if !ok {
			continue
		}
		if err := checkTeacher(cfg, path, student, text); err != nil {
			return cfg.At(t.Key, err.Error(), "")
		}
	}
	return nil
}

// teacherPaths are the teachers' models, as far as they are on this machine.
func teacherPaths(cfg *config.Settled) (paths []string) {
	for _, t := range cfg.Teachers {
		if path, ok := local(t.Path, "", false, &config.Facts{Fetch: map[string]string{}, Missing: map[string]string{}}); ok {
			paths = append(paths, path)
		}
	}
	return paths
}

// teacherMemory is the memory of the teachers, as far as they are on this machine.
func teacherMemory(cfg *config.Settled, e engines) ([]config.MemoryPlan, error) {
	var plans []config.MemoryPlan
	counted := map[[2]string]bool{}
	for _, t := range cfg.Teachers {
		path, ok := local(t.Path, "", false, &config.Facts{Fetch: map[string]string{}, Missing: map[string]string{}})
		file := [2]string{path, t.DType}
		if !ok || counted[file] {
			continue
		}
		counted[file] = true
		parts, err := e.trainer.PlanMemory(teacherSpec(cfg, t, path))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Key, err)
		}
		plans = append(plans, config.MemoryPlan{Kind: "teacher", Bytes: planned(parts), Why: t.Path})
	}
	return plans, nil
}
