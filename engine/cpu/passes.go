package cpu

import (
	"context"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/model"
)

// passes runs batches through a network: it packs the sequences, runs the backbone over the packed
// rows and the head over the head rows, and goes back through both.
type passes struct {
	cfg          *model.Config
	maxTokens    int  // of a part of a batch that is only scored
	shareNothing bool // compute shared prompts once per sequence, to test sharing
	packing      packing
	backbone     backbone
	head         head
}

// check refuses batches that cannot be computed.
func (s *passes) check(batch []*trinity.Experience, want trinity.Streams) error {
	if err := s.head.checkStreams(want); err != nil {
		return err
	}
	for _, x := range batch {
		if err := engine.CheckText(x); err != nil {
			return fmt.Errorf("cpu: %w", err)
		}
		if most := s.cfg.RopeScaling.Reach(); len(x.Tokens)-1 > most {
			return fmt.Errorf("cpu: experience %s has %d tokens, but beyond %d the model's longrope has other frequencies, which this engine does "+
				"not compute: lower max_model_len", x.ID, len(x.Tokens), most)
		}
		if err := s.packing.checkExperts(x); err != nil {
			return err
		}
		for _, tokens := range [][]int32{x.Tokens, x.Targets} {
			for t, token := range tokens {
				if token < 0 || int(token) >= s.cfg.VocabSize {
					return fmt.Errorf("cpu: experience %s: token %d at position %d is outside the vocabulary of %d", x.ID, token, t, s.cfg.VocabSize)
				}
			}
		}
	}
	return nil
}

// score returns the streams of every experience under m.
func (s *passes) score(ctx context.Context, m *network, batch []*trinity.Experience, want trinity.Streams) ([]trinity.TokenStats, error) {
	s.head.discriminate = want.Discriminator
	defer func() { s.head.discriminate = false }()
	stats := make([]trinity.TokenStats, 0, len(batch))
	err := s.eachPart(batch, func(part []*trinity.Experience) error {
		if err := s.forward(ctx, m, part, want, false); err != nil {
			return err
		}
		stats = append(stats, s.head.stats(&s.packing, part, want)...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return stats, nil
}

// eachPart packs as many sequences as fit the planned memory and calls do, until the batch is done.
func (s *passes) eachPart(rest []*trinity.Experience, do func(part []*trinity.Experience) error) error {
	for len(rest) > 0 {
		n := s.fitting(rest)
		s.pack(rest[:n])
		if err := do(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// fitting returns the number of sequences, from the first, that fit the planned memory; at least 1.
func (s *passes) fitting(rest []*trinity.Experience) int {
	tables := map[int]*experience.Prefixes{} // by their length, if it has its own RoPE table
	known := symbols{}
	tokens := 0
	for n, x := range rest {
		length := len(x.Tokens) - 1
		if !s.backbone.rope.ownTable(length) {
			length = 0
		}
		if tables[length] == nil {
			tables[length] = new(experience.Prefixes)
		}
		tokens -= tables[length].Tokens()
		tables[length].Add(known.of(&s.packing.replay, x))
		tokens += tables[length].Tokens()
		if n > 0 && tokens > s.maxTokens {
			return n
		}
	}
	return len(rest)
}

func (s *passes) pack(batch []*trinity.Experience) {
	s.backbone.rope.prepare(batch)
	if local := &s.backbone.local; local.cfg != nil {
		local.prepare(batch)
	}
	s.packing.pack(batch, !s.shareNothing, s.backbone.rope.start)
}

// forward computes all head rows of the packing, which part was packed into. With train, it keeps
// what backward needs.
func (s *passes) forward(ctx context.Context, m *network, part []*trinity.Experience, want trinity.Streams, train bool) (err error) {
	compare := &s.head.compare
	if compare.divergence, err = divergenceOf(want.Divergence); err != nil || len(s.packing.head) == 0 {
		return err
	}
	if err := s.states(ctx, m, train); err != nil {
		return err
	}
	if compare.divergence != nil {
		if err := compare.loadStates(ctx, part, &s.packing); err != nil {
			return err
		}
	}
	s.head.forward(m, &s.packing)
	return nil
}

// states computes the last hidden states of all head rows of the packing.
func (s *passes) states(ctx context.Context, m *network, train bool) error {
	if len(s.packing.head) == 0 {
		return nil
	}
	out, err := s.backbone.forward(ctx, m, &s.packing, train)
	if err != nil {
		return err
	}
	return s.head.load(m, &s.packing, out, train)
}

// train runs a batch forward and adds the gradient of the loss to grad. added is false if the
// gradient is 0.
func (s *passes) train(ctx context.Context, m, grad *network, b *trinity.Batch, loss trinity.Loss) (
	metrics trinity.Metrics, added bool, err error,
) {
	want, balance := loss.Streams(), s.backbone.balance
	if err := s.check(b.Experiences, want); err != nil {
		return nil, false, err
	}
	if err := s.packing.require(b.Experiences); err != nil {
		return nil, false, err
	}
	if want.Discriminator {
		return nil, false, errors.New("cpu: the loss asks for entropy discriminators, which have no gradient: only Forward returns them")
	}
	s.pack(b.Experiences)
	balance.begin(&s.packing)
	if err := s.forward(ctx, m, b.Experiences, want, true); err != nil {
		return nil, false, err
	}
	grads, metrics, err := loss.Loss(b, s.head.stats(&s.packing, b.Experiences, want))
	if err != nil {
		return nil, false, err
	}
	needed, err := s.head.takeGradient(&s.packing, b.Experiences, grads)
	if err != nil {
		return metrics, false, err
	}
	if balance.weighs() && len(s.packing.head) > 0 {
		sum := trinity.Metrics{"router/aux_loss": balance.weigh(&s.packing, b.Whole)}
		sum.Add(metrics)
		metrics, needed = sum, true
	}
	if !needed {
		return metrics, false, nil
	}
	if !balance.weighs() { // the load-balancing loss reaches every token
		s.dropIdle()
	}
	s.head.backward(m, grad, &s.packing, s.backbone.work.dOut.RowRange(0, len(s.packing.tokens)))
	return metrics, true, s.backbone.backward(ctx, m, grad, &s.packing)
}
