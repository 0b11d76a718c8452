package feed

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/trainer"
	"github.com/trinity-go/trinity/registry"
)

// HeldOut reads the datasets on which the trainer measures its loss.
func (s *Reader) HeldOut(ctx context.Context) (all []trainer.HeldOut, err error) {
	for _, b := range s.Data.Measured {
		set := trainer.HeldOut{Name: b.Name}
		if set.Experiences, err = s.whole(ctx, &b.ExperienceBuffer); err == nil {
			set.Loss, err = s.measure(b.SchemaType)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.Key, err)
		}
		all = append(all, set)
	}
	return all, nil
}

// whole reads all experiences of a dataset.
func (s *Reader) whole(ctx context.Context, b *config.ExperienceBuffer) ([]*trinity.Experience, error) {
	rows, err := s.rows(ctx, b, b.SchemaType, 1)
	if err == nil {
		err = rows.Check(ctx, 0, 1)
	}
	if err != nil {
		return nil, err
	}
	if !b.Format.Packing {
		taken, err := rows.Take(ctx, trinity.Want{N: rows.Total()})
		return taken.Experiences(), err
	}
	packed, err := s.packed(rows)
	if err != nil {
		return nil, err
	}
	n, err := packed.Total()
	if err != nil {
		return nil, err
	}
	taken, err := packed.Take(ctx, trinity.Want{N: n})
	return taken.Experiences(), err
}

// measure returns the loss whose metrics tell about data of a schema. It is the run's own loss if
// the run trains on that schema, else the loss of the algorithm with the schema's name.
func (s *Reader) measure(schema string) (trinity.Loss, error) {
	if schema == s.Algorithm.Def.Schema {
		return s.Algorithm.Loss, nil
	}
	parts, err := registry.Parts(trinity.Algorithm{Type: schema})
	if err != nil {
		return nil, err
	}
	other, err := algorithm.New(parts)
	if err != nil {
		return nil, err
	}
	return other.Loss, nil
}
