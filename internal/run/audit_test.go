package run_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/database"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.SampleStrategies.Register("test_audit", "staleness_control that writes down what it gives.",
		func() trinity.SampleStrategy { return &audit{MaxStaleness: math.Inf(1)} })
}

// audit logs what the trainer takes, and when it resumes.
type audit struct {
	MaxStaleness float64 `yaml:"max_staleness" doc:"as of staleness_control"`
	File         string  `yaml:"file" doc:"where it is written down"`
}

func (a *audit) Needs() trinity.SampleNeeds {
	return trinity.SampleNeeds{Staleness: a.MaxStaleness}
}

func (*audit) Rollouts(n int) int { return n }

// entryOfAudit is a line of the log: a batch, or the state from which a process resumes.
type entryOfAudit struct {
	Batch   int64    `json:"batch"`
	Resumes bool     `json:"resumes"`
	Keys    []string `json:"keys"`
}

func (a *audit) Open(usual trinity.Source, auxiliary map[string]trinity.Source) (trinity.Source, error) {
	inner, err := registry.SampleStrategies.Build("staleness_control", map[string]any{"max_staleness": a.MaxStaleness})
	if err != nil {
		return nil, err
	}
	source, err := inner.Open(usual, auxiliary)
	if err != nil {
		return nil, err
	}
	s := &audited{Source: source, file: a.File}
	return s, s.write(entryOfAudit{Resumes: true})
}

type audited struct {
	trinity.Source
	file  string
	batch int64
}

func (s *audited) Take(ctx context.Context, want trinity.Want) (trinity.Taken, error) {
	taken, err := s.Source.Take(ctx, want)
	if err != nil {
		return taken, err
	}
	s.batch++
	e := entryOfAudit{Batch: s.batch}
	for _, x := range taken.Experiences() {
		e.Keys = append(e.Keys, keyOf(x))
	}
	return taken, s.write(e)
}

func (s *audited) State() (trinity.SourceState, error) {
	state, err := s.Source.State()
	if err != nil {
		return state, err
	}
	state.Cursor, err = json.Marshal(auditCursor{state.Cursor, s.batch})
	return state, err
}

func (s *audited) Restore(state trinity.SourceState) error {
	var c auditCursor
	if err := json.Unmarshal(state.Cursor, &c); err != nil {
		return err
	}
	state.Cursor, s.batch = c.Inner, c.Batch
	if err := s.write(entryOfAudit{Batch: s.batch, Resumes: true}); err != nil {
		return err
	}
	return s.Source.Restore(state)
}

type auditCursor struct {
	Inner json.RawMessage `json:"inner"`
	Batch int64           `json:"batch"`
}

func (s *audited) write(e entryOfAudit) error {
	f, err := os.OpenFile(s.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return err
}

// keyOf returns an experience's id and a sum of its tokens: another rollout of the same task has
// another key.
func keyOf(e *trinity.Experience) string {
	return fmt.Sprintf("%s %08x", e.ID, crc32.ChecksumIEEE(fmt.Append(nil, e.Tokens, e.Logprobs, e.Versions)))
}

// consumed returns the batches that count, without those that kills have undone.
func (p project) consumed(t *testing.T) (batches [][]string) {
	t.Helper()
	for line := range strings.Lines(read(t, p.auditFile())) {
		var e entryOfAudit
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		if e.Resumes {
			batches = batches[:e.Batch]
		} else {
			batches = append(batches, e.Keys)
		}
	}
	return batches
}

// remaining returns the experiences of the run's own buffer that it has not trimmed.
func (p project) remaining(t *testing.T) []*trinity.Experience {
	t.Helper()
	switch {
	case exists(p.logDir()):
		log, err := durable.OpenLog(p.logDir())
		if err != nil {
			t.Fatal(err)
		}
		first := log.First()
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		return p.delivered(t, trinity.SourceState{Cursor: fmt.Appendf(nil, `{"record": %d, "index": 0}`, first)})
	case exists(p.database()):
		return p.stored(t, "sqlite:///"+filepath.ToSlash(p.database()))
	}
	return nil
}

// stored returns the experiences of the run in a database, without those that it has trimmed.
func (p project) stored(t *testing.T, url string) (exps []*trinity.Experience) {
	t.Helper()
	address, err := dburl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	db, err := database.Open(t.Context(), address, database.Options{ReadOnly: true, Retries: 60, Interval: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const query = "SELECT experience FROM trinity_experiences WHERE experience IS NOT NULL AND buffer LIKE ?"
	err = db.Each(t.Context(), query, []any{"%-" + p.word(t)}, func() { exps = nil }, func(rows *sql.Rows) error {
		var data []byte
		if err := rows.Scan(&data); err != nil {
			return err
		}
		e, err := experience.Decode(data)
		exps = append(exps, e)
		return err
	})
	if err != nil && !strings.Contains(err.Error(), "exist") &&
		!strings.Contains(err.Error(), "no such table") { // killed before the tables were made
		t.Fatal(err)
	}
	return exps
}

// word returns the word that tells the run's experiences from those of other runs on a server.
func (p project) word(t *testing.T) string {
	t.Helper()
	file := filepath.Join(p.job(), "buffer", "store_word")
	if !exists(file) {
		return "none was drawn" // killed before that
	}
	return read(t, file)
}

func (p project) database() string { return filepath.Join(p.job(), "buffer", "experience_buffer.db") }

func (p project) logDir() string { return filepath.Join(p.job(), "buffer", "experience_buffer") }

func (p project) auditFile() string { return filepath.Join(p.dir, "audit.jsonl") }
