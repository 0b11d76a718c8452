package studio

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/trinity-go/trinity/internal/cachedir"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/serve/web"
)

//go:embed page
var page embed.FS

// Server serves the page and its API. What models wrote reaches the browser as JSON.
type Server struct {
	Dir string // below which the runs are
	// Token is what requests for data must carry. "" answers whoever asks for a loopback name, which a
	// page of another site cannot.
	Token string
	// Control is what requests must carry that check, start or stop a run, which is to run programs; ""
	// refuses them.
	Control string
	Program []string                                   // runs a configuration; its path and settings come after it
	Plan    func(*config.Config) (*config.Plan, error) // plans a run on this machine
	// Advise simulates a run with the times in its directory, and returns what bounds a step as JSON has it.
	// load reads its configuration with other settings.
	Advise    func(dir string, load func(overrides ...string) (*config.Config, error)) (any, error)
	Templates []Template    // to begin with
	Data      Data          // of the runs; without it the studio shows none
	Annotator Annotator     // without one people are asked nothing
	Talker    Talker        // finds and serves models
	Version   string        // of the program
	Every     time.Duration // how often a live page's run is looked at; 0 is 200 ms
	Disk      *cachedir.Dir // keeps what was read of large files for the next start; nil keeps nothing

	finder    finder
	cache     cache
	answering answering
	traces    traceCaches
	runsKnown sync.Map // *known by directory
	planning  sync.Mutex
	comparing sync.Mutex
	dataState dataState
	books     books
	starts    starts
	talks     talks
}

// traceCaches are what was read of traces.
type traceCaches struct {
	texts  textCache
	spans  spanCache
	scores scoreCache
}

// Handler answers /api/v1/ with JSON, and all else with the files of the page.
func (s *Server) Handler() http.Handler {
	api := http.NewServeMux()
	for pattern, answer := range map[string]func(r *http.Request) (any, error){
		"about":                                 s.about,
		"runs":                                  s.runs,
		"runs/{run}":                            s.run,
		"runs/{run}/names":                      s.names,
		"runs/{run}/config":                     s.configOf,
		"runs/{run}/log":                        s.log,
		"runs/{run}/models":                     talking{s}.models,
		"talk":                                  talking{s}.talksNow,
		"compare":                               s.compare,
		"groups":                                s.groups,
		"tasks":                                 s.tasks,
		"config/schema":                         s.schema,
		"config/templates":                      s.templates,
		"data":                                  dataAPI{s}.list,
		"data/rows":                             dataAPI{s}.rows,
		"data/lengths":                          dataAPI{s}.lengths,
		"data/row":                              dataAPI{s}.row,
		"annotations":                           annotations{s}.list,
		"runs/{run}/spans":                      s.spans,
		"runs/{run}/steps":                      s.steps,
		"runs/{run}/failures":                   s.failures,
		"runs/{run}/steps/{step}/rollouts":      s.rollouts,
		"runs/{run}/steps/{step}/rollouts/{id}": s.rollout,
	} {
		api.HandleFunc("GET /api/v1/"+pattern, func(w http.ResponseWriter, r *http.Request) {
			if reply, err := answer(r); err != nil {
				web.Refuse(w, statusOf(err), err)
			} else {
				web.WriteJSON(w, http.StatusOK, reply)
			}
		})
	}
	api.HandleFunc("GET /api/v1/runs/{run}/metrics", s.metrics)
	api.HandleFunc("GET /api/v1/runs/{run}/live", s.live)
	api.Handle("POST /api/v1/config/check", posted(s, s.check))
	api.Handle("POST /api/v1/config/plan", posted(s, s.plan))
	api.Handle("POST /api/v1/annotations", posted(s, annotations{s}.begin))
	api.Handle("POST /api/v1/runs", posted(s, starting{s}.start))
	api.Handle("POST /api/v1/runs/{run}/stop", posted(s, starting{s}.stop))
	api.Handle("POST /api/v1/runs/{run}/resume", posted(s, starting{s}.resume))
	api.Handle("POST /api/v1/talk", posted(s, talking{s}.load))
	api.Handle("POST /api/v1/talk/{talk}/end", posted(s, talking{s}.unload))
	api.Handle("POST /api/v1/talk/{talk}/chat", web.WithToken(http.HandlerFunc(talking{s}.chat), s.Control, "trinity studio", web.Refuse))
	api.Handle("POST /api/v1/runs/{run}/advice", posted(s, s.advise))
	api.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		web.Refuse(w, http.StatusNotFound, fmt.Errorf("there is no %s %q", r.Method, r.URL.Path))
	})
	mux := http.NewServeMux()
	mux.Handle("/api/", web.WithToken(api, s.Token, "trinity studio", web.Refuse))
	mux.Handle("GET /metrics", web.WithToken(http.HandlerFunc(s.gauges), s.Token, "trinity studio", web.Refuse))
	mux.Handle("/annotate/", annotations{s})
	mux.HandleFunc("/", servePage)
	return web.Secured(web.Guard(mux, s.Token, web.Refuse))
}

// Close ends the models that somebody talks to, and writes the training data of decisions.
func (s *Server) Close() error {
	talking{s}.close()
	return annotations{s}.closeAll()
}

// notFound is an error about something that is not there, mistake one about the request, and busy one that
// passes.
type (
	notFound struct{ error }
	mistake  struct{ error }
	busy     struct{ error }
)

func statusOf(err error) int {
	switch {
	case errors.As(err, new(notFound)):
		return http.StatusNotFound
	case errors.As(err, new(mistake)):
		return http.StatusBadRequest
	case errors.As(err, new(busy)):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func (s *Server) about(*http.Request) (any, error) {
	dir, err := filepath.Abs(s.Dir)
	if err != nil {
		return nil, err
	}
	sum, err := pageSum()
	return map[string]any{"version": s.Version, "page": sum, "dir": dir, "control": s.Control != "", "now": time.Now().UnixMilli()}, err
}

// pageSum is the checksum of the page's files, in which builds of one version may differ.
var pageSum = sync.OnceValues(func() (string, error) { return sumOf(page) })

func sumOf(files fs.FS) (string, error) {
	all := sha256.New()
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, name)
		fmt.Fprintf(all, "%q %d\n%s", name, len(content), content)
		return err
	})
	return base64.RawURLEncoding.EncodeToString(all.Sum(nil)[:12]), err
}

// number returns a parameter that is a whole number, and fallback if it is not given.
func number(r *http.Request, name string, fallback int64) (int64, error) {
	text := cmp.Or(r.PathValue(name), r.URL.Query().Get(name))
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, mistake{fmt.Errorf("%s is %.40q: want a whole number", name, text)}
	}
	return n, nil
}

// list returns the items as JSON has a list that may be empty.
func list[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// tags has the ETag of each file of the page. A tab of an older program sees others, and loads anew.
var tags sync.Map

// servePage serves a file of the page. The browser keeps it, and asks each time whether it is current.
func servePage(w http.ResponseWriter, r *http.Request) {
	name := path.Join("page", path.Clean("/"+r.URL.Path))
	if r.URL.Path == "/" {
		name = "page/index.html"
	}
	content, err := fs.ReadFile(page, name)
	if err != nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
		web.Refuse(w, http.StatusNotFound, fmt.Errorf("there is no %s %q", r.Method, r.URL.Path))
		return
	}
	tag, ok := tags.Load(name)
	if !ok {
		sum := sha256.Sum256(content)
		tag = `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
		tags.Store(name, tag)
	}
	w.Header().Set("ETag", tag.(string))
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}
