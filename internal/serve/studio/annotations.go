package studio

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/serve/web"
)

// Annotator opens books of decisions, on which people say which of two answers is better.
type Annotator interface {
	// Page returns a handler of the page, without a book.
	Page() http.Handler
	// Asks returns what the book in a directory asks about.
	Asks(dir string) (data string, ok bool)
	// Begin makes the book of a directory. prompt and answers are keys of the rows.
	Begin(ctx context.Context, dir, data string, rows dataset.Options, prompt string, answers []string) error
	// Open opens a book. Requests carry the token; end closes it.
	Open(ctx context.Context, dir, token string) (handler http.Handler, end func() error, err error)
}

// annotations serves the pages of the annotator below /annotate/, one for each book of decisions.
type annotations struct{ *Server }

// bookEnding ends the names of directories with decisions, as `trinity annotate` names them.
const bookEnding = ".annotations"

// booksDir is the directory of the books that the studio begins, beside what it keeps of runs. No run has
// this name.
const booksDir = ".annotations"

// bookIdle is the time after which a book that nobody uses is closed.
const bookIdle = 15 * time.Minute

// bookAt is a book of decisions.
type bookAt struct {
	ID   string `json:"id"`
	Run  string `json:"run"`  // in whose directory it is, or about whose data; "" if unknown
	Data string `json:"data"` // that it asks about, without passwords
	Dir  string `json:"dir"`
}

// openBook is a book that the studio has open.
type openBook struct {
	mu      sync.RWMutex // held by requests; for writing to close it
	handler http.Handler
	end     func() error
	idle    *time.Timer
}

// books are the open books by ID. mu is held while one is opened or closed.
type books struct {
	mu   sync.Mutex
	open map[string]*openBook
}

// find returns the books of the runs below the studio's directory, and those that the studio began.
func (a annotations) find() ([]bookAt, error) {
	if a.Annotator == nil {
		return nil, nil
	}
	root, err := a.root()
	if err != nil {
		return nil, err
	}
	var all []bookAt
	look := func(run, dir string) {
		entries, _ := os.ReadDir(dir) // a directory that is not there has none
		for _, e := range entries {
			if at := filepath.Join(dir, e.Name()); e.IsDir() && strings.HasSuffix(e.Name(), bookEnding) {
				if one, ok := a.bookIn(root, at, run); ok {
					all = append(all, one)
				}
			}
		}
	}
	ids, _ := a.finder.find(root) // the list of runs tells what it cannot read
	look("", root)
	for _, id := range ids {
		dir := dirIn(root, id)
		look(id, filepath.Join(dir, rundir.Buffer))
		if dir != root {
			look(id, dir)
		}
		look(id, a.ownBooks(root, id))
	}
	return all, nil
}

// ownBooks returns the directory of the books that the studio begins about the data of a run.
func (annotations) ownBooks(root, run string) string {
	return filepath.Join(root, ownDir, booksDir, url.PathEscape(run))
}

// bookIn returns the book in a directory, if it says what it asks about. No link leads out of it.
func (a annotations) bookIn(root, dir, run string) (one bookAt, ok bool) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || real != dir {
		return one, false
	}
	data, ok := a.Annotator.Asks(dir)
	rel, err := filepath.Rel(root, dir)
	sum := sha256.Sum256([]byte(filepath.ToSlash(rel)))
	return bookAt{hex.EncodeToString(sum[:8]), run, shown(data), dir}, ok && err == nil
}

// list answers with the books.
func (a annotations) list(*http.Request) (any, error) {
	all, err := a.find()
	return map[string]any{"books": list(all)}, err
}

// annotated names data of a run.
type annotated struct {
	Run    string `json:"run"`
	Source string `json:"source"`
}

// begin makes a book about data of a run, or finds the one that there is. It lies beside what the studio
// keeps of runs, not in the run's directory.
func (a annotations) begin(r *http.Request, in annotated) (any, error) {
	all, err := dataAPI(a).sources(in.Run)
	if err != nil {
		return nil, err
	}
	root, err := a.root()
	if err == nil && a.Annotator == nil {
		err = notFound{errors.New("this studio has no pages to annotate")}
	}
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if one.Key != in.Source {
			continue
		}
		prompt, answers, err := one.questions()
		if err != nil {
			return nil, mistake{err}
		}
		if err := checkOwner(root); err != nil {
			return nil, err
		}
		dir := filepath.Join(a.ownBooks(root, in.Run), url.PathEscape(one.Key)+bookEnding)
		if err := durable.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
			return nil, err
		}
		if _, ok := a.bookIn(root, dir, in.Run); !ok {
			if err := a.Annotator.Begin(r.Context(), dir, one.Path, one.Options, prompt, answers); err != nil {
				return nil, mistake{errors.New(shown(firstLine(err)))}
			}
		}
		found, ok := a.bookIn(root, dir, in.Run)
		if !ok {
			return nil, fmt.Errorf("%s does not say what it asks about", dir)
		}
		return map[string]string{"id": found.ID}, nil
	}
	return nil, notFound{fmt.Errorf("the run has no data %.200q", in.Source)}
}

// questions returns the keys of what people may be asked about data: which of the answers to a prompt is
// better.
func (one stageSource) questions() (prompt string, answers []string, err error) {
	f := one.Format
	switch {
	case one.Problem != "":
		err = errors.New(shown(one.Problem))
	case dburl.IsURL(one.Path):
		err = errors.New("annotate a database with `trinity annotate --data URL --out DIR`")
	case one.Kind == kindExperience:
		return "prompt", []string{"answer1", "answer2"}, nil
	case trinity.PerRow(one.Kind) == 2 && f.PromptType == "plaintext" && f.PromptTemplate == "":
		return f.PromptKey, []string{f.ChosenKey, f.RejectedKey}, nil
	default:
		err = errors.New("these rows have no answers to compare: choose kept experiences, or pairs with plain prompts")
	}
	return "", nil, err
}

// ServeHTTP answers /annotate/ID/ with the page, and what it asks with the book. Decisions always need the
// token with which the studio starts runs, as they are written.
func (a annotations) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.Annotator == nil {
		web.Refuse(w, http.StatusNotFound, errors.New("this studio has no pages to annotate"))
		return
	}
	id, rest, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/annotate/"), "/")
	if !ok {
		http.Redirect(w, r, "/#/annotate", http.StatusFound)
		return
	}
	prefix := "/annotate/" + id
	if !strings.HasPrefix(rest, "api/") {
		http.StripPrefix(prefix, a.Annotator.Page()).ServeHTTP(w, r)
		return
	}
	if a.Control == "" {
		web.Refuse(w, http.StatusForbidden, errors.New("this studio only shows runs: start it without --read-only"))
		return
	}
	web.WithToken(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := a.use(r.Context(), id)
		if err != nil {
			web.Refuse(w, statusOf(err), err)
			return
		}
		defer b.mu.RUnlock()
		http.StripPrefix(prefix, b.handler).ServeHTTP(w, r)
	}), a.Control, "trinity studio", web.Refuse).ServeHTTP(w, r)
}

// use returns an open book, which the caller unlocks.
func (a annotations) use(ctx context.Context, id string) (*openBook, error) {
	a.books.mu.Lock()
	defer a.books.mu.Unlock()
	b := a.books.open[id]
	if b == nil {
		var err error
		if b, err = a.open(ctx, id); err != nil {
			return nil, err
		}
	}
	b.idle.Reset(bookIdle)
	b.mu.RLock()
	return b, nil
}

// open opens a book. The caller holds the lock of all.
func (a annotations) open(ctx context.Context, id string) (*openBook, error) {
	all, err := a.find()
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if one.ID != id {
			continue
		}
		handler, end, err := a.Annotator.Open(ctx, one.Dir, a.Control)
		if err != nil {
			return nil, errors.New(shown(firstLine(err)))
		}
		b := &openBook{handler: handler, end: end}
		b.idle = time.AfterFunc(bookIdle, func() { _ = a.close(id) }) // its decisions are on the disk
		if a.books.open == nil {
			a.books.open = map[string]*openBook{}
		}
		a.books.open[id] = b
		return b, nil
	}
	return nil, notFound{fmt.Errorf("there are no questions %.40q: they may have been removed", id)}
}

// close writes the training data of a book, as `trinity annotate` does at its end, and closes it.
func (a annotations) close(id string) error {
	a.books.mu.Lock()
	defer a.books.mu.Unlock()
	b := a.books.open[id]
	if b == nil {
		return nil
	}
	delete(a.books.open, id)
	b.idle.Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end()
}

// closeAll closes the books that are open.
func (a annotations) closeAll() error {
	a.books.mu.Lock()
	var ids []string
	for id := range a.books.open {
		ids = append(ids, id)
	}
	a.books.mu.Unlock()
	var errs []error
	for _, id := range ids {
		errs = append(errs, a.close(id))
	}
	return errors.Join(errs...)
}
