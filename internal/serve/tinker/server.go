// Package tinker serves training and sampling by the Tinker API, to clients such as its SDK.
package tinker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/model/constraint"
	"github.com/trinity-go/trinity/internal/serve/openai"
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
	Weights   string  // their fingerprint, which adapters record; "" if it is not known

	// Open opens a trainer of an adapter. An error that is no trinity.EngineError is the client's, such as a model that does not
	// fit in memory.
	Open func(ctx context.Context, lora *engine.LoRASpec, seed uint64) (engine.Trainer, error)
	// MicroTokens is how many tokens a trainer computes at once.
	MicroTokens int
	Sampler     Sampler
	OnServers   bool             // the sampler's: it takes no adapters of the output head, and scores no prompts
	Sequences   int              // that the sampler samples at once; 0 is usualSequences
	Text        trinity.Renderer // of chats; nil for a base that is asked for tokens alone
	// Constrain compiles the form that a chat asks of its replies; nil if it may not ask for one.
	Constrain func(constraint.Form) (trinity.Constraint, error)

	shelf shelf          // of the sampler's adapters
	queue *queue         // of the sampler, whose units are sequences
	words *openai.Server // nil without Text
}

// Sampler samples from a base, and from adapters that it loads.
type Sampler interface {
	trinity.Sampler
	engine.AdapterLoader
}

// Server answers the Tinker API. Its computations run while Run does.
type Server struct {
	Turns Turns // at jobs

	opts    Options
	all     catalog
	calls   readers
	tasks   chan func(context.Context)
	train   *queue // for what trains, or takes memory for it: one at a time
	decoder *zstd.Decoder
	keys    *keyring
	results *results

	waiting atomic.Int64            // bytes of the requests that are held
	resumed []func(context.Context) // the models that a service before this one has left

	mu       sync.Mutex
	lost     map[string]error // models that cannot be used
	sessions map[string]*session
	models   map[string]*model
	samplers map[string]*sampler
}

// Options are the options of New.
type Options struct {
	Dir   string // of checkpoints and journals; one process at a time uses it
	Bases []*Base
	Alpha int                       // lora_alpha of new adapters: it is not on the wire
	Gap   time.Duration             // for which a request waits for those before it
	Hold  time.Duration             // for which a client waits for a result until it must ask again
	Idle  time.Duration             // after which a model without requests leaves memory
	Token string                    // that clients send; "" asks for none
	Made  func(owner string) []Made // further models of a key that answer in words; nil for none
	Say   func(string)
}

// maxBody bounds the body of a request, before and after decompression, in bytes.
const maxBody = 256 << 20

// maxJSON bounds those that are JSON: in memory they are a multiple. Only passes are protobuf.
const maxJSON = 64 << 20

// maxAbout bounds what a client says of a session, a model or a checkpoint, in bytes, as lists show it.
const maxAbout = 64 << 10

// usualSequences is how many sequences a sampler samples at once unless its base says otherwise.
const usualSequences = 64

// New returns a server.
func New(o Options) (*Server, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxBody), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	s := &Server{
		opts: o, decoder: decoder, tasks: make(chan func(context.Context)), keys: &keyring{dir: o.Dir, token: o.Token, say: o.Say},
		lost: map[string]error{}, sessions: map[string]*session{}, models: map[string]*model{}, samplers: map[string]*sampler{},
		results: newResults(),
	}
	s.all = catalog{newStore(o.Dir, s.keys.limits), map[string]*Base{}}
	a := newAccount(func(key string) int64 { return s.keys.limits(key).TokensPerHour })
	slice := 0
	for _, b := range o.Bases {
		slice = max(slice, b.MicroTokens)
	}
	s.train, s.keys.account = newQueue(a, 1, slice), a
	s.Turns = Turns{newQueue(a, 1, slice), s.keys.limits}
	for _, b := range o.Bases {
		b.queue = newQueue(a, 2*cmp.Or(b.Sequences, usualSequences), slice) // some begin while others end
		b.shelf = shelf{loader: b.Sampler, stays: o.Idle, freed: make(chan struct{}), all: map[string]*adapter{}}
		s.all.bases[b.Name] = b
		s.Words().serve(b)
	}
	s.calls = readers{
		callPass: passCall, callStep: stepCall, callSave: s.saveCall, callLoad: s.all.loadCall, callRefuse: refusedCall,
	}
	return s, (&resuming{s}).run()
}

// Run computes what clients ask for until ctx ends, and closes all trainers.
func (s *Server) Run(ctx context.Context) error {
	var tasks sync.WaitGroup
	tasks.Go(func() { s.all.store.expire(time.Now(), s.opts.Say) })
	sweep := time.NewTicker(time.Minute)
	defer sweep.Stop()
	for _, task := range s.resumed {
		tasks.Go(func() { task(ctx) })
	}
	for ctx.Err() == nil {
		select {
		case task := <-s.tasks:
			tasks.Go(func() { task(ctx) })
		case now := <-sweep.C:
			tasks.Go(func() { // who starts a task may hold the mutex
				s.forget(now)
				s.all.store.expire(now, s.opts.Say)
				for _, b := range s.opts.Bases {
					b.shelf.sweep(ctx)
				}
			})
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
	after  time.Duration // when to ask again; 0 is soon
}

func (p *problem) Error() string { return p.text }

func bad(format string, args ...any) error {
	return &problem{status: http.StatusBadRequest, text: fmt.Sprintf(format, args...)}
}

func missing(format string, args ...any) error {
	return &problem{status: http.StatusNotFound, text: fmt.Sprintf(format, args...)}
}

// gone is about what was there.
func gone(format string, args ...any) error {
	return &problem{status: http.StatusGone, text: fmt.Sprintf(format, args...)}
}

// full is about a request that cannot be kept on the disk. The SDK sends it again, for 5 minutes.
func full(err error) error {
	return &problem{status: http.StatusServiceUnavailable, text: fmt.Sprintf("the request cannot be kept: %v", err)}
}

func isMissing(err error) bool {
	p := &problem{}
	return errors.As(err, &p) && p.status == http.StatusNotFound
}

// conflict is about a number or a name that stands for something else already.
func conflict(format string, args ...any) error {
	return &problem{status: http.StatusUnprocessableEntity, text: fmt.Sprintf(format, args...)}
}

// Handler returns the handler of the calls below /api/v1/, of /healthz and of /metrics.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	call := func(path string, do func(ctx context.Context, body []byte) (any, error)) {
		mux.HandleFunc("POST /api/v1/"+path, func(w http.ResponseWriter, r *http.Request) {
			limit := maxJSON
			if path == callPass {
				limit = maxBody
			}
			body, err := bodyOf(w, r, s.decoder, limit)
			var reply any
			if err == nil {
				reply, err = do(r.Context(), body)
			}
			answer(w, reply, err)
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
	for path, name := range map[string]string{
		"forward_backward": callPass, "optim_step": callStep,
		"save_weights": callSave, "save_weights_for_sampler": callSave, "save_weights_external": callSave,
	} {
		call(path, func(ctx context.Context, body []byte) (any, error) { return s.order(Owner(ctx), name, body) })
	}
	call("load_weights", s.loadWeights)
	call("create_sampling_session", s.createSampler)
	call("asample", s.sample)
	call("weights_info", s.all.weightsInfo)
	call("retrieve_future", s.retrieve)
	s.manage(mux)
	for path, tell := range map[string]func() any{
		"get_server_capabilities": func() any { return capabilities(s.opts.Bases) },
		"healthz":                 func() any { return map[string]string{"status": "ok"} },
	} {
		mux.HandleFunc("GET /api/v1/"+path, func(w http.ResponseWriter, _ *http.Request) { answer(w, tell(), nil) })
	}
	mux.HandleFunc("GET /metrics", (&usage{s}).metrics)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if methods := methodsOf(mux, r); methods != "" {
			w.Header().Set("Allow", methods)
			answer(w, nil, &problem{status: http.StatusMethodNotAllowed, text: fmt.Sprintf("%s takes %s, not %s", r.URL.Path, methods, r.Method)})
			return
		}
		answer(w, nil, missing("there is no call %s: docs/reference/tinker.md lists those of this version", r.URL.Path))
	})
	guarded := s.Guard(mux, func(w http.ResponseWriter, status int, err error) {
		answer(w, nil, &problem{status: status, text: err.Error()})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" { // of what starts services, which has no key
			answer(w, map[string]string{"status": "ok"}, nil)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// methodsOf returns the methods that a path has, "" for a path that is not there.
func methodsOf(mux *http.ServeMux, r *http.Request) string {
	var all []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := mux.Handler(other); pattern != "/" {
			all = append(all, method)
		}
	}
	return strings.Join(all, ", ")
}

// Guard lets clients pass whose key the service knows, and tells next who they are: [Owner]. refuse writes a refusal.
func (s *Server) Guard(next http.Handler, refuse func(w http.ResponseWriter, status int, err error)) http.Handler {
	return s.keys.guard(next, refuse)
}

// bodyOf returns the body of a request, decompressed, of limit bytes at most.
func bodyOf(w http.ResponseWriter, r *http.Request, decoder *zstd.Decoder, limit int) ([]byte, error) {
	body, status, err := web.Body(w, r, int64(limit))
	if err != nil {
		return nil, &problem{status: status, text: err.Error()}
	}
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
		return body, nil
	case "zstd":
		if body, err = decoder.DecodeAll(body, nil); err != nil {
			return nil, bad("the body is not zstd of at most %d MiB: %v", maxBody>>20, err)
		}
		if len(body) > limit {
			return nil, bad("the body has %d bytes without zstd: want %d MiB at most", len(body), limit>>20)
		}
		return body, nil
	default:
		return nil, bad("the body comes as %.40q: want zstd, or none", encoding)
	}
}

// answer writes an answer, or what is wrong.
func answer(w http.ResponseWriter, reply any, err error) {
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
		p := &problem{status: http.StatusInternalServerError, text: err.Error()}
		errors.As(err, &p)
		if p.after > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(p.after.Seconds())+1))
		}
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

func capabilities(bases []*Base) any {
	type supported struct {
		Name      string `json:"model_name"`
		MaxLength int    `json:"max_context_length"`
		Trainable bool   `json:"trainable"`
		Samples   bool   `json:"sampleable"`
	}
	all := []supported{}
	for _, b := range bases {
		all = append(all, supported{b.Name, b.MaxLen, true, true})
	}
	return map[string]any{"supported_models": all}
}
