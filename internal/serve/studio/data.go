package studio

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/model/renderer"
)

// Data finds what runs read and write, and how their models read it.
type Data struct {
	// Sources lists the data of a stage whose files are in a directory.
	Sources func(cfg *config.Settled, dir string) []dataset.Entry
	// Text opens the tokenizer and the chat template of a stage's model.
	Text func(cfg *config.Settled) (*renderer.Renderer, error)
}

// kindExperience is the schema of experiences.
const kindExperience = "experience"

// stageSource is a source with its stage.
type stageSource struct {
	dataset.Entry
	cfg *config.Settled
	run string // its text of the configuration, which tells its model
}

// sources lists the data of a run, or of its stage. A run with stages has the data of all of them; the
// stage begins their keys.
func (s *data) sources(id string) ([]stageSource, error) {
	if s.reads.Sources == nil {
		return nil, notFound{errors.New("this studio opens no data")}
	}
	f, err := s.runs.open(id)
	if err != nil {
		return nil, err
	}
	in, started, err := s.runs.writtenFor(id)
	if err != nil {
		return nil, err
	}
	options := config.Options{Overrides: in.Overrides}
	if started == "" { // a run has kept the values: a copied one that names variables would tell them
		options.Env = func(string) (string, bool) { return "", false }
	}
	cfg, err := config.Parse(configName, []byte(in.Text), options)
	if err != nil {
		return nil, fmt.Errorf("the run's configuration cannot be read: %s", shown(firstLine(err)))
	}
	var all []stageSource
	for i, stage := range cfg.Settled() {
		prefix, at := "", f.dir
		if len(cfg.Stages) > 0 {
			name := cfg.Stages[i].StageName
			if own := hasStageNamed(cfg, path.Base(id)); own && name != path.Base(id) {
				continue
			} else if !own {
				prefix, at = name+"/", filepath.Join(f.dir, name)
			}
		}
		for _, one := range s.reads.Sources(stage, at) {
			one.Key = prefix + one.Key
			all = append(all, stageSource{one, stage, f.dir + "\x00" + prefix + "\x00" + in.Text})
		}
	}
	return all, nil
}

// source returns the data of a run that has a key.
func (s *data) source(run, key string) (stageSource, error) {
	all, err := s.sources(run)
	if err != nil {
		return stageSource{}, err
	}
	i := slices.IndexFunc(all, func(one stageSource) bool { return one.Key == key })
	if i < 0 {
		return stageSource{}, notFound{fmt.Errorf("the run has no data %.200q", key)}
	}
	return all[i], nil
}

func hasStageNamed(cfg *config.Config, name string) bool {
	return slices.ContainsFunc(cfg.Stages, func(s config.Stage) bool { return s.StageName == name })
}

// list answers with the data of a run.
func (s *data) list(r *http.Request) (any, error) {
	all, err := s.sources(r.URL.Query().Get("run"))
	if err != nil {
		return nil, err
	}
	type listed struct {
		Key     string `json:"key"`
		Name    string `json:"name"`
		Kind    string `json:"kind"`
		Path    string `json:"path"`
		Problem string `json:"problem"`
	}
	out := []listed{}
	for _, one := range all {
		out = append(out, listed{one.Key, shown(one.Name), one.Kind, shown(one.Path), shown(one.Problem)})
	}
	return map[string]any{"sources": out}, nil
}

// data answers with the data of runs.
type data struct {
	runs  *runs
	reads Data
	turns chan struct{} // one for each request that reads

	mu   sync.Mutex
	of   string // the run whose model was opened last
	last modelText
}

func newData(of *runs, reads Data) *data {
	return &data{runs: of, reads: reads, turns: make(chan struct{}, dataReaders)}
}

// view is an open source, and what a request wants of it.
type view struct {
	stageSource
	modelText
	at               string
	n                int // rows
	search           string
	prompt, response *[2]int // lengths that a row has, if they are given
}

// Limits of a request for data.
const (
	mostRows    = 100
	mostLengths = 5000
	scanTime    = 2 * time.Second  // after which a reply has what was found so far
	reachTime   = 20 * time.Second // for a place in a file that must be read from its beginning
	dataReaders = 2                // requests that read at once; others wait
	turnTime    = 25 * time.Second // for a turn; with reachTime it is less than the server gives a reply
)

// open opens the source that a request names, and waits for its turn to read. The caller calls done.
func (s *data) open(r *http.Request, n int) (v *view, done func(), err error) {
	q := r.URL.Query()
	one, err := s.source(q.Get("run"), q.Get("source"))
	if err != nil {
		return nil, nil, err
	}
	v = &view{stageSource: one, at: q.Get("at"), n: n, search: strings.ToLower(q.Get("q"))}
	if v.Problem != "" {
		return nil, nil, fmt.Errorf("%s: %s", shown(v.Path), shown(v.Problem))
	}
	if v.prompt, err = lengthRange(q.Get("prompt")); err == nil {
		v.response, err = lengthRange(q.Get("response"))
	}
	if err != nil {
		return nil, nil, err
	}
	if done, err = s.begin(r.Context()); err != nil {
		return nil, nil, err
	}
	v.modelText = s.modelText(v.stageSource)
	return v, done, nil
}

// lengthRange reads a range "from,to" of lengths.
func lengthRange(text string) (*[2]int, error) {
	if text == "" {
		return nil, nil
	}
	from, to, ok := strings.Cut(text, ",")
	a, err := strconv.ParseFloat(from, 64)
	b, err2 := strconv.ParseFloat(to, 64)
	if !ok || err != nil || err2 != nil || !(a >= 0 && a <= b && b < 1<<40) {
		return nil, mistake{fmt.Errorf("a range of lengths is %.40q: want two numbers, as 10,20", text)}
	}
	return &[2]int{int(math.Ceil(a)), int(b)}, nil
}

// dataRow is a row in a list.
type dataRow struct {
	At       string    `json:"at"`
	Where    string    `json:"where"`
	Error    string    `json:"error,omitempty"`
	Examples []example `json:"examples"`
}

// rowsFound is a reply with rows.
type rowsFound struct {
	Rows []dataRow `json:"rows"`
	scanned
}

// scanned is how far a request has read.
type scanned struct {
	Next string `json:"next"` // where to go on
	End  bool   `json:"end"`  // no row follows yet
	Seen int    `json:"seen"` // rows that were read
	Unit string `json:"unit"` // of lengths: tokens or characters
	Why  string `json:"why"`  // there are no tokens; "" if there are
}

// rows answers with rows from a place on.
func (s *data) rows(r *http.Request) (any, error) {
	n, err := number(r, "n", 20)
	if err != nil {
		return nil, err
	}
	v, done, err := s.open(r, int(min(max(n, 1), mostRows)))
	if err != nil {
		return nil, err
	}
	defer done()
	out := rowsFound{Rows: []dataRow{}}
	out.scanned, err = v.scan(r.Context(), func(found item, examples []example, wrong error) bool {
		row := dataRow{At: found.at, Where: shown(found.where), Examples: list(examples)}
		if wrong != nil {
			row.Error = shown(firstLine(wrong))
		}
		if v.wants(examples, wrong) {
			for i := range examples {
				examples[i].shorten()
			}
			out.Rows = append(out.Rows, row)
		}
		return len(out.Rows) < v.n
	})
	return out, err
}

// lengthsFound is a reply with the lengths of examples.
type lengthsFound struct {
	Prompt   []int `json:"prompt"`
	Response []int `json:"response"` // −1 without one
	Damaged  int   `json:"damaged"`  // rows that cannot be read
	scanned
}

// lengths answers with the lengths of rows from a place on.
func (s *data) lengths(r *http.Request) (any, error) {
	v, done, err := s.open(r, mostLengths)
	if err != nil {
		return nil, err
	}
	defer done()
	out := lengthsFound{Prompt: []int{}, Response: []int{}}
	out.scanned, err = v.scan(r.Context(), func(_ item, examples []example, wrong error) bool {
		if wrong != nil {
			out.Damaged++
			examples = nil
		}
		for _, e := range examples {
			response := -1
			if e.ResponseLength != nil {
				response = *e.ResponseLength
			}
			out.Prompt, out.Response = append(out.Prompt, e.PromptLength), append(out.Response, response)
		}
		return len(out.Prompt)+out.Damaged < v.n
	})
	return out, err
}

// row answers with the row at a place, with the tokens of its examples.
func (s *data) row(r *http.Request) (any, error) {
	v, done, err := s.open(r, 1)
	if err != nil {
		return nil, err
	}
	defer done()
	var out struct {
		dataRow
		Text     string         `json:"text"` // of the row, as it is in the file
		Cut      bool           `json:"cut"`  // the text is longer
		Examples []wholeExample `json:"examples"`
		scanned
	}
	out.scanned, err = v.scan(r.Context(), func(found item, examples []example, wrong error) bool {
		out.At, out.Where = found.at, shown(found.where)
		if wrong != nil {
			out.Error = shown(firstLine(wrong))
		}
		out.Text, out.Cut = cutText(string(found.text), mostText)
		for _, e := range examples {
			out.Examples = append(out.Examples, v.whole(e))
		}
		return false
	})
	out.Examples = list(out.Examples)
	if err == nil && out.Seen == 0 {
		err = notFound{fmt.Errorf("%s has no row at %.40q", shown(v.Path), v.at)}
	}
	return out, err
}

// scan reads rows from the place of the request on, until visit returns false or the time is over.
func (v *view) scan(ctx context.Context, visit func(item, []example, error) bool) (out scanned, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, reachTime, fmt.Errorf("no answer within %v", reachTime))
	defer cancel()
	began := time.Now()
	out.Unit, out.Why = "tokens", shown(v.why)
	if v.renderer == nil && v.Kind != kindExperience && v.Kind != dataset.KindLog {
		out.Unit = "characters"
	}
	out.Next, out.End, err = v.read(ctx, func(found item) bool {
		out.Seen++
		examples, wrong := []example(nil), found.err
		if wrong == nil {
			examples, wrong = v.examples(found)
		}
		return visit(found, examples, wrong) && time.Since(began) < scanTime
	})
	if err != nil && !errors.As(err, new(mistake)) {
		err = errors.New(shown(firstLine(err)))
	}
	return out, err
}

// wants reports whether a row has the lengths and the text that the request wants.
func (v *view) wants(examples []example, wrong error) bool {
	if v.prompt == nil && v.response == nil && v.search == "" {
		return true
	}
	return wrong == nil && slices.ContainsFunc(examples, func(e example) bool {
		in := func(r *[2]int, n *int) bool { return r == nil || n != nil && *n >= r[0] && *n <= r[1] }
		return in(v.prompt, &e.PromptLength) && in(v.response, e.ResponseLength) && (v.search == "" ||
			slices.ContainsFunc([]string{e.Prompt, e.Response, e.Answer, e.ID}, func(text string) bool {
				return strings.Contains(strings.ToLower(text), v.search)
			}))
	})
}
