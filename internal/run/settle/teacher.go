package settle

import (
	"fmt"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/place"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/model/renderer"
)

// TeacherModel is a frozen model, on this machine or behind servers, that the trainer asks for
// log-probabilities.
type TeacherModel struct {
	config.Teacher
	Spec engine.TrainerSpec // of a model on this machine
}

// teacherSpec returns how the engine opens a teacher.
func (s *Stage) teacherSpec(t config.Teacher, path string) engine.TrainerSpec {
	return engine.TrainerSpec{
		ModelPath: path, DType: t.DType, MicroTokens: s.Batch.MicroTokens, MaxModelLen: *s.Model.MaxModelLen, Place: s.Openers.Programs.Train,
		Strategy: s.Trainer.TrainerStrategy, ParamOffload: s.Trainer.ParamOffload || s.Openers.TakeTurns(),
	}
}

// checkTeacher returns an error if a model cannot be asked about the student's tokens. A student
// that is not on this machine, or has no tokenizer, is not compared.
func (s *Stage) checkTeacher(path string) error {
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
	for _, t := range s.TeacherModels {
		if t.Served == nil {
			paths = append(paths, t.Spec.ModelPath)
		}
	}
	return paths
}

// teacherMemory plans the memory of the teachers that are on this machine.
func (s *Stage) teacherMemory() (plans []config.MemoryPlan, err error) {
	counted := map[[2]string]bool{}
	for _, t := range s.TeacherModels {
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
