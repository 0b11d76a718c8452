// Package tinker serves training and sampling by the Tinker API, to clients such as its SDK.
package tinker

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/serve/web"
	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// Base is a model whose adapters clients train and sample.
type Base struct {
	Name      string // as clients call it
	Tokenizer string // what clients open as its tokenizer
	Arch      string
	Vocab     int     // tokens that may stand in a sequence: ids below
	MaxLen    int     // tokens of a sequence
	MaxScored int     // tokens of a sequence of which log-probabilities are asked
	MaxRank   int     // of an adapter
	EOS       []int32 // the tokens that end a reply of the model

	// Open opens a trainer of an adapter.
	Open func(ctx context.Context, lora *engine.LoRASpec, seed uint64) (engine.Trainer, error)
	// MicroTokens is how many tokens a trainer computes at once.
	MicroTokens int
	Sampler     Sampler

	shelf shelf // of the sampler's adapters
}

// Sampler samples from a base, and from adapters that it loads.
type Sampler interface {
	trinity.Sampler
	engine.AdapterLoader
}

// Server answers the Tinker API. Its computations run while Run does.
type Server struct {
	opts    Options
	store   store
	bases   map[string]*Base
	tasks   chan func(context.Context)
	compute chan struct{} // an element while something is trained
	decoder *zstd.Decoder

	mu       sync.Mutex
	sessions map[string]*session
	models   map[string]*model
	samplers map[string]*sampler
	futures  map[string]*future
}

// Options are the options of New.
type Options struct {
	Dir   string // of checkpoints
	Bases []*Base
	Alpha int           // lora_alpha of new adapters: it is not on the wire
	Gap   time.Duration // for which a request waits for those before it
	Hold  time.Duration // for which a client waits for a result until it must ask again
	Token string        // that clients send; "" asks for none
	Say   func(string)
}

// maxBody bounds the body of a request, before and after decompression, in bytes.
const maxBody = 256 << 20

// New returns a server.
func New(o Options) (*Server, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxBody), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	s := &Server{
		opts: o, store: store(o.Dir), bases: map[string]*Base{}, decoder: decoder,
		tasks: make(chan func(context.Context)), compute: make(chan struct{}, 1),
		sessions: map[string]*session{}, models: map[string]*model{}, samplers: map[string]*sampler{}, futures: map[string]*future{},
	}
	for _, b := range o.Bases {
		b.shelf = shelf{loader: b.Sampler, freed: make(chan struct{}), all: map[string]*adapter{}}
		s.bases[b.Name] = b
	}
	return s, nil
}

// Run computes what clients ask for until ctx ends, and closes all trainers.
func (s *Server) Run(ctx context.Context) error {
	var tasks sync.WaitGroup
	sweep := time.NewTicker(time.Minute)
	defer sweep.Stop()
	for ctx.Err() == nil {
		select {
		case task := <-s.tasks:
			tasks.Go(func() { task(ctx) })
		case now := <-sweep.C:
			tasks.Go(func() { s.forget(now) }) // who starts a task may hold the mutex
		case <-ctx.Done():
		}
	}
	tasks.Wait() // models close their trainers
	return nil
}

// start runs a task beside the others.
func (s *Server) start(ctx context.Context, task func(context.Context)) error {
	select {
	case s.tasks <- task:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// problem is an answer that tells what is wrong. Status 409 would make the SDK try again.
type problem struct {
	status int
	text   string
}

func (p *problem) Error() string { return p.text }

func bad(format string, args ...any) error {
	return &problem{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

func missing(format string, args ...any) error {
	return &problem{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

// gone is about what was there.
func gone(format string, args ...any) error {
	return &problem{http.StatusGone, fmt.Sprintf(format, args...)}
}

// conflict is about a number or a name that stands for something else already.
func conflict(format string, args ...any) error {
	return &problem{http.StatusUnprocessableEntity, fmt.Sprintf(format, args...)}
}

// Handler returns the handler of all calls, below /api/v1/.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	call := func(path string, answer func(ctx context.Context, body []byte) (any, error)) {
		mux.HandleFunc("POST /api/v1/"+path, func(w http.ResponseWriter, r *http.Request) {
			body, err := s.body(w, r)
			var reply any
			if err == nil {
				reply, err = answer(r.Context(), body)
			}
			s.reply(w, reply, err)
		})
	}
	call("client/config", fixed(map[string]any{ // SDK 0.22 to 0.24 need the first two; the last is for runs of this program
		"proto_write_fwdbwd": true, "fwd_via_fwdbwd": true, "seed_bits": 64,
	}))
	call("client/dynamic_config", fixed(struct{}{}))
	call("session_heartbeat", s.heartbeat)
	call("telemetry", fixed(map[string]string{"status": "accepted"}))
	call("create_session", s.createSession)
	call("create_model", s.createModel)
	call("get_info", s.getInfo)
	call("forward_backward", s.forwardBackward)
	call("optim_step", s.optimStep)
	call("save_weights", s.saveWeights)
	call("save_weights_for_sampler", s.saveWeights)
	call("save_weights_external", s.saveWeights)
	call("load_weights", s.loadWeights)
	call("create_sampling_session", s.createSampler)
	call("asample", s.sample)
	call("weights_info", s.weightsInfo)
	call("retrieve_future", s.retrieve)
	mux.HandleFunc("POST /api/v1/sessions/{id}/finish", func(w http.ResponseWriter, r *http.Request) {
		s.finish(r.PathValue("id"))
		s.reply(w, struct{}{}, nil)
	})
	mux.HandleFunc("GET /api/v1/samplers/{id}", func(w http.ResponseWriter, r *http.Request) {
		reply, err := s.samplerInfo(r.PathValue("id"))
		s.reply(w, reply, err)
	})
	for path, answer := range map[string]func() any{
		"get_server_capabilities": s.capabilities, "healthz": func() any { return map[string]string{"status": "ok"} },
	} {
		mux.HandleFunc("GET /api/v1/"+path, func(w http.ResponseWriter, _ *http.Request) { s.reply(w, answer(), nil) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.reply(w, nil, missing("%s %s is not in this version: docs/guide/tinker.md says what is", r.Method, r.URL.Path))
	})
	guarded := web.Guard(mux, s.opts.Token, func(w http.ResponseWriter, status int, err error) {
		s.reply(w, nil, &problem{status, err.Error()})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.opts.Token != "" && !s.isKnown(r) {
			s.reply(w, nil, &problem{http.StatusUnauthorized, "the key is unknown: set TINKER_API_KEY to that of the service"})
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// isKnown reports whether a request has the token, as X-API-Key or as Bearer. It compares hashes in constant time.
func (s *Server) isKnown(r *http.Request) bool {
	got, want := sha256.Sum256([]byte(r.Header.Get("X-API-Key"))), sha256.Sum256([]byte(s.opts.Token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 || web.Authorized(r, s.opts.Token)
}

// body returns the body of a request, decompressed.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, status, err := web.Body(w, r, maxBody)
	if err != nil {
		return nil, &problem{status, err.Error()}
	}
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
		return body, nil
	case "zstd":
		if body, err = s.decoder.DecodeAll(body, nil); err != nil {
			return nil, bad("the body is not zstd of at most %d MiB: %v", maxBody>>20, err)
		}
		return body, nil
	default:
		return nil, bad("the body comes as %.40q: want zstd, or none", encoding)
	}
}

// reply writes an answer, or what is wrong.
func (s *Server) reply(w http.ResponseWriter, reply any, err error) {
	if message, ok := reply.(encoded); ok && err == nil {
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(message) // a client that has gone asks again
		return
	}
	status := http.StatusOK
	if again, ok := reply.(*tinker.TryAgain); ok && again != nil {
		status = http.StatusRequestTimeout
	}
	if err != nil {
		p := &problem{http.StatusInternalServerError, err.Error()}
		errors.As(err, &p)
		status, reply = p.status, map[string]string{"detail": p.text}
	}
	_ = web.WriteJSON(w, status, reply)
}

// encoded is an answer in protobuf.
type encoded []byte

// fixed answers each call alike.
func fixed(reply any) func(context.Context, []byte) (any, error) {
	return func(context.Context, []byte) (any, error) { return reply, nil }
}

// read decodes the body of a call in JSON.
func read(body []byte, into any) error {
	if err := tinker.Decode(body, into); err != nil {
		return bad("the body: %v", err)
	}
	return nil
}

func (s *Server) capabilities() any {
	type supported struct {
		Name      string `json:"model_name"`
		MaxLength int    `json:"max_context_length"`
		Trainable bool   `json:"trainable"`
		Samples   bool   `json:"sampleable"`
	}
	all := []supported{}
	for _, b := range s.opts.Bases {
		all = append(all, supported{b.Name, b.MaxLen, true, true})
	}
	return map[string]any{"supported_models": all}
}
