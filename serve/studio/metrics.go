package studio

import (
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

	"github.com/trinity-go/trinity/serve/web"
)

// cursor says what of a run's metrics a page has: a mark of each file, by the name of its directory. In
// an address it is one word.
type cursor map[string]mark

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

// reading is the metrics of a run, of all its files.
type reading struct {
	files []*columns
	since []int // by file, the number of records that the reader has
	at    cursor
	reset bool // the reader must forget what it has
}

// read calls use with the metrics of a run, and the values of those wanted. The files stay as they are
// until it returns.
func (s *Server) read(dir string, wanted []string, word string, use func(reading)) error {
	var r reading
	since, dirs := parseCursor(word), monitorDirs(dir)
	r.at, r.reset = cursor{}, since == nil
	for name := range since {
		r.reset = r.reset || !slices.Contains(dirs, filepath.Join(dir, monitorDir, name))
	}
	var entries []*entry
	defer func() {
		for _, e := range entries {
			e.mu.Unlock()
		}
		s.cache.trim()
	}()
	for _, d := range dirs {
		e := s.cache.entry(d)
		e.mu.Lock()
		entries = append(entries, e)
		name, err := filepath.Rel(filepath.Join(dir, monitorDir), d)
		if err != nil {
			return err
		}
		name = strings.TrimPrefix(name, ".")
		from, ok := since[name]
		if !ok {
			from.Hash = emptyHash
		}
		has, err := s.cache.update(e, wanted, from)
		if err != nil {
			return err
		}
		if len(e.columns.steps) > 0 {
			r.at[name] = e.columns.at
		}
		r.reset = r.reset || !has
		r.files, r.since = append(r.files, e.columns), append(r.since, from.Records)
	}
	if r.reset {
		r.since = make([]int, len(r.files))
	}
	use(r)
	return nil
}

var emptyHash = hashAt(strings.NewReader(""), 0)

// point is a value of a metric.
type point struct {
	step, time int64
	value      float64
	isNew      bool
}

// points returns the values of a metric that the reader lacks, by step. Several values of a step, which
// several explorers give, are their mean; if one of them is new, the mean is.
func (r *reading) points(name string) (points []point) {
	for i, f := range r.files {
		id, ok := f.ids[name]
		if !ok || f.values[id] == nil {
			continue
		}
		for k, record := range f.values[id].records {
			points = append(points, point{f.steps[record], f.times[record], f.values[id].values[k], int(record) >= r.since[i]})
		}
	}
	byStep := func(a, b point) int { return cmp.Compare(a.step, b.step) }
	if !slices.IsSortedFunc(points, byStep) {
		slices.SortStableFunc(points, byStep)
	}
	out := points[:0]
	for begin := 0; begin < len(points); {
		p, n := points[begin], 1.0
		for begin++; begin < len(points) && points[begin].step == p.step; begin++ {
			next := points[begin]
			n++
			p.value = p.value*((n-1)/n) + next.value/n // without an overflow
			p.time, p.isNew = max(p.time, next.time), p.isNew || next.isNew
		}
		if p.isNew {
			out = append(out, p)
		}
	}
	return out
}

// names answers with the names of all metrics of a run.
func (s *Server) names(r *http.Request) (any, error) {
	_, dir, err := s.runDir(r)
	if err != nil {
		return nil, err
	}
	all, at, bad := map[string]bool{}, "", 0
	err = s.read(dir, nil, "", func(r reading) {
		for _, f := range r.files {
			for _, name := range f.names {
				all[name] = true
			}
			bad += f.bad
		}
		at = r.at.String()
	})
	damaged := []string{}
	if bad > 0 {
		damaged = append(damaged, fmt.Sprintf("%d lines of %s are no records and are left out", bad, filepath.Join(dir, monitorDir)))
	}
	return map[string]any{"names": slices.Sorted(maps.Keys(all)), "cursor": at, "damaged": damaged}, err
}

// maxWanted is how many metrics one request may ask for.
const maxWanted = 256

// metrics answers with columns of steps, times and values.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	_, dir, err := s.runDir(r)
	wanted := r.URL.Query()["name"] // for those with a comma
	if list := r.URL.Query().Get("names"); list != "" {
		wanted = append(wanted, strings.Split(list, ",")...)
	}
	switch {
	case err != nil:
	case len(wanted) == 0:
		err = mistake{errors.New("names is not given: name the metrics, with commas between them")}
	case len(wanted) > maxWanted:
		err = mistake{fmt.Errorf("names has %d metrics: ask for at most %d at once", len(wanted), maxWanted)}
	}
	var body []byte
	if err == nil {
		err = s.read(dir, wanted, r.URL.Query().Get("since"), func(read reading) { body, err = encode(&read, wanted) })
	}
	if err != nil {
		web.Refuse(w, statusOf(err), err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(body) // the reader may have gone
}

// encode writes a header and the columns behind it, at a multiple of 8 bytes.
func encode(r *reading, names []string) ([]byte, error) {
	type series struct {
		Name string `json:"name"`
		N    int    `json:"n"`
	}
	header := struct {
		Cursor string   `json:"cursor"`
		Reset  bool     `json:"reset"`
		Series []series `json:"series"`
	}{r.at.String(), r.reset, []series{}}
	var all [][]point
	values := 0
	for _, name := range names {
		points := r.points(name)
		all, values = append(all, points), values+3*len(points)
		header.Series = append(header.Series, series{name, len(points)})
	}
	text, err := web.Encode(header)
	if err != nil {
		return nil, err
	}
	padded := (len(text)+4+7)/8*8 - 4
	body := make([]byte, 0, 4+padded+8*values)
	body = binary.LittleEndian.AppendUint32(body, uint32(padded))
	body = append(body, text...)
	for len(body) < 4+padded {
		body = append(body, ' ')
	}
	for _, points := range all {
		for _, of := range []func(point) float64{
			func(p point) float64 { return float64(p.step) }, func(p point) float64 { return float64(p.time) },
			func(p point) float64 { return p.value },
		} {
			for _, p := range points {
				body = binary.LittleEndian.AppendUint64(body, math.Float64bits(of(p)))
			}
		}
	}
	return body, nil
}
