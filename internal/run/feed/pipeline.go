package feed

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience/ledger"
	"github.com/trinity-go/trinity/internal/pipeline"
	"github.com/trinity-go/trinity/operator/datajuicer"
	"github.com/trinity-go/trinity/registry"
)

// Pipeline opens the pipeline: the operators and, if the trainer does not compute it, the advantage. account gets its
// steps for the ledger of a role.
func (s *Reader) Pipeline(
	ctx context.Context, tracer trinity.Tracer, account func(role string, step ledger.Step) error,
) (p *pipeline.Pipeline, err error) {
	cfg := &s.DataProcessor.ExperiencePipeline
	p = &pipeline.Pipeline{Advantage: s.Algorithm.InPipeline(), Say: s.Say, Tracer: tracer}
	p.Ledger = func(r ledger.Step) error { return account(trinity.RoleExplorer, r) }
	if cfg.SaveInput {
		if p.Input, err = s.kept(ctx, s.DataProcessor.InputCopy(&s.Buffer), "input"); err != nil {
			return p, err
		}
	}
	if cfg.OutputSavePath != "" {
		if p.Output, err = s.kept(ctx, cfg.OutputSavePath, "output"); err != nil {
			return p, err
		}
	}
	for _, o := range cfg.Operators {
		op, err := registry.Operators.Build(o.Name, o.Args)
		if err != nil {
			return p, err
		}
		if u, ok := op.(datajuicer.User); ok {
			u.UseService(s.Juicer)
		}
		p.Operators = append(p.Operators, pipeline.Operator{Name: o.Name, Operator: op})
	}
	return p, nil
}
