package loss

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	KLs.Register("python",
		"A KL estimate of yours in Python: a class of Trinity-RFT (KLFn) with calculate_kl(logprob, ref_logprob, old_logprob), or a function "+
			"of these. kl_loss_fn: my.module.KL names it as well; kl_loss_fn_args are then its arguments, with kl_coef, adaptive, target_kl "+
			"and horizon as everywhere. It returns a number for each token, with torch, or a pair of these and of their derivatives by "+
			"logprob. kl_penalty_fn takes it, too: logprob and old_logprob are then those that were sampled. "+
			"Metrics: kl_loss (without the coefficient), kl_coef.",
		func() KL { return &pythonKL{pythonTerm: newPythonTerm()} })
	KLs.Elsewhere("python", "class")
}

// pythonKL asks a class or a function in a process of Python for the estimate of each token of an
// optimizer step and its derivative. An estimate of a token depends on that token alone.
type pythonKL struct {
	pythonTerm `yaml:",inline"`

	controller        KLController
	estimates, slopes map[*trinity.Experience][]float64 // of the trained tokens
}

// Validate checks that the class exists and takes the arguments.
func (p *pythonKL) Validate() error {
	p.controller = KLController{KLCoef: defaultKLCoef}
	for name, to := range map[string]*float64{
		"kl_coef": &p.controller.KLCoef, "target_kl": &p.controller.TargetKL, "horizon": &p.controller.Horizon,
	} {
		switch v := p.Args[name].(type) {
		case nil:
		case float64:
			*to = v
		case int:
			*to = float64(v)
		default:
			return fmt.Errorf("args.%s: %v is no number", name, v)
		}
	}
	switch adaptive := p.Args["adaptive"].(type) {
	case nil:
	case bool:
		p.controller.Adaptive = adaptive
	default:
		return fmt.Errorf("args.adaptive: %v is neither true nor false", adaptive)
	}
	if err := registry.Validate(&p.controller); err != nil {
		return fmt.Errorf("args.%w", err)
	}
	err := p.describe("kl", "KL")
	p.is.Takes, p.is.Needs = []string{"ref_logprob", "old_logprob"}, []string{"ref_logprob"}
	return err
}

// Controller implements [KL].
func (p *pythonKL) Controller() *KLController { return &p.controller }

// Probes implements [Prober].
func (p *pythonKL) Probes(whole []*trinity.Experience) []*trinity.Experience {
	p.estimates, p.slopes = map[*trinity.Experience][]float64{}, map[*trinity.Experience][]float64{}
	return withTokens(whole, 1)
}

// Prepare implements [Prober].
func (p *pythonKL) Prepare(ctx context.Context, b *trinity.Batch, now []trinity.TokenStats) error {
	question, err := p.question(b, now)
	if err != nil || p.run.Rehearses() {
		return err
	}
	var answer struct{ Values, Derivatives map[string]string }
	if err := p.ask(ctx, "kl", question, &answer); err != nil {
		return err
	}
	if err := spread(answer.Values["logprob"], b.Experiences, p.estimates); err != nil {
		return fmt.Errorf("%s: estimates: %w", p.who, err)
	}
	if err := spread(answer.Derivatives["logprob"], b.Experiences, p.slopes); err != nil {
		return fmt.Errorf("%s: derivatives: %w", p.who, err)
	}
	return nil
}

// Estimate implements [KL]: the tangents of the estimates.
func (p *pythonKL) Estimate(in *Input, lp, _ tape.Stream, _ *tape.Stream) tape.Stream {
	estimates, slopes := byToken(in, p.estimates), byToken(in, p.slopes)
	return in.Tape.Constant(slopes).Mul(lp.Sub(lp.Detach())).Add(in.Tape.Constant(estimates))
}

// byToken returns numbers of the trained tokens of a micro-batch, 0 where there are none.
func byToken(in *Input, of map[*trinity.Experience][]float64) []float64 {
	var all []float64
	for _, e := range in.Batch.Experiences {
		own := of[e]
		if own == nil {
			own = make([]float64, e.TrainedTokens())
		}
		all = append(all, own...)
	}
	return all
}
