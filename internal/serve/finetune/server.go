// Package finetune serves files, fine-tuning jobs and graders by OpenAI's API. A job is a run of this program: its
// configuration lies in its directory, and a child process does it.
package finetune

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/internal/serve/web"
	wire "github.com/trinity-go/trinity/internal/wire/finetune"
)

// Base is a model that jobs train adapters of.
type Base struct {
	Name, Path string
	MaxLen     int // tokens of a sequence
}

// Options are the options of New.
type Options struct {
	Dir     string // of files and jobs; one process at a time uses it
	Bases   []Base
	Alpha   int    // lora_alpha of adapters
	Trainer string // plug-ins that train and sample
	Sampler string
	Program string // this program
	// TrainerArgs are the arguments of the trainer.
	TrainerArgs map[string]any
	Owner       func(context.Context) string
	// Disk returns how many bytes the files and jobs of an owner may have; 0 is no limit.
	Disk func(owner string) int64
	// Grader builds the grader of an object. Its error is the client's.
	Grader func(object map[string]any) (trinity.RewardFunc, error)
	Say    func(string)
}

// Server answers the API. Its jobs run while Run does.
type Server struct {
	opts    Options
	files   files
	graders graders

	mu      sync.Mutex
	jobs    map[string]*job
	changed chan struct{} // closed when a job changes
}

// New returns a server with the files and jobs that another one of this directory has left.
func New(o Options) (*Server, error) {
	s := &Server{opts: o, graders: graders{o.Grader, make(chan struct{}, 2)}, changed: make(chan struct{})}
	s.files = files{dir: filepath.Join(o.Dir, filesDir), fits: s.fits}
	if err := s.files.open(); err != nil {
		return nil, err
	}
	var err error
	s.jobs, err = readJobs(filepath.Join(o.Dir, jobsDir))
	return s, err
}

// maxBody bounds the body of a request that is no file, in bytes.
const maxBody = 4 << 20

// Handler returns the handler of all calls. Who calls it has checked the client's key.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	get := func(path string, do func(owner string, r *http.Request) (any, error)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			reply, err := do(s.opts.Owner(r.Context()), r)
			answer(w, reply, err)
		})
	}
	post := func(path string, do func(owner string, r *http.Request, body []byte) (any, error)) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			body, status, err := web.Body(w, r, maxBody)
			if err != nil {
				answer(w, nil, &openai.Problem{Status: status, Code: "invalid_request", Message: err.Error()})
				return
			}
			reply, err := do(s.opts.Owner(r.Context()), r, body)
			answer(w, reply, err)
		})
	}
	mux.HandleFunc("POST /v1/files", s.upload)
	mux.HandleFunc("GET /v1/files/{id}/content", s.content)
	mux.HandleFunc("DELETE /v1/files/{id}", func(w http.ResponseWriter, r *http.Request) {
		reply, err := s.files.remove(s.opts.Owner(r.Context()), r.PathValue("id"))
		answer(w, reply, err)
	})
	get("/v1/files", s.files.list)
	get("/v1/files/{id}", func(owner string, r *http.Request) (any, error) { return s.files.of(owner, r.PathValue("id")) })
	get("/v1/fine_tuning/jobs", s.list)
	get("/v1/fine_tuning/jobs/{id}", func(owner string, r *http.Request) (any, error) { return s.show(owner, r.PathValue("id")) })
	get("/v1/fine_tuning/jobs/{id}/events", s.events)
	get("/v1/fine_tuning/jobs/{id}/checkpoints", s.checkpoints)
	post("/v1/fine_tuning/jobs", s.create)
	for name, change := range map[string]func(*job) error{"cancel": s.cancel, "pause": s.pause, "resume": s.resume} {
		post("/v1/fine_tuning/jobs/{id}/"+name, func(owner string, r *http.Request, _ []byte) (any, error) {
			return s.change(r.Context(), owner, r.PathValue("id"), change)
		})
	}
	post("/v1/fine_tuning/alpha/graders/run", s.graders.run)
	post("/v1/fine_tuning/alpha/graders/validate", s.graders.validate)
	for path, instead := range map[string]string{
		"/v1/uploads":                 "uploads in parts are not in this version: send the file to /v1/files, which takes 512 MB",
		"/v1/fine_tuning/checkpoints": "permissions of checkpoints are not in this version: a key's checkpoints are its own",
	} {
		refuse := func(w http.ResponseWriter, _ *http.Request) { answer(w, nil, missing("%s", instead)) }
		mux.HandleFunc(path, refuse)
		mux.HandleFunc(path+"/", refuse)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answer(w, nil, missing("%s %s is not in this version: docs/guide/finetuning.md says what is", r.Method, r.URL.Path))
	})
	return mux
}

// answer writes an answer, or what is wrong.
func answer(w http.ResponseWriter, reply any, err error) {
	if err != nil {
		openai.Fail(w, err)
		return
	}
	_ = web.WriteJSON(w, http.StatusOK, reply) // a client that has gone asks again
}

func missing(format string, args ...any) error {
	return &openai.Problem{Status: http.StatusNotFound, Code: "not_found", Message: fmt.Sprintf(format, args...)}
}

// read decodes the body of a request.
func read(body []byte, into any) error {
	if err := wire.Read(body, into); err != nil {
		key := ""
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
			key = wrong.Field
		}
		return openai.Bad(key, "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// page returns the part of a list that a client asks for. usual is its length unless the client says otherwise.
func page[T any](r *http.Request, all []T, usual, most int, id func(T) string) (wire.List[T], error) {
	q, limit := r.URL.Query(), usual
	if text := q.Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > most {
			return wire.List[T]{}, openai.Bad("limit", "want a number from 1 to %d, got %.40q", most, text)
		}
	}
	if after := q.Get("after"); after != "" {
		at := slices.IndexFunc(all, func(v T) bool { return id(v) == after })
		if at < 0 {
			return wire.List[T]{}, openai.Bad("after", "there is no %.80q in the list", after)
		}
		all = all[at+1:]
	}
	out := wire.List[T]{Object: "list", Data: append([]T{}, all[:min(limit, len(all))]...), HasMore: len(all) > limit}
	if n := len(out.Data); n > 0 {
		out.FirstID, out.LastID = id(out.Data[0]), id(out.Data[n-1])
	}
	return out, nil
}

// list returns the jobs of an owner, the newest first.
func (s *Server) list(owner string, r *http.Request) (any, error) {
	wanted := map[string]string{}
	for key, values := range r.URL.Query() {
		if name, ok := strings.CutPrefix(key, "metadata["); ok {
			wanted[strings.TrimSuffix(name, "]")] = values[0]
		}
	}
	none := r.URL.Query().Get("metadata") == "null"
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []wire.Job{}
	for _, j := range s.jobs {
		matches := j.Owner == owner && !(none && len(j.Metadata) > 0)
		for name, value := range wanted {
			matches = matches && j.Metadata[name] == value
		}
		if matches {
			all = append(all, s.shown(j))
		}
	}
	slices.SortFunc(all, func(a, b wire.Job) int { return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), cmp.Compare(b.ID, a.ID)) })
	return page(r, all, 20, 100, func(j wire.Job) string { return j.ID })
}

// show returns a job of an owner.
func (s *Server) show(owner, id string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.job(owner, id)
	if err != nil {
		return nil, err
	}
	return s.shown(j), nil
}

// job returns a job of an owner. The mutex is held.
func (s *Server) job(owner, id string) (*job, error) {
	j := s.jobs[id]
	if j == nil || j.Owner != owner {
		return nil, missing("there is no fine-tuning job %.80q", id)
	}
	return j, nil
}

func now() int64 { return time.Now().Unix() }
