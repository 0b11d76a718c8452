package tinker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// journal is the directory of a model: its requests and their results in a log, and the last state of its trainer. The
// model's mutex guards it.
type journal struct {
	dir     string
	log     *durable.Log
	late    [][]byte        // records that found no room on the disk: the log gets them before anything else
	results map[int32]int64 // numbers of the records of results that the log must keep
	steps   int             // since the last state
	bytes   int             // of the records since then
	changed bool            // the trainer is not as the last state is, or as it was opened if there is none
	longest int64           // bytes of the log from which on results are moved to its end
	moved   int64           // bytes that were moved last
	size    atomic.Int64    // bytes on the disk, without the mutex
}

// Names in the directory of a model.
const (
	logName   = "log"
	stateName = "state"
	noteName  = "journal.json" // in the state
)

// record is a record of the log. Its payload stands behind it: the body of a request, or a result.
type record struct {
	Kind   string  `json:"kind"`
	Seq    int32   `json:"seq"`
	Call   string  `json:"call,omitempty"`    // of made and request: the path of the call
	Slice  int     `json:"slice,omitempty"`   // of request: tokens that are computed at once, as the bits depend on the cut
	Origin *origin `json:"origin,omitempty"`  // of made
	Sum    []byte  `json:"sum,omitempty"`     // SHA-256 of the body of the request: of result, and of a request that is not kept
	Form   string  `json:"form,omitempty"`    // of result
	NotRun bool    `json:"not_run,omitempty"` // of result: the request failed because another did not come
	Until  int32   `json:"until,omitempty"`   // of gap: requests below it have failed, or have not come either

	payload []byte
}

// Kinds of records: how the model was made, a request that was acknowledged, its result, and a request that did not come.
const (
	made      = "made"
	requested = "request"
	resulted  = "result"
	gapped    = "gap"
)

// Forms of results.
const (
	protobuf = "protobuf"
	jsonForm = "json"
	failed   = "failed"
)

func (r *record) encode() ([]byte, error) {
	head, err := json.Marshal(r)
	return append(append(head, '\n'), r.payload...), err
}

func decodeRecord(data []byte) (*record, error) {
	head, payload, ok := bytes.Cut(data, []byte("\n"))
	r := &record{payload: bytes.Clone(payload)}
	if err := json.Unmarshal(head, r); err != nil || !ok {
		return nil, errors.New("it is no record of a service")
	}
	return r, nil
}

// origin says how a model was made, when, and what its client says of it.
type origin struct {
	Recipe recipe            `json:"recipe"`
	Made   time.Time         `json:"made"`
	About  map[string]string `json:"user_metadata,omitempty"`
	Base   string            `json:"base_fingerprint,omitempty"`
}

func (m *model) origin() origin { return origin{m.recipe, m.made, m.about, m.base.Weights} }

// note is what a state says beside the trainer's.
type note struct {
	Origin  origin  `json:"origin"`
	Next    int32   `json:"next_seq_id"` // the request that runs next: the state has what those before it did
	Record  int64   `json:"record"`      // the log's first record that is needed with the state
	Pending bool    `json:"pending"`
	Spoilt  string  `json:"spoilt,omitempty"`
	Fetched []int32 `json:"fetched"` // results that clients have
}

// A test kills the service at these places.
var (
	failCompute  = failpoint.New("tinker.compute")  // before each slice
	failComputed = failpoint.New("tinker.computed") // before a result is in the log
	failTrimmed  = failpoint.New("tinker.trimmed")
)

// How often a state is cut. A replay of so many steps takes less than the SDK waits, 5 minutes, if a step takes 30 s, and
// a state costs less than a tenth of the steps. The log of a model that does not step stays small, too.
const (
	stateSteps = 10
	stateBytes = 64 << 20
	longLog    = 256 << 20
)

// openJournal opens the journal of a directory, or begins one.
func openJournal(dir string) (*journal, error) {
	log, err := durable.OpenLog(filepath.Join(dir, logName))
	j := &journal{dir: dir, log: log, results: map[int32]int64{}, longest: longLog}
	j.measure()
	return j, err
}

// measure counts the bytes on the disk anew.
func (j *journal) measure() {
	if size, err := durable.Size(j.dir); err == nil {
		j.size.Store(size)
	}
}

// append adds a record, which is on the disk then, and returns its number.
func (j *journal) append(r *record) (int64, error) {
	data, err := r.encode()
	if err == nil {
		err = j.flush()
	}
	if err != nil {
		return 0, err
	}
	number, err := j.log.Append(data)
	if err == nil { // else a client that repeats the request would fill its key's disk with nothing
		j.bytes += len(data)
		j.size.Add(int64(len(data)))
	}
	return number, err
}

// later adds a record of what has happened, and returns its number. Without room on the disk it stays in memory, and no
// request is taken before it is in the log.
func (j *journal) later(r *record) (int64, error) {
	data, err := r.encode()
	if err != nil {
		return 0, err
	}
	number := j.log.Next() + int64(len(j.late))
	j.bytes += len(data)
	j.late = append(j.late, data)
	return number, j.flush()
}

// flush appends the records that are late.
func (j *journal) flush() error {
	for len(j.late) > 0 {
		if _, err := j.log.Append(j.late[0]); err != nil {
			return err
		}
		j.size.Add(int64(len(j.late[0])))
		j.late = j.late[1:]
	}
	return nil
}

// result adds the result of a request.
func (j *journal) result(f *future, seq int32, result any, notRun bool) error {
	r := &record{Kind: resulted, Seq: seq, Sum: f.body[:], Form: jsonForm, NotRun: notRun}
	var err error
	switch x := result.(type) {
	case encoded:
		r.Form, r.payload = protobuf, x
	case *tinker.Failed:
		r.Form = failed
		r.payload, err = json.Marshal(x)
	default:
		r.payload, err = json.Marshal(x)
	}
	if err != nil {
		return err
	}
	j.results[seq], err = j.later(r)
	return err
}

// result returns the result in a record.
func (r *record) result() (any, error) {
	switch r.Form {
	case protobuf:
		return encoded(r.payload), nil
	case failed:
		f := &tinker.Failed{}
		return f, json.Unmarshal(r.payload, f)
	}
	return json.RawMessage(r.payload), nil
}

// logResult puts a result into the log, which has it from then on, or once there is room on the disk. The mutex is held.
func (m *model) logResult(f *future, seq int32, result any, notRun bool) error {
	f.session, f.stored = m.session, func() (any, error) { return m.stored(seq) }
	return m.journal.result(f, seq, result, notRun)
}

// stored reads a result from the log.
func (m *model) stored(seq int32) (any, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.journal
	number, ok := j.results[seq]
	if !ok || m.session.hasEnded() { // and its log with it
		return nil, notKept(futureID(m.id, seq))
	}
	data, err := j.record(number)
	if err != nil {
		return nil, &ownError{err}
	}
	r, err := decodeRecord(data)
	if err != nil {
		return nil, &ownError{fmt.Errorf("%s: record %d: %w", j.log.Dir(), number, err)}
	}
	return r.result()
}

// record reads a record, also one that waits for the disk.
func (j *journal) record(number int64) ([]byte, error) {
	if late := number - j.log.Next(); late >= 0 && late < int64(len(j.late)) {
		return j.late[late], nil
	}
	index := durable.IndexLog(j.log.Dir())
	data, err := index.Read(number)
	return data, errors.Join(err, index.Close())
}

// keep puts a result into the log, before the client can have it.
func (m *model) keep(s *Server, f *future, seq int32, result any) {
	if err := failComputed.Hit(""); err != nil {
		s.opts.Say(err.Error())
	}
	m.mu.Lock()
	err := m.logResult(f, seq, result, false)
	m.idle = time.Now()
	m.mu.Unlock()
	if err != nil {
		s.opts.Say(fmt.Sprintf("%s: the result of seq_id %d waits for the disk: %v", m.id, seq, err))
	}
}

// isDue reports whether a state is to be cut. Only a long log is reason enough to write a gradient, too, which the next step
// uses soon.
func (m *model) isDue() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	isWhole := !m.pending && m.spoilt == ""
	return isWhole && m.journal.steps >= stateSteps || m.journal.bytes >= stateBytes
}

// cut writes the state of a model as a whole, and trims its log to what the state and the results in it do not need.
// Only the loop of the model calls it.
func (m *model) cut(ctx context.Context, s *Server) error {
	n := &note{Origin: m.origin(), Pending: m.pending, Spoilt: m.spoilt}
	m.mu.Lock()
	j := m.journal
	err := j.flush()
	n.Next, n.Record = m.next, j.log.Next()
	for _, held := range m.held {
		n.Record = min(n.Record, held.record)
	}
	size := j.bytes
	m.mu.Unlock()
	if err != nil {
		return err
	}
	n.Fetched = m.forgetResults(s)
	err = durable.WriteDir(filepath.Join(j.dir, stateName), func(temp string) error {
		if err := m.trainer.SaveState(ctx, temp); err != nil {
			return err
		}
		data, err := json.Marshal(n)
		if err != nil {
			return err
		}
		return durable.WriteFile(filepath.Join(temp, noteName), data)
	})
	if err != nil {
		return err
	}
	m.mu.Lock()
	j.steps, j.changed, j.bytes = 0, false, j.bytes-size
	m.mu.Unlock()
	err = m.moveResults(n.Record)
	m.mu.Lock()
	keep := n.Record
	for _, number := range j.results {
		keep = min(keep, number)
	}
	m.mu.Unlock()
	defer j.measure()
	return errors.Join(err, j.log.Trim(keep), failTrimmed.Hit(j.dir))
}

// forgetResults leaves out results that no client can ask for any more, and returns those that clients have.
func (m *model) forgetResults(s *Server) (fetched []int32) {
	m.mu.Lock()
	all := slices.Collect(maps.Keys(m.journal.results))
	m.mu.Unlock()
	gone := map[int32]bool{}
	for _, seq := range all {
		if isThere, isFetched := s.results.state(futureID(m.id, seq)); !isThere {
			gone[seq] = true
		} else if isFetched {
			fetched = append(fetched, seq)
		}
	}
	m.mu.Lock()
	maps.DeleteFunc(m.journal.results, func(seq int32, _ int64) bool { return gone[seq] })
	m.mu.Unlock()
	return fetched
}

// moveResults appends the results before a record again, once the log is long: requests lie between them, which would
// stay as long as they do.
func (m *model) moveResults(before int64) error {
	j := m.journal
	size, err := durable.Size(j.log.Dir())
	if err != nil || size < j.longest+2*j.moved {
		return err
	}
	m.mu.Lock()
	results := maps.Clone(j.results)
	m.mu.Unlock()
	index := durable.IndexLog(j.log.Dir())
	moved := int64(0)
	for _, seq := range slices.Sorted(maps.Keys(results)) {
		if results[seq] >= before {
			continue
		}
		data, readErr := index.Read(results[seq])
		if err = readErr; err == nil {
			err = m.moveResult(seq, data)
		}
		if err != nil {
			break
		}
		moved += int64(len(data))
	}
	j.moved = moved
	return errors.Join(err, index.Close())
}

func (m *model) moveResult(seq int32, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.journal.flush()
	if err != nil {
		return err
	}
	number, err := m.journal.log.Append(data)
	if err == nil {
		m.journal.results[seq] = number
	}
	return err
}

// readNote returns the note of the last state; nil if there is none.
func (j *journal) readNote() (*note, error) {
	path := filepath.Join(j.dir, stateName, noteName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	n := &note{}
	if err == nil {
		err = json.Unmarshal(data, n)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}

func futureID(model string, seq int32) string { return fmt.Sprintf("%s:%d", model, seq) }
