package tinker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
	wire "github.com/trinity-go/trinity/internal/wire/tinker"
)

// Words answers requests in words, such as chats, with bases and with checkpoints by their paths.
type Words struct{ server *Server }

// Made is an adapter that a client has made by other means than the Tinker API. Its directory does not change.
type Made struct {
	Name, Base, Dir string
	Created         int64 // seconds since 1970
}

// WordsTime bounds a request in words: the wait for its turn, and its reply.
const WordsTime = 30 * time.Minute

// maxAsking bounds the requests in words of a base that are in flight. Those of a key are bounded by what waits for the sampler.
const maxAsking = 1 << 16

// Words returns what answers requests in words.
func (s *Server) Words() *Words { return &Words{s} }

// serve makes the server of a base that has a renderer.
func (w *Words) serve(b *Base) {
	if b.Text == nil {
		return
	}
	s := w.server
	b.words = &openai.Server{
		Name: b.Name, Renderer: b.Text, VocabSize: b.Vocab, Timeout: WordsTime, Waiting: maxAsking, Say: s.opts.Say,
		Model: func(r *http.Request, _ []byte, name string) (openai.Model, error) {
			x := &asked{server: s, owner: Owner(r.Context()), base: b, name: b.Name}
			if name != "" && name != b.Name {
				x.name = name
				if err := w.find(x); err != nil {
					return nil, err
				}
			}
			return &openai.Served{
				Name: x.name, Sampler: x, Renderer: b.Text, MaxLen: b.MaxLen,
				Params: trinity.SamplingParams{Temperature: 1, Untrained: true}, Constrain: b.Constrain,
			}, nil
		},
	}
}

// Servers returns the servers of all bases that can be asked in words.
func (w *Words) Servers() (all []*openai.Server) {
	for _, b := range w.server.opts.Bases {
		if b.words != nil {
			all = append(all, b.words)
		}
	}
	return all
}

// find finds the checkpoint, or the model that somebody has made, that a request names.
func (w *Words) find(x *asked) error {
	if strings.HasPrefix(x.name, wire.Scheme) {
		c, err := w.server.all.store.readable(x.owner, x.name)
		if err != nil {
			return inWords(err)
		}
		x.path, x.of = x.name, c.BaseModel
		return nil
	}
	if w.server.opts.Made != nil {
		for _, m := range w.server.opts.Made(x.owner) {
			if m.Name == x.name {
				x.made, x.of = &m, m.Base
				return nil
			}
		}
	}
	return notServed("the model %.200q is not served here: ask for %s, or for a checkpoint by its path, %sRUN/%s/NAME; "+
		"GET /v1/models lists all, also those that fine-tuning jobs have made",
		x.name, strings.Join(slices.Sorted(maps.Keys(w.server.all.bases)), ", "), wire.Scheme, wire.SamplerWeights)
}

// Of returns the server of the base that a request names, or of the base of the adapter that it names.
func (w *Words) Of(r *http.Request, name string) (*openai.Server, error) {
	s := w.server
	if name == "" && len(s.opts.Bases) == 1 {
		name = s.opts.Bases[0].Name
	}
	if s.all.bases[name] == nil {
		x := &asked{owner: Owner(r.Context()), name: name}
		if err := w.find(x); err != nil {
			return nil, err
		}
		name = x.of
	}
	switch b := s.all.bases[name]; {
	case b == nil:
		return nil, notServed("the base %.200q of the model is not served here: start the service with it as a --model", name)
	case b.words == nil:
		return nil, notServed("the model %.200q has no tokenizer here: it answers tokens alone, over the Tinker API", name)
	default:
		return b.words, nil
	}
}

// Names returns the bases, and the checkpoints of the client of a request.
func (w *Words) Names(r *http.Request) (names []string) {
	for _, api := range w.Servers() {
		names = append(names, api.Name)
	}
	answers := func(base string) bool {
		b := w.server.all.bases[base]
		return b != nil && b.words != nil
	}
	for _, c := range w.server.all.store.named(Owner(r.Context()), false) {
		if answers(c.BaseModel) {
			names = append(names, c.path.String())
		}
	}
	if made := w.server.opts.Made; made != nil {
		for _, m := range made(Owner(r.Context())) {
			if answers(m.Base) {
				names = append(names, m.Name)
			}
		}
	}
	return names
}

// Owner returns the name of the key of a request.
func (w *Words) Owner(r *http.Request) string { return Owner(r.Context()) }

func notServed(format string, args ...any) *openai.Problem {
	return &openai.Problem{
		Status: http.StatusNotFound, Code: "model_not_found", Param: "model", Message: fmt.Sprintf(format, args...),
	}
}

// inWords returns an error as requests in words get it.
func inWords(err error) error {
	p := &problem{}
	if !errors.As(err, &p) {
		return err
	}
	switch p.status {
	case http.StatusTooManyRequests:
		return &openai.Problem{Status: p.status, Code: "rate_limit_exceeded", Message: p.text, After: p.after}
	case http.StatusNotFound:
		return notServed("%s", p.text)
	case http.StatusServiceUnavailable:
		return &openai.Problem{Status: p.status, Message: p.text}
	case http.StatusGone:
		return &openai.Problem{Status: http.StatusServiceUnavailable, Message: "the checkpoint was overwritten in the meantime: ask again"}
	}
	return &openai.Problem{Status: p.status, Code: "invalid_value", Param: "model", Message: p.text}
}

// Asker returns a model that is asked in words for a key, whose account pays. used is called with the tokens of each question
// and its answer.
func (w *Words) Asker(owner, name string, used func(tokens int)) (trinity.Asker, error) {
	x := &asked{server: w.server, owner: owner, name: name, of: name}
	if w.server.all.bases[name] == nil {
		if err := w.find(x); err != nil {
			return nil, err
		}
	}
	b := w.server.all.bases[x.of]
	if b == nil || b.Text == nil {
		return nil, notServed("the model %.200q cannot be asked in words here: it has no base, or no tokenizer", name)
	}
	x.base = b
	m := &trinity.Model{
		Sampler: metered{x, used}, Renderer: b.Text, MaxModelLen: b.MaxLen, Params: trinity.SamplingParams{Temperature: 1, Untrained: true},
	}
	return m.Asker(name), nil
}

// metered tells how many tokens it reads and samples.
type metered struct {
	trinity.Sampler
	used func(tokens int)
}

// Sample implements [trinity.Sampler].
func (c metered) Sample(ctx context.Context, prompt trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	out, err := c.Sampler.Sample(ctx, prompt, p)
	for _, reply := range out {
		c.used(len(prompt.Tokens) + len(reply.Tokens))
	}
	return out, err
}

// asked samples for a request in words, which has no session.
type asked struct {
	server *Server
	owner  string
	base   *Base
	name   string // as the client calls the model
	of     string // the base of the adapter
	path   string // of the checkpoint; "" for the base
	made   *Made  // in place of both; nil for none
}

// sampler returns what samples.
func (q *asked) sampler() (*sampler, error) {
	if m := q.made; m != nil {
		a := q.base.shelf.put(fmt.Sprintf("%s#%d", m.Name, m.Created), m.Dir, wire.Path{})
		return &sampler{id: q.name, owner: q.owner, base: q.base, adapter: a}, nil
	}
	baseModel := ""
	if q.path == "" {
		baseModel = q.base.Name
	}
	return q.server.all.samplerFor(q.owner, q.name, baseModel, q.path)
}

// Sample implements [trinity.Sampler]. The service waits for it at its end.
func (q *asked) Sample(ctx context.Context, prompt trinity.Prompt, p trinity.SamplingParams) (out []trinity.Completion, err error) {
	done := make(chan struct{})
	begun := q.server.start(ctx, func(serving context.Context) {
		defer close(done)
		both, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(serving, func() { cancel(errStops) })()
		if out, err = q.sample(both, prompt, p); err != nil && serving.Err() != nil {
			err = &problem{status: http.StatusServiceUnavailable, text: errStops.Error()}
		}
	})
	if begun != nil {
		return nil, begun
	}
	<-done
	return out, inWords(err)
}

func (q *asked) sample(ctx context.Context, prompt trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	x, err := q.sampler()
	if err != nil {
		return nil, err
	}
	defer x.close()
	if err := x.hasRoom(max(1, p.N)); err != nil {
		return nil, err
	}
	out, err := x.draw(ctx, prompt, p)
	for i := range out {
		out[i].Versions = [2]int64{} // those of the shelf say when an adapter was loaded
	}
	return out, err
}

// draw samples in turn with others. A reply that a client does not wait for counts as far as it has come.
func (x *sampler) draw(ctx context.Context, prompt trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	t, err := x.base.queue.enter(ctx, x.owner, x.id, max(1, p.N))
	if err != nil {
		return nil, err
	}
	defer t.leave()
	t.compute(readTokens, len(prompt.Tokens))
	name, leave, err := x.base.shelf.use(ctx, x.adapter)
	if err != nil {
		return nil, err
	}
	defer leave()
	p.Adapter = name
	var sent atomic.Int64
	p.AddOnSampled(func(int, trinity.Sampled) { sent.Add(1) })
	out, err := x.base.Sampler.Sample(ctx, prompt, p)
	if err != nil {
		t.compute(sampledTokens, int(sent.Load()))
		return nil, err
	}
	for _, c := range out {
		t.compute(sampledTokens, len(c.Tokens))
	}
	return out, nil
}
