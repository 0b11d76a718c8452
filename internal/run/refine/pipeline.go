// Package refine has the pipelines of a stage, which make tasks and edit experiences.
package refine

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience/ledger"
	"github.com/trinity-go/trinity/internal/pipeline"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/operator/datajuicer"
	"github.com/trinity-go/trinity/registry"
)

// Pipeline opens the pipeline: the operators and, if the trainer does not compute it, the advantage. account gets its
// steps for the ledger of a role.
func (s *Pipelines) Pipeline(
	ctx context.Context, r *feed.Reader, tracer trinity.Tracer, account func(role string, step ledger.Step) error,
) (p *pipeline.Pipeline, err error) {
	cfg := &s.cfg.DataProcessor.ExperiencePipeline
	p = &pipeline.Pipeline{Advantage: r.Algorithm.InPipeline(), Say: r.Say, Tracer: tracer}
	p.Ledger = func(step ledger.Step) error { return account(trinity.RoleExplorer, step) }
	if cfg.SaveInput {
		if p.Input, err = r.Kept(ctx, s.cfg.DataProcessor.InputCopy(&s.cfg.Buffer), "input"); err != nil {
			return p, err
		}
	}
	if cfg.OutputSavePath != "" {
		if p.Output, err = r.Kept(ctx, cfg.OutputSavePath, "output"); err != nil {
			return p, err
		}
	}
	for _, o := range cfg.Operators {
		op, err := registry.Operators.Build(o.Name, o.Args)
		if err != nil {
			return p, err
		}
		if u, ok := op.(datajuicer.User); ok {
			u.UseService(s.juicer)
		}
		p.Operators = append(p.Operators, pipeline.Operator{Name: o.Name, Operator: op})
	}
	return p, nil
}
