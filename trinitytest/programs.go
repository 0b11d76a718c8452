package trinitytest

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/trinity-go/trinity"
)

// Programs returns a host that offers plug-ins Open and Say alone. The end of the test closes what
// they opened; what programs write and plug-ins say goes to the test's log.
func Programs(t *testing.T) trinity.Host {
	h := &programs{t: t, byKey: map[string]io.Closer{}}
	t.Cleanup(func() {
		for _, c := range slices.Backward(h.all) {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return h
}

type programs struct {
	trinity.Host
	t *testing.T

	mu    sync.Mutex
	byKey map[string]io.Closer
	all   []io.Closer
}

// Open implements [trinity.Host].
func (p *programs) Open(key string, open func(io.Writer) (io.Closer, error)) (io.Closer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.byKey[key]; known != nil {
		return known, nil
	}
	opened, err := open(p.t.Output())
	if err != nil {
		return nil, err
	}
	p.byKey[key], p.all = opened, append(p.all, opened)
	return opened, nil
}

// Wait implements [trinity.Host].
func (*programs) Wait(ctx context.Context, until func(context.Context) error) error {
	return until(ctx)
}

// Say implements [trinity.Host].
func (p *programs) Say(line string) { p.t.Log(line) }
