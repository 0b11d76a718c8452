package cpu

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/internal/experts"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/model"
)

// replay holds the experts that the rows of a packing have whatever their routers would choose. Sequences share the rows of
// a prefix only as far as its experts are the same.
type replay struct {
	routes  experience.Routes // zero if the routers choose
	experts []int32           // [rows, layers with experts, k]; an expert below 0 is none, and the router chooses
}

// checkReplay refuses replay for a model without routers.
func checkReplay(cfg *model.Config, opts *Options) error {
	if err := cfg.CheckRouter(); err != nil && opts.Replay {
		return fmt.Errorf("cpu: %s: %w", opts.ModelPath, err)
	}
	return nil
}

// checkExperts refuses experts of an experience that are not of the model.
func (r *replay) checkExperts(x *trinity.Experience) error {
	if r.routes.Layers == 0 || len(x.Experts) == 0 {
		return nil
	}
	if err := r.routes.Check(x.Experts, len(x.Tokens)); err != nil {
		return fmt.Errorf("cpu: experience %s: %w", x.ID, err)
	}
	return nil
}

// require refuses to train on an experience whose experts nobody has recorded.
func (r *replay) require(batch []*trinity.Experience) error {
	for _, x := range batch {
		if r.routes.Layers > 0 {
			if err := experience.RequireExperts(x); err != nil {
				return fmt.Errorf("cpu: %w", err)
			}
		}
	}
	return nil
}

// expertsOf returns the experts of the first tokens of an experience, nil if the routers choose.
func (r *replay) expertsOf(x *trinity.Experience, tokens int) []byte {
	if r.routes.Layers == 0 || len(x.Experts) == 0 {
		return nil
	}
	return x.Experts[:tokens*r.routes.Token()]
}

// compare orders stretches by their tokens, each token with its experts.
func (r *replay) compare(a, b *stretch) int {
	n, width := r.commonPrefix(a, b), r.routes.Token()
	if n == len(a.tokens) || n == len(b.tokens) {
		return cmp.Compare(len(a.tokens), len(b.tokens))
	}
	return cmp.Or(cmp.Compare(a.tokens[n], b.tokens[n]), bytes.Compare(a.expertsAt(n, width), b.expertsAt(n, width)))
}

// commonPrefix returns the number of first tokens that stretches have in common, with their experts.
func (r *replay) commonPrefix(a, b *stretch) int {
	n, width := experience.CommonPrefix(a.tokens, b.tokens), r.routes.Token()
	for i := range n {
		if a.experts == nil && b.experts == nil {
			return n
		}
		if !bytes.Equal(a.expertsAt(i, width), b.expertsAt(i, width)) {
			return i
		}
	}
	return n
}

// expertsAt returns the experts of token i, width bytes.
func (s *stretch) expertsAt(i, width int) []byte {
	if s.experts == nil {
		return nil
	}
	return s.experts[i*width:][:width]
}

// perRow returns how many experts a row has.
func (r *replay) perRow() int { return r.routes.Layers * r.routes.PerToken }

// addExperts adds the rows of tokens [from, to) of a stretch.
func (r *replay) addExperts(s *stretch, from, to int) {
	for i := from * r.perRow(); i < to*r.perRow(); i++ {
		expert := int32(-1)
		if s.experts != nil {
			expert = r.routes.At(s.experts, i)
		}
		r.experts = append(r.experts, expert)
	}
}

// moveExperts copies the experts of row from to row to.
func (r *replay) moveExperts(to, from int) {
	n := r.perRow()
	copy(r.experts[to*n:(to+1)*n], r.experts[from*n:(from+1)*n])
}

// has reports whether a row has experts.
func (r *replay) has(row int) bool { return r.perRow() > 0 && r.experts[row*r.perRow()] >= 0 }

// replayed returns the function that gives the rows of a layer their experts; nil if the router chooses for all.
func (p *packing) replayed(cfg *model.Config, layer int) func(row int) []int32 {
	if p.routes.Layers == 0 || !cfg.Sparse(layer) {
		return nil
	}
	number, k := experts.Number(cfg.Mixture.Layers, layer), p.routes.PerToken
	return func(row int) []int32 {
		if !p.has(row) {
			return nil
		}
		return p.experts[row*p.perRow()+number*k:][:k]
	}
}

// symbols numbers tokens with their experts, so that sequences of these numbers have a prefix in common where they share
// rows.
type symbols map[string]int32

// of returns the numbers of an experience's tokens, or the tokens if it has no experts.
func (s symbols) of(r *replay, x *trinity.Experience) []int32 {
	experts := r.expertsOf(x, len(x.Tokens)-1)
	if experts == nil {
		return x.Tokens
	}
	numbers, width := make([]int32, len(x.Tokens)), r.routes.Token()
	for i, token := range x.Tokens {
		key := binary.LittleEndian.AppendUint32(nil, uint32(token))
		if i < len(x.Tokens)-1 {
			key = append(key, experts[i*width:][:width]...)
		}
		n, known := s[string(key)]
		if !known {
			n = -1 - int32(len(s)) // no token
			s[string(key)] = n
		}
		numbers[i] = n
	}
	return numbers
}
