package weights

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
)

// evidence is how a Way proves deliveries and reports on them.
type evidence struct {
	probe  *Probe // nil, as is proof, if deliveries are not proven
	proof  *proof
	report func(ctx context.Context, version int64, m trinity.Metrics) error
}

// evidenceOf makes the sampler of a link prove its versions, if it can.
func evidenceOf(l Link) evidence {
	e := evidence{report: l.Report}
	if p, ok := l.Sampler.(Provable); ok && l.Probe != nil {
		e.probe, e.proof = l.Probe, newProof(l.Say)
		p.Prove(e.proof.proving(l.Handover == AtRendezvous, l.Probe.Digests))
	}
	return e
}

// learn lets the engine score the probe with a version that is its weights.
func (e *evidence) learn(ctx context.Context, trainer engine.Trainer, version int64) error {
	if e.proof == nil {
		return nil
	}
	scores, err := e.probe.ask(ctx, trainer, version)
	if err == nil {
		e.proof.learn(version, scores)
	}
	return err
}

// tell reports the metrics of a version that is in use. The time of its load includes that of its proof.
func (e *evidence) tell(ctx context.Context, version int64, m trinity.Metrics) error {
	if e.report == nil {
		return nil
	}
	if e.proof != nil {
		m.Merge("", e.proof.metrics())
		m["sync/load"] = max(0, m["sync/load"]-m[proveTime]) // a server that restarted has proven a version besides
	}
	return e.report(ctx, version, m)
}
