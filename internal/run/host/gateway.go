package host

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/serve/gateway"
	"github.com/trinity-go/trinity/internal/serve/web"
)

// serving is the gateway of a stage while it serves.
type serving struct {
	*gateway.Gateway
	stop  context.CancelFunc
	ended chan error
}

// Close implements io.Closer.
func (g *serving) Close() error {
	g.stop()
	return <-g.ended
}

// Serve implements explorer.Host. The first rollout that needs it starts the gateway, which only this
// machine can reach.
func (h *Host) Serve(ctx context.Context, m *trinity.Model, o trinity.EndpointOptions) (trinity.Endpoint, error) {
	opened, err := h.Open("gateway", func(io.Writer) (io.Closer, error) { return h.startGateway() })
	if err != nil {
		return nil, fmt.Errorf("the gateway: %w", err)
	}
	return opened.(*serving).Open(ctx, m, o), nil
}

func (h *Host) startGateway() (*serving, error) {
	ctx, stop := context.WithCancel(context.Background()) // the stage closes the gateway after its last rollout
	listener, err := web.Listen(ctx, "127.0.0.1:0", "")
	if err != nil {
		stop()
		return nil, err
	}
	g := gateway.New("http://"+listener.Addr().String(), checkpoint.ModelName(h.stage.Model.ModelPath), h.stage.Text,
		h.stage.Text.Tokenizer().VocabSize(), h.say)
	server := &web.Server{Handler: g.Handler(), Read: time.Minute}
	out := &serving{g, stop, make(chan error, 1)}
	go func() { out.ended <- server.Serve(ctx, listener) }()
	return out, nil
}
