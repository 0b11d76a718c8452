// Package gateway gives each rollout an endpoint at which a program in any language calls the
// rollout's model over the OpenAI API. The ids of what the policy wrote are kept and never made
// again from text: a chat that comes back continues the tokens that were sampled for it.
package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/internal/serve/web"
)

// Gateway serves the endpoints of all rollouts in flight.
type Gateway struct {
	api   *openai.Server
	root  string // URL of the server
	token string // that protects the server; "" if only this machine can reach it
	// revive returns the session of a key that is not open, nil if there is none. It may be nil.
	revive func(of digest, key string) (*session, error)

	mu    sync.Mutex
	open  map[digest]*session
	ended map[digest]bool // of the newest endpoints that have ended, to tell them from wrong keys
	order []digest        // of ended, the oldest first
}

// digest is the SHA-256 hash of a key, a chat or a request. Looking a key up by its hash takes a time
// that tells nothing about the keys.
type digest [sha256.Size]byte

const (
	maxEnded   = 100_000 // ended keys that the gateway remembers
	maxWaiting = 1 << 16 // requests in flight
	// longest bounds a request. The rollout's deadline, which stands still while a call waits for the
	// sampler, ends it before.
	longest = 24 * time.Hour
)

// New returns a gateway whose server has a URL such as http://127.0.0.1:1234. renderer is the
// policy's, and vocabulary is the number of its token ids.
func New(root, name string, renderer trinity.Renderer, vocabulary int, say func(string)) *Gateway {
	g := &Gateway{root: root, open: map[digest]*session{}, ended: map[digest]bool{}}
	g.api = &openai.Server{
		Name: name, Model: modelOf, Renderer: renderer, VocabSize: vocabulary, Timeout: longest, Waiting: maxWaiting, Say: say,
	}
	return g
}

// Open opens an endpoint for the model of a rollout, until ctx ends or the endpoint is closed.
func (g *Gateway) Open(ctx context.Context, m *trinity.Model, o trinity.EndpointOptions) trinity.Endpoint {
	s := g.session(ctx, newKey(), m, o)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[digestOf(s.key)] = s
	return s
}

// keyPrefix begins every key.
const keyPrefix = "tr-"

func newKey() string { return keyPrefix + rand.Text() }

func digestOf(key string) digest { return sha256.Sum256([]byte(key)) }

// session makes a session, which ends with ctx.
func (g *Gateway) session(ctx context.Context, key string, m *trinity.Model, o trinity.EndpointOptions) *session {
	ctx, cancel := context.WithCancelCause(ctx)
	if m.Ended == nil { // the model of real traffic, which is this session's alone
		m.Ended = ctx.Done()
	}
	s := &session{
		model: m, options: o, url: g.root + "/r/" + key + "/v1", key: key, cancel: cancel,
		chats: map[digest]*node{}, answers: map[digest]*answer{},
	}
	s.within = func(request context.Context) (context.Context, context.CancelFunc) {
		both, enough := context.WithCancelCause(ctx) // of the rollout: it carries the rollout's deadline
		stop := context.AfterFunc(request, func() { enough(context.Cause(request)) })
		return both, func() { stop(); enough(nil) }
	}
	s.forget = func() { g.forget(s) }
	context.AfterFunc(ctx, s.forget)
	return s
}

// drop closes an open session whose key stays valid: the next request revives it. A request that found
// the session just before is refused, and its client repeats it.
func (g *Gateway) drop(s *session) {
	g.mu.Lock()
	delete(g.open, digestOf(s.key))
	g.mu.Unlock()
	s.cancel(errDropped)
}

// forget ends the key of a session, unless the session was dropped: another one may bear the key by now.
func (g *Gateway) forget(s *session) {
	key := digestOf(s.key)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[key] != s {
		return
	}
	delete(g.open, key)
	g.ended[key] = true
	if g.order = append(g.order, key); len(g.order) > maxEnded {
		delete(g.ended, g.order[0])
		g.order = g.order[1:]
	}
}

// find returns the session of a key.
func (g *Gateway) find(key string) (*session, error) {
	of := digestOf(key)
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.open[of]; s != nil {
		return s, nil
	}
	if g.ended[of] {
		return nil, errEnded
	}
	if g.revive != nil {
		s, err := g.revive(of, key)
		if err != nil {
			return nil, err
		}
		if s != nil {
			g.open[of] = s
			return s, nil
		}
	}
	return nil, &openai.Problem{Status: http.StatusUnauthorized, Code: "invalid_api_key", Message: "no rollout has this API key"}
}

var errEnded = &openai.Problem{
	Status: http.StatusConflict, Code: "rollout_ended", Message: "the rollout of this key has ended", Final: true,
}

var errDropped = &openai.Problem{
	Status: http.StatusServiceUnavailable, Code: "session_closed", Message: "the server has just closed the idle session: ask again",
}

type sessionKey struct{}

// Handler returns the handler of all endpoints: the OpenAI API, Anthropic's Messages API and, below
// /v1, reward, experiences, sequence, logprobs, fail, commit and rollout.
func (g *Gateway) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", g.api.Endpoints())
	mux.HandleFunc("GET /v1/models", g.listModels)
	(&dialects{g.api, func(r *http.Request) keeper {
		s, _ := r.Context().Value(sessionKey{}).(*session)
		return &s.responses
	}}).handle(mux)
	for pattern, act := range map[string]func(*session, []byte) (any, error){
		"POST /v1/reward": (*session).takeReward,
		"POST /v1/fail":   (*session).takeFailure,
		"POST /v1/commit": (*session).takeCommit,
		"GET /v1/rollout": (*session).describe,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { control(w, r, maxControl, act) })
	}
	mux.HandleFunc("POST /v1/logprobs", g.scoreTokens)
	mux.HandleFunc("POST /v1/score", askReward)
	for pattern, act := range map[string]func(*session, []byte) (any, error){
		"POST /v1/experiences": (*session).takeExperiences, // with numbers by the token
		"POST /v1/sequence":    (*session).showSequence,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { control(w, r, maxMessages, act) })
	}
	return web.Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			return
		}
		key, path := keyOf(r)
		s, err := g.find(key)
		if err != nil {
			Fail(w, path, err)
			return
		}
		r = r.Clone(context.WithValue(r.Context(), sessionKey{}, s))
		r.URL.Path, r.URL.RawPath = path, ""
		mux.ServeHTTP(w, r)
	}), g.token, forbid)
}

// Fail replies with an error in the form of the API that a path belongs to.
func Fail(w http.ResponseWriter, path string, err error) {
	if strings.HasPrefix(path, "/v1/messages") {
		refuse(w, err)
		return
	}
	openai.Fail(w, err)
}

func forbid(w http.ResponseWriter, status int, err error) {
	openai.Fail(w, &openai.Problem{Status: status, Code: "forbidden", Message: err.Error()})
}

// keyOf returns the key that a request bears in its path or headers, and the path without it.
func keyOf(r *http.Request) (key, path string) {
	if rest, ok := strings.CutPrefix(r.URL.Path, "/r/"); ok {
		key, path, _ = strings.Cut(rest, "/")
		return key, "/" + path
	}
	if key = r.Header.Get("x-api-key"); key == "" {
		key = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	}
	return key, r.URL.Path
}

// maxControl bounds the bytes of a reward and of a failure.
const maxControl = 1 << 20

// control answers a request about the rollout itself, of most bytes.
func control(w http.ResponseWriter, r *http.Request, most int64, act func(*session, []byte) (any, error)) {
	data, status, err := web.Body(w, r, most)
	if err != nil {
		openai.Fail(w, &openai.Problem{Status: status, Message: err.Error()})
		return
	}
	s, _ := r.Context().Value(sessionKey{}).(*session)
	body, err := act(s, data)
	if err != nil {
		openai.Fail(w, err)
		return
	}
	web.WriteJSON(w, http.StatusOK, body)
}

// modelOf returns the model of the rollout that a request belongs to.
func modelOf(r *http.Request, body []byte, name string) (openai.Model, error) {
	s, ok := r.Context().Value(sessionKey{}).(*session)
	if !ok {
		return nil, errors.New("a request without a rollout")
	}
	m, err := s.named(name, identify(r, body), body)
	if err != nil {
		return nil, err
	}
	return newNoting(s, m), nil
}

// identity tells whether a request is one that came before.
type identity struct {
	digest
	repeats bool // the client says that it sends the request again
	silent  bool // the client says nothing about it
}

// identify returns the identity of a request. OpenAI's and Anthropic's clients number the attempts of
// a request.
func identify(r *http.Request, body []byte) identity {
	named, attempt := r.Header.Get("Idempotency-Key"), r.Header.Get("x-stainless-retry-count")
	return identity{
		digest:  sha256.Sum256(fmt.Appendf(nil, "%q %q %s", r.URL.Path, named, body)),
		repeats: named != "" || attempt != "" && attempt != "0",
		silent:  named == "" && attempt == "",
	}
}
