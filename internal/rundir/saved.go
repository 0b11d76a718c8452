package rundir

import (
	"encoding/binary"
	"io"
	"math"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"github.com/trinity-go/trinity/internal/cachedir"
)

// What is kept in the cache is a header and sections of little-endian numbers.
const (
	saveAfter = 4 << 20 // bytes that are read anew after a start at most, about
	headSize  = 8 + 8 + 1
	valueSize = 4 + 8
)

// header describes what is kept of a file.
type header struct {
	Path     string    `json:"path"` // of the file
	At       Mark      `json:"at"`
	Lines    int       `json:"lines"`
	Bad      int       `json:"bad"`
	FirstBad string    `json:"first_bad"`
	Roles    []string  `json:"roles"`
	Names    []string  `json:"names"`
	Heads    section   `json:"heads"`
	Columns  []section `json:"columns"`
}

// section is a part of a kept file.
type section struct {
	Name   int32  `json:"name"`   // number of the metric
	N      int    `json:"n"`      // values; 0 for no section
	Offset int64  `json:"offset"` // behind the header; in memory, in the file
	Sum    uint32 `json:"sum"`
	UpTo   Mark   `json:"up_to"` // what of the metrics.jsonl is in it
}

func (c *File) path() string {
	path := filepath.Join(c.dir, MetricsFile)
	if real, err := filepath.Abs(path); err == nil {
		return real
	}
	return path
}

func (c *File) keptName() string { return cachedir.Name(c.path(), "columns2") }

// load takes what is kept of the file f, if that still begins as it did. Else nothing is known.
func (c *File) load(f io.ReaderAt, size int64) {
	var h header
	kept, begin, end, err := c.cache.Load(c.keptName(), &h)
	if err != nil {
		return
	}
	defer kept.Close()
	err = h.check(begin, end)
	if err == nil && (h.Path != c.path() || h.At.Offset > size || hashAt(f, h.At.Offset) != h.At.Hash) {
		return
	}
	if err == nil {
		err = c.take(kept, h)
	}
	if err != nil { // it is read and kept anew
		c.clear()
	}
}

// check checks that the sections are in the file, whose body is between two offsets.
func (h *header) check(begin, size int64) error {
	h.Heads.Offset += begin
	for i := range h.Columns {
		h.Columns[i].Offset += begin
	}
	ok := h.At.Offset >= 0 && h.At.Records == h.Heads.N && h.At.Records <= math.MaxUint32 && len(h.Names) <= maxNames &&
		len(h.Roles) <= maxRoles && h.Heads.fits(headSize, size)
	for _, s := range h.Columns {
		ok = ok && s.fits(valueSize, size) && 0 <= s.Name && int(s.Name) < len(h.Names) &&
			s.UpTo.Offset >= 0 && s.UpTo.Offset <= h.At.Offset && s.UpTo.Records >= 0 && s.UpTo.Records <= h.At.Records
	}
	if !ok {
		return cachedir.ErrDamaged
	}
	return nil
}

// fits reports whether a section of values of this size is within a file.
func (s section) fits(each, size int64) bool {
	return s.N >= 0 && s.Offset >= 0 && s.Offset <= size && int64(s.N) <= (size-s.Offset)/each
}

// read returns the bytes of a section.
func (s section) read(kept io.ReaderAt, each int64) ([]byte, error) {
	text := make([]byte, int64(s.N)*each)
	if _, err := kept.ReadAt(text, s.Offset); err != nil {
		return nil, err
	}
	if cachedir.Sum(text) != s.Sum {
		return nil, cachedir.ErrDamaged
	}
	return text, nil
}

// take takes everything but the values from kept columns.
func (c *File) take(kept io.ReaderAt, h header) error {
	text, err := h.Heads.read(kept, headSize)
	if err != nil {
		return err
	}
	n := h.Heads.N
	room := n + n/8 // some come soon
	c.steps, c.times, c.roles = make([]int64, n, room), make([]int64, n, room), make([]uint8, n, room)
	for i := range n {
		c.steps[i] = int64(binary.LittleEndian.Uint64(text[8*i:]))
		c.times[i] = int64(binary.LittleEndian.Uint64(text[8*(n+i):]))
	}
	if copy(c.roles, text[16*n:]); n > 0 && int(slices.Max(c.roles)) >= len(h.Roles) {
		return cachedir.ErrDamaged
	}
	for _, name := range h.Names {
		if _, ok := c.ids[name]; ok {
			return cachedir.ErrDamaged
		}
		c.add(name)
	}
	for _, s := range h.Columns {
		c.kept[s.Name] = s
	}
	c.pos.At, c.roleNames, c.lines, c.bad, c.firstBad = h.At, h.Roles, h.Lines, h.Bad, h.FirstBad
	return nil
}

// loadColumn returns the kept values of a metric, and the mark of what is in them: nothing if none are
// kept.
func (c *File) loadColumn(id int) (*Column, Mark) {
	s, column := c.kept[id], &Column{}
	if s.N == 0 {
		return column, Mark{}
	}
	kept, size, err := c.cache.Open(c.keptName())
	if err != nil {
		return column, Mark{}
	}
	defer kept.Close()
	if !s.fits(valueSize, size) {
		return column, Mark{}
	}
	text, err := s.read(kept, valueSize)
	if err != nil { // also if another studio has kept the file anew
		return column, Mark{}
	}
	room := s.N + s.N/8
	column.Records, column.Values = make([]uint32, s.N, room), make([]float64, s.N, room)
	for i := range s.N {
		column.Records[i] = binary.LittleEndian.Uint32(text[4*i:])
		column.Values[i] = math.Float64frombits(binary.LittleEndian.Uint64(text[4*s.N+8*i:]))
		if int64(column.Records[i]) >= int64(s.UpTo.Records) || i > 0 && column.Records[i] <= column.Records[i-1] {
			return &Column{}, Mark{}
		}
	}
	return column, s.UpTo
}

// isNoText reports whether JSON lacks a name.
func isNoText(name string) bool { return !utf8.ValidString(name) }

// save keeps what was read. Columns that only the cache has stay there. What cannot be kept is read
// again after a start.
func (c *File) save() {
	if c.unsaved = 0; c.cache == nil || slices.ContainsFunc(c.names, isNoText) {
		return
	}
	h := header{Path: c.path(), At: c.pos.At, Lines: c.lines, Bad: c.bad, FirstBad: c.firstBad, Roles: c.roleNames, Names: c.names}
	size := headSize * len(c.steps)
	for id, column := range c.values {
		if column != nil {
			size += valueSize * len(column.Records)
		} else {
			size += valueSize * c.kept[id].N
		}
	}
	body := make([]byte, 0, size)
	for _, numbers := range [][]int64{c.steps, c.times} {
		for _, n := range numbers {
			body = binary.LittleEndian.AppendUint64(body, uint64(n))
		}
	}
	body = append(body, c.roles...)
	h.Heads = section{N: len(c.steps), Sum: cachedir.Sum(body)}
	old, oldSize, err := c.cache.Open(c.keptName())
	if err == nil {
		defer old.Close()
	}
	for id, column := range c.values {
		s, begin := section{Name: int32(id), Offset: int64(len(body)), UpTo: c.pos.At}, len(body)
		switch {
		case column != nil:
			for _, record := range column.Records {
				body = binary.LittleEndian.AppendUint32(body, record)
			}
			for _, v := range column.Values {
				body = binary.LittleEndian.AppendUint64(body, math.Float64bits(v))
			}
			s.N = len(column.Records)
		case c.kept[id].N > 0 && old != nil:
			s.N, s.UpTo = c.kept[id].N, c.kept[id].UpTo
			if !c.kept[id].fits(valueSize, oldSize) {
				continue
			}
			text, err := c.kept[id].read(old, valueSize)
			if err != nil {
				continue
			}
			body = append(body, text...)
		default:
			continue
		}
		s.Sum = cachedir.Sum(body[begin:])
		h.Columns = append(h.Columns, s)
	}
	begin, err := c.cache.Save(c.keptName(), h, body)
	if err != nil {
		return
	}
	for _, s := range h.Columns {
		s.Offset += begin
		c.kept[s.Name] = s
	}
}
