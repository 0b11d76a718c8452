package run

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trainer"
)

// batches is what the trainer reads: the experience buffer or the dataset, and auxiliary buffers, as the sample strategy has it.
func (s *reader) batches(ctx context.Context, usual trinity.Source) (trinity.Source, error) {
	auxiliary := map[string]trinity.Source{}
	for _, b := range s.Data.Auxiliary {
		epochs := value(0, b.TotalEpochs) // 0: as many as there are rollouts to go with
		rows, err := s.rows(ctx, &b.ExperienceBuffer, b.SchemaType, epochs)
		if err == nil {
			err = rows.Check(ctx, rows.Total(), 1)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.Key, err)
		}
		auxiliary[b.Name] = rows
	}
	return s.Method.Strategy.Open(usual, auxiliary)
}

// staff gives the trainer its critic and its teachers.
func (s *stage) staff(ctx context.Context, o *trainer.Options) (err error) {
	if o.Critic, err = s.newCritic(o.TotalSteps); err != nil {
		return err
	}
	teachers, err := s.openTeachers(ctx)
	if err != nil {
		return err
	}
	if s.algorithm.Needs().Teacher || s.algorithm.Loss.Needs().Teacher {
		o.Teachers = teachers
	}
	if s.algorithm.Loss.Streams().Divergence.Kind == "" {
		return nil
	}
	student, ok := s.engine.(trainer.Distiller)
	if !ok {
		return fmt.Errorf("algorithm.policy_loss_fn: %s compares whole distributions, which engine %s cannot: choose another loss", s.algorithm.Def.PolicyLoss, s.Engines.Train)
	}
	return student.SetTeachers(teachers)
}
