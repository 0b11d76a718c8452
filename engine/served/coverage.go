package served

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/model/safetensors"
)

// resetter is a digester whose server can overwrite its tensors.
type resetter interface {
	digester
	// reset overwrites all tensors of which the server has digests. The error of a server that cannot has
	// status 400, 404 or 422.
	reset(ctx context.Context) error
}

// digestState is what a server has told by its digests. One load at a time reads and writes it.
type digestState struct {
	mute    bool              // people know that it tells no digests
	started map[string]string // its digests before its first delivery; nil before they are read
	covered bool              // it has proven that a delivery replaces all tensors with digests
}

// coverage are the digests of a server that the run has started, before its first delivery. A delivery
// that fails may come after the reset, so those at the start are read once.
type coverage struct {
	started, reset map[string]string
}

// clear overwrites the weights of a server that gets its first version, so that the digests afterwards
// tell which tensors the delivery has replaced. It returns nil if that is not to be proven, or cannot be.
func (p *proofs) clear(ctx context.Context, s *server) (*coverage, error) {
	r, ok := s.endpoint.(resetter)
	if p.servers.own == nil || p.proving.Digests == 0 || p.servers.adapter || s.covered || !ok {
		return nil, nil
	}
	if s.started == nil {
		started, err := p.digestsOf(ctx, s)
		if err != nil || started == nil {
			return nil, err
		}
		s.started = started
	}
	switch err := r.reset(ctx); statusOf(err) {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity:
		p.servers.say(s.name() + " cannot reset its weights: the digests do not prove that a delivery replaces all tensors")
		return nil, nil
	default:
		if err != nil {
			return nil, fmt.Errorf("resetting its weights: %w", err)
		}
	}
	reset, err := p.digestsOf(ctx, s)
	return &coverage{s.started, reset}, err
}

// prove returns an error unless the version that a server has loaded since is all that it has. The first
// version must have the digests of the model with which the server was started, unless its files round
// that.
func (c *coverage) prove(now map[string]string, first bool) error {
	reset := false
	for _, name := range slices.Sorted(maps.Keys(now)) {
		switch before, ok := c.started[name]; {
		case isOfNothing(now[name]):
			continue
		case !ok:
			return fmt.Errorf("digests: it had no tensor %s before the delivery", name)
		case before == c.reset[name]: // it was zero
			continue
		case now[name] == c.reset[name]:
			return fmt.Errorf("digests: the delivery has not replaced tensor %s", name)
		case first && now[name] != before:
			return fmt.Errorf("digests: tensor %s is not that of the model with which it was started", name)
		}
		reset = true
	}
	if covered := len(c.started) - nothings(c.started); covered > 0 && !reset {
		return fmt.Errorf("digests: a reset of its weights has changed none of its %d digests", covered)
	}
	return nil
}

// covers ends what clear began. A server proves it once.
func (p *proofs) covers(ctx context.Context, c *coverage, s *server, v version) error {
	if c == nil {
		return nil
	}
	now, err := p.digestsOf(ctx, s)
	if err != nil {
		return err
	}
	if err := c.prove(now, v.number == 0 && v.from == nil && keepsBits(v.dir, p.model)); err != nil {
		return err
	}
	s.covered = true
	return nil
}

// keepsBits reports whether the tensors in a directory have the numbers of a model's, as far as their
// types tell.
func keepsBits(dir, model string) bool {
	of, err := safetensors.OpenDir(dir)
	if err != nil {
		return false
	}
	defer of.Close()
	from, err := safetensors.OpenDir(model)
	if err != nil {
		return false
	}
	defer from.Close()
	for _, name := range of.Names() {
		got, _ := of.Tensor(name)
		if had, ok := from.Tensor(name); ok && got.DType != had.DType && got.DType != safetensors.F32 {
			return false
		}
	}
	return true
}

// isOfNothing reports whether a digest is that of no bytes: the server keeps the tensor in another form.
func isOfNothing(digest string) bool { return strings.HasPrefix(digest, ofNothing) }

func nothings(digests map[string]string) (n int) {
	for _, d := range digests {
		if isOfNothing(d) {
			n++
		}
	}
	return n
}
