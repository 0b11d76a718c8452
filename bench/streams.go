package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/gateway"
	"github.com/trinity-go/trinity/internal/serve/web"
	"github.com/trinity-go/trinity/trinitytest"
)

// What each stream of a server gets. All streams of a run are open before the first token.
const (
	streamCount  = 10_000
	streamTokens = 8
	streamPace   = time.Second // between two tokens of a stream
	spareFiles   = 100         // that a process opens besides its connections
)

// gatewayStreams is the gateway with a rollout for each stream. Its clients are another process.
type gatewayStreams struct {
	gateway *gateway.Gateway
	policy  *stamper
	streams int
}

func newGatewayStreams(a *assignment) (task, error) {
	if err := checkFiles(a.Batch); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &gatewayStreams{policy: &stamper{newBarrier(a.Batch)}, streams: a.Batch}
	s.gateway = gateway.New("http://"+listener.Addr().String(), "m", stamps{}, 1<<31-1, nil)
	server := &web.Server{Handler: s.gateway.Handler(), Read: time.Minute}
	go server.Serve(context.Background(), listener) // ends with the process
	return s, nil
}

// checkFiles returns an error if a process may not open as many connections.
func checkFiles(streams int) error {
	if most := openFiles(); most > 0 && most < uint64(streams+spareFiles) {
		return fmt.Errorf("%d streams need %d open files in a process, and the limit is %d: raise it with ulimit -n",
			streams, streams+spareFiles, most)
	}
	return nil
}

// run returns the milliseconds between the sampler's token and its arrival at the client, of which 1 %
// of all tokens take longer.
func (s *gatewayStreams) run(int) (sample, error) {
	endpoints, load := make([]trinity.Endpoint, s.streams), clients{}
	for i := range endpoints {
		m := &trinity.Model{
			Sampler: s.policy, Renderer: stamps{}, MaxModelLen: 8192, ID: trinity.ExperienceID{Task: "t", Run: i},
			Params: trinity.SamplingParams{Temperature: 1, Seed: uint64(i)},
		}
		endpoints[i] = s.gateway.Open(context.Background(), m, trinity.EndpointOptions{})
		load.URLs = append(load.URLs, endpoints[i].URL())
	}
	out, err := load.start()
	if err != nil {
		return out, err
	}
	for _, e := range endpoints {
		r, err := e.Close()
		if err != nil {
			return out, err
		}
		if len(r.Experiences) != 1 || r.Experiences[0].TrainedTokens() != streamTokens+1 {
			return out, fmt.Errorf("the gateway recorded %d experiences of a stream", len(r.Experiences))
		}
	}
	return out, nil
}

// start runs the clients in a process of their own.
func (c *clients) start() (s sample, err error) {
	program, err := os.Executable()
	if err != nil {
		return s, err
	}
	data, err := json.Marshal(c)
	if err != nil {
		return s, err
	}
	cmd := exec.Command(program, "load")
	cmd.Stdin, cmd.Stderr = strings.NewReader(string(data)), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return s, fmt.Errorf("the clients: %w", err)
	}
	return s, json.Unmarshal(out, &s)
}

// barrier lets its callers go on when there are n of them, again and again.
type barrier struct {
	n    int
	mu   sync.Mutex
	here int
	all  chan struct{}
}

func newBarrier(n int) *barrier { return &barrier{n: n, all: make(chan struct{})} }

func (b *barrier) wait(ctx context.Context) error {
	b.mu.Lock()
	all := b.all
	if b.here++; b.here == b.n {
		close(all)
		b.here, b.all = 0, make(chan struct{})
	}
	b.mu.Unlock()
	return pass(ctx, all)
}

// pass waits for a channel.
func pass[T any](ctx context.Context, c <-chan T) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A stamp is a token whose text is the time when it was sampled, in microseconds. It is above all
// bytes, and begins anew after 18 minutes.
const stampBit = 1 << 30

func stampNow() int32 { return int32(time.Now().UnixMicro()&(stampBit-1) | stampBit) }

// age returns the time since a stamp.
func age(stamp int32) time.Duration {
	return time.Duration((stampNow()-stamp)&(stampBit-1)) * time.Microsecond
}

// stamper is a sampler whose tokens are stamps.
type stamper struct{ *barrier }

// Sample implements [trinity.Sampler]. When it begins to write follows from the seed.
func (s *stamper) Sample(ctx context.Context, _ trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	late := rand.New(rand.NewPCG(p.Seed, 0)).Int64N(int64(streamPace))
	if err := pass(ctx, time.After(time.Duration(late))); err != nil {
		return nil, err
	}
	ticks := time.NewTicker(streamPace)
	defer ticks.Stop()
	c := trinity.Completion{FinishReason: "stop", Logprobs: make([]float32, streamTokens+1)}
	for range streamTokens {
		stamp := stampNow()
		c.Tokens = append(c.Tokens, stamp)
		p.OnToken(0, trinity.Sampled{Token: stamp})
		if err := pass(ctx, ticks.C); err != nil {
			return nil, err
		}
	}
	c.Tokens = append(c.Tokens, trinitytest.ChatEnd)
	return []trinity.Completion{c}, nil
}

// stamps is a renderer of bytes and stamps.
type stamps struct{ trinitytest.Chat }

// Decode implements [trinity.Renderer].
func (stamps) Decode(tokens []int32) string {
	var b strings.Builder
	for _, t := range tokens {
		if t >= stampBit {
			fmt.Fprintf(&b, "%d ", t)
		}
	}
	return b.String()
}

// Read implements [trinity.Renderer].
func (s stamps) Read(tokens []int32, _ json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	return s.ReadText(tokens), nil, nil
}

// ReadText implements [trinity.Renderer].
func (s stamps) ReadText(tokens []int32) trinity.Message {
	return trinity.Message{Role: "assistant", Content: s.Decode(tokens)}
}

// Settled implements [trinity.Renderer].
func (s stamps) Settled(tokens []int32, _ json.RawMessage) trinity.Message { return s.ReadText(tokens) }
