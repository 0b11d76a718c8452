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
type annotations struct {
	runs      *runs
	books     *books
	data      *data
	annotator Annotator
	control   string // as of [Server.Control]
}

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
func (a *annotations) find() ([]bookAt, error) {
	if a.annotator == nil {
		return nil, nil
	}
	root, err := a.runs.root()
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
	ids, _ := a.runs.finder.find(root) // the list of runs tells what it cannot read
	look("", root)
	for _, id := range ids {
		dir := dirIn(root, id)
		look(id, filepath.Join(dir, rundir.Buffer))
		if dir != root {
			look(id, dir)
		}
		look(id, ownBooks(root, id))
	}
	return all, nil
}

// ownBooks returns the directory of the books that the studio begins about the data of a run.
func ownBooks(root, run string) string {
	return filepath.Join(root, ownDir, booksDir, url.PathEscape(run))
}

// bookIn returns the book in a directory, if it says what it asks about. No link leads out of it.
func (a *annotations) bookIn(root, dir, run string) (one bookAt, ok bool) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || real != dir {
		return one, false
	}
	data, ok := a.annotator.Asks(dir)
	rel, err := filepath.Rel(root, dir)
	sum := sha256.Sum256([]byte(filepath.ToSlash(rel)))
	return bookAt{hex.EncodeToString(sum[:8]), run, shown(data), dir}, ok && err == nil
}

// list answers with the books.
func (a *annotations) list(*http.Request) (any, error) {
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
func (a *annotations) begin(r *http.Request, in annotated) (any, error) {
	one, err := a.data.source(in.Run, in.Source)
	if err != nil {
		return nil, err
	}
	if a.annotator == nil {
		return nil, errNoAnnotator
	}
	root, err := a.runs.root()
	if err != nil {
		return nil, err
	}
	prompt, answers, err := one.questions()
	if err != nil {
		return nil, mistake{err}
	}
	if err := checkOwner(root); err != nil {
		return nil, err
	}
	dir := filepath.Join(ownBooks(root, in.Run), url.PathEscape(one.Key)+bookEnding)
	if err := durable.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, err
	}
	if _, ok := a.bookIn(root, dir, in.Run); !ok {
		if err := a.annotator.Begin(r.Context(), dir, one.Path, one.Options, prompt, answers); err != nil {
			return nil, mistake{errors.New(shown(firstLine(err)))}
		}
	}
	found, ok := a.bookIn(root, dir, in.Run)
	if !ok {
		return nil, fmt.Errorf("%s does not say what it asks about", dir)
	}
	return map[string]string{"id": found.ID}, nil
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

var errNoAnnotator = notFound{errors.New("this studio has no pages to annotate")}

// serve answers /annotate/ID/ with the page, and what it asks with the book. Decisions always need the
// token with which the studio starts runs, as they are written.
func (a *annotations) serve(w http.ResponseWriter, r *http.Request) error {
	id, rest, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/annotate/"), "/")
	prefix := "/annotate/" + id
	switch {
	case a.annotator == nil:
		return errNoAnnotator
	case !ok:
		http.Redirect(w, r, "/#/annotate", http.StatusFound)
	case !strings.HasPrefix(rest, "api/"):
		http.StripPrefix(prefix, a.annotator.Page()).ServeHTTP(w, r)
	default:
		authorized(a.control, func(w http.ResponseWriter, r *http.Request) error {
			b, err := a.use(r.Context(), id)
			if err != nil {
				return err
			}
			defer b.mu.RUnlock()
			http.StripPrefix(prefix, b.handler).ServeHTTP(w, r)
			return nil
		}).ServeHTTP(w, r)
	}
	return nil
}

// use returns an open book, which the caller unlocks.
func (a *annotations) use(ctx context.Context, id string) (*openBook, error) {
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
func (a *annotations) open(ctx context.Context, id string) (*openBook, error) {
	all, err := a.find()
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if one.ID != id {
			continue
		}
		handler, end, err := a.annotator.Open(ctx, one.Dir, a.control)
		if err != nil {
			return nil, errors.New(shown(firstLine(err)))
		}
		b := &openBook{handler: handler, end: end}
		b.idle = time.AfterFunc(bookIdle, func() { _ = a.books.close(id) }) // its decisions are on the disk
		if a.books.open == nil {
			a.books.open = map[string]*openBook{}
		}
		a.books.open[id] = b
		return b, nil
	}
	return nil, notFound{fmt.Errorf("there are no questions %.40q: they may have been removed", id)}
}

// close writes the training data of a book, as `trinity annotate` does at its end, and closes it.
func (a *books) close(id string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.open[id]
	if b == nil {
		return nil
	}
	delete(a.open, id)
	b.idle.Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end()
}

// closeAll closes the books that are open.
func (a *books) closeAll() error {
	a.mu.Lock()
	var ids []string
	for id := range a.open {
		ids = append(ids, id)
	}
	a.mu.Unlock()
	var errs []error
	for _, id := range ids {
		errs = append(errs, a.close(id))
	}
	return errors.Join(errs...)
}
