package studio

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/serve/web"
)

// cursor says what of a run's metrics a page has: a mark of each file, by the name of its directory. In
// an address it is one word.
type cursor map[string]rundir.Mark

func (c cursor) String() string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // it has numbers and names only
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// parseCursor returns the cursor of a word. One of another version, or none, has nothing.
func parseCursor(word string) cursor {
	var c cursor
	text, err := base64.RawURLEncoding.DecodeString(word)
	if err != nil || json.Unmarshal(text, &c) != nil {
		return nil
	}
	for _, m := range c {
		if m.Offset < 0 || m.Records < 0 {
			return nil
		}
	}
	return c
}

// reading is the metrics of a run, of all its files. It stays as it is when the files grow.
type reading struct {
	files []rundir.Table
	since []int // by file, the number of records that the reader has
	at    cursor
	reset bool // the reader must forget what it has
}

// curves answers with the metrics of runs. It bounds the memory of all answers: a request waits until there is room
// for it.
type curves struct {
	runs         *runs
	files        *cache
	every        time.Duration // between looks at the files of a live page
	reads, bytes *semaphore.Weighted
	comparing    sync.Mutex
}

// newCurves returns the curves of runs. every is as of [Server.Every].
func newCurves(of *runs, every time.Duration) *curves {
	return &curves{runs: of, files: of.files, every: cmp.Or(every, look),
		reads: semaphore.NewWeighted(metricReads), bytes: semaphore.NewWeighted(maxAnswers)}
}

// read returns the metrics of the run in a directory, with the values of those wanted; nil wants none.
func (s *curves) read(dir string, wanted func(string) bool, word string) (r reading, err error) {
	since, dirs := parseCursor(word), rundir.Monitors(dir)
	r.at, r.reset = cursor{}, since == nil
	for name := range since {
		r.reset = r.reset || !slices.Contains(dirs, filepath.Join(dir, rundir.Monitor, name))
	}
	defer s.files.trim()
	for _, d := range dirs {
		name, err := filepath.Rel(filepath.Join(dir, rundir.Monitor), d)
		if err != nil {
			return r, err
		}
		name = strings.TrimPrefix(name, ".")
		t, has, _, err := s.files.update(d, wanted, since[name])
		if err != nil {
			return r, err
		}
		if len(t.Steps) > 0 {
			r.at[name] = t.At
		}
		r.reset = r.reset || !has
		r.files, r.since = append(r.files, t), append(r.since, since[name].Records)
	}
	if r.reset {
		r.since = make([]int, len(r.files))
	}
	return r, nil
}

// fresh returns how many values of a metric the reader lacks, and the least step of them.
func (r *reading) fresh(name string) (n int, from int64) {
	from = math.MaxInt64
	for i := range r.files {
		f := &r.files[i]
		records := f.Column(name).Records
		at, _ := slices.BinarySearch(records, uint32(min(r.since[i], math.MaxUint32)))
		for _, record := range records[at:] {
			n, from = n+1, min(from, f.Steps[record])
		}
	}
	return n, from
}

// points appends the values of a metric that the reader lacks to points, by step.
func (r *reading) points(name string, points []rundir.Point) []rundir.Point {
	n, from := r.fresh(name)
	if n == 0 {
		return points
	}
	points = slices.Grow(points, n)
	for i := range r.files {
		f := &r.files[i]
		column := f.Column(name)
		for k, record := range column.Records {
			if step := f.Steps[record]; step >= from {
				points = append(points, rundir.Point{Step: step, Time: f.Times[record], Value: column.Values[k], IsKnown: int(record) < r.since[i]})
			}
		}
	}
	return rundir.ByStep(points)
}

// usual are the metrics that the page of curves shows first. A file whose names are asked for has their
// values read with them.
var usual = []string{
	"rollout/reward/mean", "critic/score/mean", "rollout/response_length/mean", "response_length/mean", "actor/entropy_loss",
	"actor/ppo_kl", "actor/kl",
}

func isUsual(name string) bool { return slices.Contains(usual, name) }

// names answers with the names of all metrics of a run.
func (s *curves) names(_ *http.Request, f *runFiles) (any, error) {
	all, bad := map[string]bool{}, 0
	read, err := s.read(f.dir, isUsual, "")
	for _, t := range read.files {
		for _, name := range t.Names {
			all[name] = true
		}
		bad += t.Bad
	}
	damaged := []string{}
	if bad > 0 {
		damaged = append(damaged, fmt.Sprintf("%d lines of %s are no records and are left out", bad, filepath.Join(f.dir, rundir.Monitor)))
	}
	return map[string]any{"names": slices.Sorted(maps.Keys(all)), "cursor": read.at.String(), "damaged": damaged}, err
}

// maxWanted is how many metrics one request may ask for.
const maxWanted = 256

// metrics answers with columns of steps, times and values.
func (s *curves) metrics(w http.ResponseWriter, r *http.Request) error {
	f, err := s.runs.open(r.PathValue("run"))
	wanted := r.URL.Query()["name"] // for those with a comma
	if list := r.URL.Query().Get("names"); list != "" {
		wanted = append(wanted, strings.Split(list, ",")...)
	}
	switch {
	case err != nil:
		return err
	case len(wanted) == 0:
		return mistake{errors.New("names is not given: name the metrics, with commas between them")}
	case len(wanted) > maxWanted:
		return mistake{fmt.Errorf("names has %d metrics: ask for at most %d at once", len(wanted), maxWanted)}
	}
	return s.write(w, r, f.dir, wanted)
}

// Bounds of what all requests have in memory together.
const (
	maxAnswers  = 64 << 20 // bytes of the answers that are being sent
	valueBytes  = 24       // of a value in an answer, with its step and its time
	metricReads = 2        // requests whose values are read at once
)

// write writes the columns of some metrics. With an error it has written nothing.
func (s *curves) write(w http.ResponseWriter, r *http.Request, dir string, names []string) error {
	if err := s.reads.Acquire(r.Context(), 1); err != nil { // who asked has gone
		return err
	}
	room := int64(0) // bytes that the answer takes
	defer func() { s.bytes.Release(room) }()
	head, body, err := func() (head, body []byte, err error) {
		defer s.reads.Release(1)
		set := map[string]bool{}
		for _, name := range names {
			set[name] = true
		}
		read, err := s.read(dir, func(name string) bool { return set[name] }, r.URL.Query().Get("since"))
		if err != nil {
			return nil, nil, err
		}
		n := int64(0)
		for _, name := range names {
			fresh, _ := read.fresh(name)
			n += valueBytes * int64(fresh)
		}
		if n > maxAnswers {
			return nil, nil, mistake{fmt.Errorf("the answer has %d MiB: ask for fewer metrics at once", n>>20)}
		}
		if err := s.bytes.Acquire(r.Context(), n); err != nil {
			return nil, nil, err
		}
		room = n
		return encode(&read, names, make([]byte, 0, n))
	}()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if _, err := w.Write(head); err == nil {
		_, _ = w.Write(body) // the reader may have gone
	}
	return nil
}

// maxShared is how many series are compared with each other one: the metrics of a role come at the same
// steps.
const maxShared = 8

// sameAs returns the place of the series with these steps and times, nil if there is none.
func sameAs(whole map[int][]byte, columns []byte) *int {
	for i, of := range whole {
		if bytes.Equal(of, columns) {
			return &i
		}
	}
	return nil
}

// pointsKept are what answers are made in.
var pointsKept = sync.Pool{New: func() any { return new([]rundir.Point) }}

// encode returns a header, whose end is at a multiple of 8 bytes, and appends the columns behind it to
// body, which has the room.
func encode(r *reading, names []string, body []byte) (head, _ []byte, err error) {
	type series struct {
		Name string `json:"name"`
		N    int    `json:"n"`
		As   *int   `json:"as,omitempty"` // the place of the series that has the same steps and times
	}
	header := struct {
		Cursor string   `json:"cursor"`
		Reset  bool     `json:"reset"`
		Series []series `json:"series"`
	}{r.at.String(), r.reset, []series{}}
	kept := pointsKept.Get().(*[]rundir.Point)
	defer pointsKept.Put(kept)
	whole := map[int][]byte{} // the steps and times of series that others may have too, by place
	for i, name := range names {
		*kept = r.points(name, (*kept)[:0])
		points := *kept
		begin := len(body)
		for _, p := range points {
			body = binary.LittleEndian.AppendUint64(body, math.Float64bits(float64(p.Step)))
		}
		for _, p := range points {
			body = binary.LittleEndian.AppendUint64(body, math.Float64bits(float64(p.Time)))
		}
		header.Series = append(header.Series, series{name, len(points), sameAs(whole, body[begin:])})
		if header.Series[i].As != nil {
			body = body[:begin]
		} else if len(whole) < maxShared {
			whole[i] = body[begin:]
		}
		for _, p := range points {
			body = binary.LittleEndian.AppendUint64(body, math.Float64bits(p.Value))
		}
	}
	text, err := web.Encode(header)
	if err != nil {
		return nil, nil, err
	}
	padded := (len(text)+4+7)/8*8 - 4
	head = append(binary.LittleEndian.AppendUint32(make([]byte, 0, 4+padded), uint32(padded)), text...)
	for len(head) < 4+padded {
		head = append(head, ' ')
	}
	return head, body, nil
}
