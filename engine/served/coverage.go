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

// coverage are the digests of a server that the run has started, before its first delivery. A delivery
// that fails may come after the reset, so those at the start are read once.
type coverage struct {
	started, reset map[string]string
}

// clear overwrites the weights of a server that gets its first version, so that the digests afterwards
// tell which tensors the delivery has replaced. It returns nil if that is not to be proven, or cannot be.
func (s *Sampler) clear(ctx context.Context, at *server) (*coverage, error) {
	r, ok := at.endpoint.(resetter)
	if s.own == nil || s.proving.Digests == 0 || s.adapter || at.covered || !ok {
		return nil, nil
	}
	if at.started == nil {
		started, err := s.digestsOf(ctx, at)
		if err != nil || started == nil {
			return nil, err
		}
		at.started = started
	}
	switch err := r.reset(ctx); statusOf(err) {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity:
		s.pool.say(at.name() + " cannot reset its weights: the digests do not prove that a delivery replaces all tensors")
		return nil, nil
	default:
		if err != nil {
			return nil, fmt.Errorf("resetting its weights: %w", err)
		}
	}
	reset, err := s.digestsOf(ctx, at)
	return &coverage{at.started, reset}, err
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

// end ends what clear began. A server proves it once.
func (c *coverage) end(ctx context.Context, s *Sampler, at *server, v version) error {
	if c == nil {
		return nil
	}
	now, err := s.digestsOf(ctx, at)
	if err != nil {
		return err
	}
	if err := c.prove(now, v.number == 0 && v.from == nil && keepsBits(v.dir, s.model)); err != nil {
		return err
	}
	at.covered = true
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
