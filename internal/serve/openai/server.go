// Package openai serves chat completions and completions of the OpenAI API with a sampler.
package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/web"
	wire "github.com/trinity-go/trinity/internal/wire/openai"
)

const maxBody = 64 << 20 // bytes of a request, which may have images

// Server serves a model over the OpenAI API.
type Server struct {
	Name string // of the model
	// Model returns the model that answers a request with this body, which asks for it by this name.
	Model     func(r *http.Request, body []byte, name string) (Model, error)
	Renderer  trinity.Renderer
	Adapters  func() []string // further names, of adapters of the model; nil for none
	VocabSize int             // token ids are below it
	Timeout   time.Duration   // of one request
	Token     string          // that every request must bear; "" demands none
	Waiting   int             // requests in flight at most; further ones get status 429
	Say       func(string)    // receives a line about what requests ask for without effect, and about the first malformed call

	malformed sync.Once // guards the line about a malformed call
	said      notices
	tools     sync.Once // looks at the first request with tools
	slots     chan struct{}
}

// Handler returns the handler of /v1/models, /v1/chat/completions, /v1/completions and /health.
func (s *Server) Handler() http.Handler {
	return web.Guard(s.Endpoints(), s.Token, func(w http.ResponseWriter, status int, err error) {
		Fail(w, &Problem{Status: status, Code: "forbidden", Message: err.Error()})
	})
}

// Endpoints returns the handler without the guard against pages of other sites.
func (s *Server) Endpoints() http.Handler {
	s.slots = make(chan struct{}, s.Waiting)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.Handle("GET /v1/models", s.guard(func(w http.ResponseWriter, _ *http.Request) { List(w, s.names()) }))
	mux.Handle("GET /v1/models/{name...}", s.guard(func(w http.ResponseWriter, r *http.Request) { Show(w, r, s.names()) }))
	mux.Handle("POST /v1/chat/completions", s.guard(func(w http.ResponseWriter, r *http.Request) { s.complete(w, r, chat) }))
	mux.Handle("POST /v1/completions", s.guard(func(w http.ResponseWriter, r *http.Request) { s.complete(w, r, plain) }))
	mux.Handle("/", s.guard(func(w http.ResponseWriter, r *http.Request) { Fail(w, NotHere(r)) }))
	return mux
}

// NotHere returns the problem of a request for what an API does not have.
func NotHere(r *http.Request) error {
	return &Problem{
		Status: http.StatusNotFound, Code: "not_found", Message: fmt.Sprintf("there is no %s %.200s here", r.Method, r.URL.Path),
	}
}

// NameOf returns the name in the replies of a model: its own, or the one that the request asks for, or that of the server.
func (s *Server) NameOf(d Defaults, asked string) string { return cmp.Or(d.Name, asked, s.Name) }

// guard refuses requests without the token.
func (s *Server) guard(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.Token != "" && !web.Authorized(r, s.Token) {
			Fail(w, &Problem{Status: http.StatusUnauthorized, Code: "invalid_api_key", Message: "the API key is not the server's"})
			return
		}
		next(w, r)
	})
}

// Problem is an error as the API reports it.
type Problem struct {
	Status  int // of HTTP
	Code    string
	Param   string // field of the request; "" if the problem is not that of one field
	Message string
	Final   bool          // clients should not repeat the request
	After   time.Duration // when clients may repeat it; 0 is soon
}

func (p *Problem) Error() string { return p.Message }

// Bad returns the problem of a field that a request must not have so.
func Bad(param, format string, args ...any) error {
	return &Problem{Status: http.StatusBadRequest, Code: "invalid_value", Param: param, Message: fmt.Sprintf(format, args...)}
}

// About returns the message with the field that it is about, because clients such as OpenAI's show the message alone.
func (p *Problem) About() string {
	if p.Param == "" || strings.HasPrefix(p.Message, p.Param) {
		return p.Message
	}
	return p.Param + ": " + p.Message
}

func (p *Problem) body() wire.Refusal {
	kind := "invalid_request_error"
	if p.Status >= 500 {
		kind = "server_error"
	}
	return wire.Refusal{Error: wire.Error{Message: p.About(), Type: kind, Param: orNull(p.Param), Code: orNull(p.Code)}}
}

// orNull returns nil for "", which JSON writes as null.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// ProblemOf converts any error to one of the API.
func ProblemOf(err error) *Problem {
	if p := (*Problem)(nil); errors.As(err, &p) {
		return p
	}
	if errors.Is(err, trinity.ErrConstraint) {
		return &Problem{Status: http.StatusBadRequest, Code: "constraint_failed", Message: err.Error(), Final: true}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &Problem{Status: http.StatusGatewayTimeout, Code: "timeout", Message: "the request took too long"}
	}
	return &Problem{Status: http.StatusInternalServerError, Message: err.Error()}
}

// Fail replies with an error.
func Fail(w http.ResponseWriter, err error) {
	p := ProblemOf(err)
	p.Advise(w)
	web.WriteJSON(w, p.Status, p.body())
}

// Advise tells a client whether and when to repeat the request.
func (p *Problem) Advise(w http.ResponseWriter) {
	if p.Final { // OpenAI's clients would repeat requests with some statuses
		w.Header().Set("x-should-retry", "false")
	}
	if p.After > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(p.After.Seconds())+1))
	}
}

// names returns the names of the model and of its adapters.
func (s *Server) names() []string {
	if s.Adapters == nil {
		return []string{s.Name}
	}
	return append([]string{s.Name}, s.Adapters()...)
}

// List answers with the models of these names.
func List(w http.ResponseWriter, names []string) {
	list := wire.Models{Object: "list", Data: []wire.Model{}}
	for _, name := range names {
		list.Data = append(list.Data, asModel(name))
	}
	web.WriteJSON(w, http.StatusOK, list)
}

// Show answers with the model that the end of a path names, if it is among these names.
func Show(w http.ResponseWriter, r *http.Request, names []string) {
	name := r.PathValue("name")
	if !slices.Contains(names, name) {
		Fail(w, &Problem{
			Status: http.StatusNotFound, Code: "model_not_found", Param: "model", Message: fmt.Sprintf("there is no model %.200q here", name),
		})
		return
	}
	web.WriteJSON(w, http.StatusOK, asModel(name))
}

func asModel(name string) wire.Model {
	return wire.Model{ID: name, Object: "model", OwnedBy: "trinity"}
}

// Enter counts a request in flight until leave is called. It is an error if there are Waiting already.
func (s *Server) Enter() (leave func(), err error) {
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, nil
	default:
		return nil, &Problem{
			Status: http.StatusTooManyRequests, Code: "rate_limit_exceeded",
			Message: fmt.Sprintf("%d requests are in flight already: try again later", s.Waiting),
		}
	}
}

// complete answers a request, with or without streaming.
func (s *Server) complete(w http.ResponseWriter, r *http.Request, as form) {
	data, status, err := web.Body(w, r, maxBody)
	if err != nil {
		Fail(w, &Problem{Status: status, Message: err.Error()})
		return
	}
	leave, err := s.Enter() // only now: a slow client holds no slot
	if err != nil {
		Fail(w, err)
		return
	}
	defer leave()
	q, err := s.parse(r, data, as)
	if err != nil {
		Fail(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.Timeout)
	defer cancel()
	if q.Stream {
		s.stream(ctx, w, q)
		return
	}
	out, err := q.call.Sample(ctx, q.params)
	if err != nil {
		Fail(w, err)
		return
	}
	q.send(s, out, func() error { return web.WriteJSON(w, http.StatusOK, q.whole(s, out)) })
}

// send sends the replies, or the end of them, and tells the model about it.
func (q *request) send(s *Server, out []Reply, write func() error) {
	for _, r := range out {
		if r.Sent != nil {
			r.Sent(q.view.Message(r))
		}
		if r.Malformed != "" && s.Say != nil {
			s.malformed.Do(func() {
				s.Say("a call of a tool cannot be read, so the client gets it as text; later ones are not reported: " + r.Malformed)
			})
		}
	}
	if write() == nil {
		return
	}
	for _, r := range out {
		if r.Lost != nil {
			r.Lost()
		}
	}
}
