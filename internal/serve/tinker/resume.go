package tinker

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// journals is the directory of all sessions with their models. A session that has no sessionName has ended.
const (
	journals    = "journal"
	sessionName = "session.json"
	trainPrefix = "train-"
	samplerName = "sample-"
)

func (s *store) sessionDir(id string) string { return filepath.Join(s.dir, journals, id) }

// modelDir returns the directory of a model's journal.
func (s *store) modelDir(id string) string {
	session, rest, _ := strings.Cut(id, ":")
	return filepath.Join(s.sessionDir(session), trainPrefix+strings.TrimPrefix(rest, "train:"))
}

// keptSession and keptSampler are files in the directory of a session.
type keptSession struct {
	Owner    string            `json:"owner,omitempty"`
	Made     time.Time         `json:"made"`
	Name     string            `json:"display_name,omitempty"`
	Metadata map[string]string `json:"user_metadata,omitempty"`
	Project  string            `json:"project,omitempty"`
}

type keptSampler struct {
	BaseModel string `json:"base_model"`
	Path      string `json:"path,omitempty"`
	Model     string `json:"model,omitempty"`
	Base      string `json:"base_fingerprint,omitempty"`
}

func (s *store) keepSession(x *session) error {
	return writeKept(filepath.Join(s.sessionDir(x.id), sessionName), keptSession{x.owner, x.made, x.name, x.metadata, x.project})
}

func (s *store) keepSampler(x *sampler) error {
	return writeKept(s.samplerFile(x), keptSampler{x.base.Name, x.path, x.model, x.base.Weights})
}

// samplerFile returns the file that says that a sampling session is there.
func (s *store) samplerFile(x *sampler) string {
	session, number, _ := strings.Cut(x.id, ":sample:")
	return filepath.Join(s.sessionDir(session), samplerName+number+".json")
}

func writeKept(path string, v any) error {
	data, err := json.Marshal(v)
	if err == nil {
		err = durable.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = durable.WriteFile(path, data)
	}
	return err
}

func readKept(path string, v any) error {
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return err
}

// clear removes what an ended session has on the disk. Its directory goes with its last model. One with a damaged model stays:
// somebody may bring the file back.
func (s *Server) clear(x *session) {
	dir := s.all.store.sessionDir(x.id)
	s.mu.Lock()
	isLast, isDamaged := x.models == 0, x.damaged
	s.mu.Unlock()
	if isDamaged {
		return
	}
	err := os.Remove(filepath.Join(dir, sessionName)) // says that it has ended
	if err == nil {
		err = durable.SyncPath(dir)
	}
	if isLast {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.opts.Say(err.Error())
	}
}

// begin begins the journal of a new model, and takes it among the others.
func (s *Server) begin(m *model, call string, body []byte) error {
	from := m.origin()
	if err := s.all.store.fits(m.session.owner, int64(len(body))); err != nil {
		return &problem{status: http.StatusForbidden, text: err.Error()}
	}
	s.mu.Lock()
	err := s.keys.limits(m.session.owner).hasRoom(s.models)
	if s.models[m.id] != nil { // its answer was fetched more than an hour ago
		err = conflict("the model %s is there already: another one needs another model_seq_id", m.id)
	}
	if err == nil {
		s.models[m.id] = m
		m.session.models++
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	j, err := openJournal(s.all.store.modelDir(m.id))
	if err == nil {
		if _, err = j.append(&record{Kind: made, Call: call, Origin: &from, payload: body}); err != nil {
			err = errors.Join(err, j.log.Close())
		}
	}
	if err != nil {
		s.mu.Lock()
		delete(s.models, m.id)
		m.session.models--
		s.mu.Unlock()
		return full(err)
	}
	s.all.store.disk.begin(j, m.session.owner)
	m.mu.Lock()
	m.journal = j
	m.mu.Unlock()
	return nil
}

// lose notes that a model cannot be used. Its files stay, and others go on.
func (s *Server) lose(x *session, id string, err error) {
	s.opts.Say(fmt.Sprintf("%s cannot go on, and its files stay: %v", id, err))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost[id], x.damaged = err, true
}

// resuming brings back what a service before this one has left.
type resuming struct{ server *Server }

// run brings back sessions, samplers and models.
func (r *resuming) run() error {
	for _, run := range within(r.server.all.store.dir, "") {
		for _, kind := range within(run, "") {
			if err := durable.RemoveLeftovers(kind); err != nil {
				return err
			}
		}
	}
	for _, dir := range within(r.server.all.store.sessionDir(""), "") {
		var kept keptSession
		err := readKept(filepath.Join(dir, sessionName), &kept)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			continue
		case err != nil:
			r.server.opts.Say(fmt.Sprintf("a session cannot go on, and its files stay: %v", err))
			continue
		}
		x := &session{
			id: filepath.Base(dir), owner: kept.Owner, made: kept.Made, name: kept.Name, metadata: kept.Metadata, project: kept.Project,
			seen: time.Now(), ended: make(chan struct{}), // silence counts anew
		}
		r.server.sessions[x.id] = x
		for _, path := range within(dir, samplerName) {
			if err := r.sampler(x, path); err != nil {
				r.server.opts.Say("a sampling session has ended: " + err.Error())
			}
		}
		for _, path := range within(dir, trainPrefix) {
			id := x.id + ":train:" + strings.TrimPrefix(filepath.Base(path), trainPrefix)
			if err := r.model(x, id, path); err != nil {
				r.server.lose(x, id, err)
			}
		}
	}
	return r.dropSessions()
}

// within returns the paths in a directory whose names begin with a prefix; none if there is no directory.
func within(dir, prefix string) (paths []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

// dropSessions removes what the sampling sessions of ended sessions sampled from.
func (r *resuming) dropSessions() error {
	for _, run := range within(r.server.all.store.dir, "") {
		session, _, ok := strings.Cut(filepath.Base(run), "_train_")
		if _, err := os.Stat(r.server.all.store.sessionDir(session)); !ok || !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(run, ofSessions)); err != nil {
			return err
		}
	}
	return nil
}

func (r *resuming) sampler(x *session, path string) error {
	var kept keptSampler
	if err := readKept(path, &kept); err != nil {
		return err
	}
	number := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), samplerName), ".json")
	id := x.id + ":sample:" + number
	if _, err := r.server.all.of(x, kept.BaseModel, kept.Base); err != nil {
		return err
	}
	sampler, err := r.server.all.samplerFor(x.owner, id, kept.BaseModel, kept.Path)
	if err != nil {
		return err
	}
	if kept.Model != "" {
		c, err := r.server.all.store.find(tinker.Path{Run: kept.Model, Kind: ofSessions, Name: number})
		if err != nil {
			return err
		}
		sampler.model, sampler.adapter = kept.Model, sampler.base.shelf.add(c)
	}
	r.server.addSampler(sampler)
	return nil
}

// model brings back a model with the requests that have no result, and the results.
func (r *resuming) model(x *session, id, dir string) error {
	if _, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), trainPrefix)); err != nil {
		return fmt.Errorf("%s is no model's directory", dir)
	}
	if err := durable.RemoveLeftovers(dir); err != nil {
		return err
	}
	j, err := openJournal(dir)
	if err != nil {
		return err
	}
	if j.log.Next() == 0 { // killed before its client had an answer
		return errors.Join(j.log.Close(), os.RemoveAll(dir))
	}
	t, err := j.read(false)
	if err != nil {
		return errors.Join(err, j.log.Close())
	}
	o := t.origin()
	m := &model{
		id: id, session: x, made: o.Made, about: o.About, recipe: o.Recipe, journal: j,
		wake: make(chan struct{}, 1), out: make(chan struct{}, 1), next: t.next, held: map[int32]*job{}, idle: o.Made,
	}
	if m.base, err = r.server.all.of(m, o.Recipe.BaseModel, o.Base); err != nil {
		return errors.Join(err, j.log.Close())
	}
	if err := r.futures(m, t); err != nil {
		return errors.Join(err, j.log.Close())
	}
	if first := t.results[0]; first != nil && first.Form == failed { // its client has yet to hear that
		m.failHeld(r.server, errors.New("it could not be made"))
		return j.log.Close()
	}
	r.server.models[id] = m
	r.server.all.store.disk.begin(j, x.owner)
	x.models++
	r.server.resumed = append(r.server.resumed, func(ctx context.Context) { r.server.hold(ctx, m) })
	return nil
}

// futures brings back the answers to a model's requests.
func (r *resuming) futures(m *model, t *story) error {
	hasFetched := map[int32]bool{}
	if t.note != nil {
		for _, seq := range t.note.Fetched {
			hasFetched[seq] = true
		}
	}
	for seq, e := range t.results {
		var sum [sha256.Size]byte
		copy(sum[:], e.Sum)
		f := m.acknowledged(r.server, seq, sum)
		f.session, f.stored = m.session, func() (any, error) { return m.stored(seq) }
		f.resume()
		if hasFetched[seq] {
			f.fetched = f.at // it may go in an hour
		}
		m.journal.results[seq] = e.number
	}
	for seq, e := range t.requests {
		c, err := r.server.calls.read(e.Call, e.payload)
		if err != nil {
			return fmt.Errorf("%s: record %d: %w", m.journal.log.Dir(), e.number, err)
		}
		c.slice = e.Slice
		sum := sha256.Sum256(e.payload)
		if e.Sum != nil { // of a request that is not kept
			sum = [sha256.Size]byte(e.Sum)
		}
		f := m.acknowledged(r.server, seq, sum)
		m.take(r.server, &job{c, f, e.Call, time.Now(), len(e.payload) + futureBytes, e.number})
	}
	if t.made != nil && t.results[0] == nil {
		m.making = m.acknowledged(r.server, 0, sha256.Sum256(t.made.payload))
	}
	return nil
}
