package sampler

import (
	"slices"

	"github.com/trinity-go/trinity/engine/cpu/internal/experts"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/model"
)

// routes keeps the experts of each token at the token's slot in the pages, as attention keeps keys and values. So they are
// those that computed what the reply was drawn from, whether a prefix was shared, found again or computed twice. The zero
// value keeps none.
type routes struct {
	experience.Routes
	number  []int   // by layer: its number among those with experts
	experts []int32 // [tokens, layers with experts, k]
}

// routes takes the memory for the experts of the tokens in the cache.
func (t *taker) routes(cfg *model.Config, opts Options) routes {
	r := routes{Routes: cfg.Mixture.Routes(), number: make([]int, cfg.NumLayers)}
	for layer := range r.number {
		r.number[layer] = experts.Number(cfg.Mixture.Layers, layer)
	}
	r.experts = t.Int32(pagesFor(opts.MaxTokens) * pageTokens * r.perToken())
	return r
}

func (r *routes) perToken() int { return r.Layers * r.PerToken }

// keep stores the experts of a step's rows in a layer.
func (r *routes) keep(layer int, of *experts.Routing, slots []int32) {
	if r.number == nil {
		return
	}
	for row, slot := range slots {
		copy(r.experts[int(slot)*r.perToken()+r.number[layer]*r.PerToken:], of.Chosen(row))
	}
}

// copy copies the experts of the first tokens of a page to another.
func (r *routes) copy(dst, src int32, tokens int) {
	n := pageTokens * r.perToken()
	copy(r.experts[int(dst)*n:], r.experts[int(src)*n:][:tokens*r.perToken()])
}

// of returns the experts of all tokens of a sequence but the newest; nil if none are kept.
func (r *routes) of(q *sequence) []byte {
	if r.number == nil {
		return nil
	}
	c := &q.chain
	if q.prompt != nil { // its first token ends it
		c = &q.prompt.chain
	}
	var all []byte
	for i := range q.position() {
		for _, expert := range r.experts[int(c.slot(i))*r.perToken():][:r.perToken()] {
			all = r.Append(all, expert)
		}
	}
	known := q.request.experts
	copy(all, known[:min(len(all), len(known))]) // those of tokens that were computed again
	return slices.Clip(all)
}
