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
	// Absent returns an error about models and data that a run needs and that are not on this machine; nil looks for none.
	Absent func(*config.Config) error
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

	books  books
	talks  talks
	traces *traces // of the newest handler
}

// answer answers a request with what becomes JSON.
type answer func(r *http.Request) (any, error)

// Handler answers /api/v1/ with JSON, and all else with the files of the page.
func (s *Server) Handler() http.Handler {
	found, planning := &runs{dir: s.Dir, files: newCache(s.Disk)}, new(sync.Mutex) // one plan at a time: it measures the machine
	s.traces = newTraces(found, s.Disk)
	curves, traces := newCurves(found, s.Every), s.traces
	configs := &configs{found, s.Plan, s.Absent, s.Advise, s.Templates, planning}
	starts := &starts{runs: found, program: s.Program, running: map[string]*child{}}
	talking := &talking{found, &s.talks, s.Talker, planning}
	data := newData(found, s.Data)
	annotations := &annotations{found, &s.books, data, s.Annotator, s.Control}
	api := http.NewServeMux()
	for pattern, answer := range map[string]answer{
		"about":                                 s.about,
		"runs":                                  found.answer,
		"runs/{run}":                            found.of(details),
		"runs/{run}/names":                      found.of(curves.names),
		"runs/{run}/config":                     found.config,
		"runs/{run}/log":                        found.log,
		"runs/{run}/models":                     found.of(talking.models),
		"talk":                                  talking.now,
		"compare":                               curves.compare,
		"groups":                                found.groups,
		"tasks":                                 traces.tasks,
		"answers":                               traces.inTurn(traces.answers),
		"runs/{run}/evaluations":                found.of(traces.evaluations),
		"config/schema":                         schema,
		"config/templates":                      configs.templates,
		"data":                                  data.list,
		"data/rows":                             data.rows,
		"data/lengths":                          data.lengths,
		"data/row":                              data.row,
		"annotations":                           annotations.list,
		"runs/{run}/spans":                      found.of(traces.spansIn),
		"runs/{run}/steps":                      found.of(traces.steps),
		"runs/{run}/failures":                   traces.inTurn(found.of(traces.failures)),
		"runs/{run}/steps/{step}/rollouts":      traces.inTurn(found.of(traces.rollouts)),
		"runs/{run}/steps/{step}/rollouts/{id}": traces.inTurn(found.of(traces.rollout)),
	} {
		api.Handle("GET /api/v1/"+pattern, answer)
	}
	api.Handle("GET /api/v1/runs/{run}/metrics", writer(curves.metrics))
	api.Handle("GET /api/v1/runs/{run}/live", writer(curves.live))
	api.Handle("GET /api/v1/runs/{run}/blob/{digest}", writer(traces.image))
	for pattern, answer := range map[string]http.Handler{
		"config/check":      posted(s.Control, configs.check),
		"config/plan":       posted(s.Control, configs.plan),
		"annotations":       posted(s.Control, annotations.begin),
		"runs":              posted(s.Control, starts.start),
		"runs/{run}/stop":   posted(s.Control, starts.stop),
		"runs/{run}/resume": posted(s.Control, starts.resume),
		"runs/{run}/advice": posted(s.Control, configs.advise),
		"talk":              posted(s.Control, talking.load),
		"talk/{talk}/end":   posted(s.Control, talking.unload),
		"talk/{talk}/chat":  authorized(s.Control, talking.chat),
	} {
		api.Handle("POST /api/v1/"+pattern, answer)
	}
	api.HandleFunc("/api/", notThere)
	mux := http.NewServeMux()
	mux.Handle("/api/", web.WithToken(api, s.Token, commandName, web.Refuse))
	mux.Handle("GET /metrics", web.WithToken(writer(found.gauges), s.Token, commandName, web.Refuse))
	mux.Handle("/annotate/", writer(annotations.serve))
	mux.HandleFunc("/", servePage)
	return web.Secured(web.Guard(mux, s.Token, web.Refuse))
}

// commandName is what refusals of a token call the program.
const commandName = "trinity studio"

// ServeHTTP implements [http.Handler].
func (a answer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	writer(func(w http.ResponseWriter, r *http.Request) error {
		reply, err := a(r)
		if err == nil {
			web.WriteJSON(w, http.StatusOK, reply)
		}
		return err
	}).ServeHTTP(w, r)
}

// writer writes an answer itself. With an error it has written nothing.
type writer func(w http.ResponseWriter, r *http.Request) error

// ServeHTTP implements [http.Handler].
func (write writer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := write(w, r); err != nil {
		web.Refuse(w, statusOf(err), err)
	}
}

func notThere(w http.ResponseWriter, r *http.Request) {
	web.Refuse(w, http.StatusNotFound, fmt.Errorf("there is no %s %q", r.Method, r.URL.Path))
}

// Close ends the models that somebody talks to, and writes the training data of decisions.
func (s *Server) Close() error {
	s.talks.close()
	return s.books.closeAll()
}

// notFound is an error about something that is not there, mistake one about the request, and busy one that
// passes. refused has a status of its own.
type (
	notFound struct{ error }
	mistake  struct{ error }
	busy     struct{ error }
	refused  struct {
		error
		status int
	}
)

func statusOf(err error) int {
	var other refused
	switch {
	case errors.As(err, &other):
		return other.status
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
		notThere(w, r)
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
