package rundir

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/cachedir"
)

// File is what is in memory of a metrics.jsonl: a head of every record, the names of all metrics, and
// the values of those that somebody has asked for. It reads what has come since the last time, and
// everything anew once the file is not the one that it was.
type File struct {
	dir   string // of the file
	cache *cachedir.Dir
	pos   Position

	// Of each record: its step, its time, and the number of its role.
	steps, times []int64
	roles        []uint8
	roleNames    []string

	names  []string
	keys   []string // of the names, as a line has them: "name":; "" of one with escapes
	ids    map[string]int32
	after  []int32   // by a name's number + 1, the name that came next when it last did; 0 is the begin of a line
	values []*Column // by the number of a metric; nil if Update was not asked for it
	kept   []section // by a name's number, the values that the cache has

	lines, bad int // lines, and those that are no records

	firstBad string // number of the first of bad, and what is wrong with it

	unsaved int64 // bytes that were read since the cache has the columns
	pairs   []Pair
	hits    []hit
}

// Column is the values of a metric: the numbers of the records that have one, and the values.
type Column struct {
	Records []uint32
	Values  []float64
	known   uint32 // records of the file that are in it already, while others are read
}

// Mark is an offset in a file, and tells whether the bytes before it are still the same.
type Mark struct {
	Offset  int64  `json:"o"`
	Hash    uint64 `json:"h"` // of the bytes before it
	Records int    `json:"n"` // before it
}

// MarkAt returns the mark at an offset, without a count of records.
func MarkAt(f io.ReaderAt, offset int64) Mark { return Mark{Offset: offset, Hash: hashAt(f, offset)} }

// Holds reports whether the bytes before the mark are still the same.
func (m Mark) Holds(f io.ReaderAt) bool { return hashAt(f, m.Offset) == m.Hash }

// hit is a value of a line that somebody has asked for.
type hit struct {
	to    *Column
	value []byte
}

// Limits of what is read of a file.
const (
	maxNames = 100_000  // metrics; those beyond have no curve
	maxLine  = 64 << 20 // bytes of a line; a longer one is damage
	maxRoles = 255
	hashSize = 64 << 10 // bytes before a mark that must be the same
	sample   = 64       // records by which the number of all is guessed
	maxGrow  = 1 << 20  // records for which there is room before they come
)

// NewFile returns the columns of the metrics.jsonl in a directory. What was read of a large file stays in
// the cache, which may be nil.
func NewFile(dir string, cache *cachedir.Dir) *File {
	if cache.IsBelow(filepath.Dir(dir)) { // nothing is written into a run's directory
		cache = nil
	}
	f := &File{dir: dir, cache: cache}
	f.clear()
	return f
}

func (c *File) clear() {
	*c = File{dir: c.dir, cache: c.cache, pos: Position{info: c.pos.info}, ids: map[string]int32{}, after: []int32{-1}}
}

// Update reads what is new, and the values of the metrics wanted; nil wants none. It reports whether the
// file still has all that was before a mark. Without a file there are no records.
func (c *File) Update(wanted func(name string) bool, since Mark) (has bool, err error) {
	f, info, isSame, err := c.pos.Open(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		c.clear()
		return since.Offset == 0, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	size := info.Size()
	if !isSame {
		c.clear()
		c.load(f, size)
	}
	if err := c.fill(f, wanted); err != nil {
		return false, err
	}
	if err := c.extend(f, size, wanted); err != nil {
		return false, err
	}
	if c.unsaved >= saveAfter {
		c.save()
	}
	if since.Offset == c.pos.At.Offset {
		return since.Hash == c.pos.At.Hash, nil
	}
	return since.Offset < c.pos.At.Offset && hashAt(f, since.Offset) == since.Hash, nil
}

// fill reads the values of metrics of the records that are known: from the cache, and from the file what
// the cache lacks.
func (c *File) fill(f io.ReaderAt, wanted func(name string) bool) error {
	if wanted == nil {
		return nil
	}
	missing := make([]*Column, len(c.names))
	from := c.pos.At
	for id, name := range c.names {
		if c.values[id] != nil || !wanted(name) {
			continue
		}
		column, upTo := c.loadColumn(id)
		column.known = uint32(upTo.Records)
		missing[id] = column
		if upTo.Offset < from.Offset {
			from = upTo
		}
	}
	record := from.Records
	err := EachLine(f, from.Offset, c.pos.At.Offset, func(line []byte, _ int64) {
		if _, ok := c.quick(line, missing); !ok {
			_, pairs, wrong := Scan(line, c.pairs)
			if c.pairs = pairs; wrong != nil {
				return
			}
			c.collect(missing)
		}
		if record < len(c.steps) {
			c.append(uint32(record))
			record++
		}
	})
	for id, column := range missing {
		if column != nil && err == nil {
			c.values[id] = column
		}
	}
	c.unsaved += c.pos.At.Offset - from.Offset
	return err
}

// extend reads the lines behind those that are known, up to size.
func (c *File) extend(f io.ReaderAt, size int64, wanted func(name string) bool) error {
	before := c.pos.At.Offset
	err := EachLine(f, before, size, func(line []byte, end int64) {
		c.pos.At.Offset = end
		c.lines++
		h, ok := c.quick(line, c.values)
		if !ok {
			var err error
			if h, c.pairs, err = Scan(line, c.pairs); err != nil {
				c.damaged(line)
				return
			}
			c.learn(wanted)
			c.collect(c.values)
		}
		if n := len(c.steps); n == sample { // the others are about as long
			n = int(min(size/(end/sample), maxGrow)) + sample
			c.steps, c.times, c.roles = slices.Grow(c.steps, n), slices.Grow(c.times, n), slices.Grow(c.roles, n)
		}
		c.append(uint32(len(c.steps)))
		c.steps, c.times, c.roles = append(c.steps, h.Step), append(c.times, h.Time), append(c.roles, c.roleOf(h.Role))
	})
	c.pos.At.Records = len(c.steps)
	if c.pos.At.Offset != before {
		c.pos.At.Hash = hashAt(f, c.pos.At.Offset)
	}
	c.unsaved += c.pos.At.Offset - before
	return err
}

// damaged counts a line that is no record, unless there is nothing in it.
func (c *File) damaged(line []byte) {
	if line != nil && len(bytes.TrimSpace(line)) == 0 {
		return
	}
	if c.bad++; c.bad == 1 {
		_, err := Parse(line)
		c.firstBad = fmt.Sprintf("%d: not a record of the jsonl monitor: %.200v", c.lines, cmp.Or(err, errLine))
	}
}

// learn gives the names of a line, which are in pairs, their numbers. Those that are wanted get a column.
func (c *File) learn(wanted func(name string) bool) {
	for _, p := range c.pairs {
		if _, ok := c.ids[string(p.Name)]; ok || len(c.names) == maxNames {
			continue
		}
		c.add(string(p.Name))
		if id := len(c.names) - 1; wanted != nil && wanted(c.names[id]) {
			c.values[id] = &Column{}
		}
	}
}

func (c *File) add(name string) {
	key := `"` + name + `":`
	if strings.Contains(name, `\`) { // what a line has so is another name
		key = ""
	}
	c.ids[name] = int32(len(c.names))
	c.names, c.keys = append(c.names, name), append(c.keys, key)
	c.after, c.values, c.kept = append(c.after, -1), append(c.values, nil), append(c.kept, section{})
}

// collect notes the values of a line, which are in pairs, for columns.
func (c *File) collect(to []*Column) {
	c.hits = c.hits[:0]
	for _, p := range c.pairs {
		if id, ok := c.ids[string(p.Name)]; ok && to[id] != nil {
			c.hits = append(c.hits, hit{to[id], p.Value})
		}
	}
}

// append appends the values of a record to their columns. Of a name that is twice in a line the last
// value counts.
func (c *File) append(record uint32) {
	for _, h := range c.hits {
		v, ok := ValueOf(h.value)
		if n := len(h.to.Records); !ok || record < h.to.known {
			continue
		} else if n > 0 && h.to.Records[n-1] == record {
			h.to.Values[n-1] = v
			continue
		}
		h.to.Records, h.to.Values = append(h.to.Records, record), append(h.to.Values, v)
	}
}

func (c *File) roleOf(name []byte) uint8 {
	for i, role := range c.roleNames {
		if role == string(name) {
			return uint8(i)
		}
	}
	if len(c.roleNames) < maxRoles {
		c.roleNames = append(c.roleNames, string(name))
	}
	return uint8(len(c.roleNames) - 1)
}

// Damage returns an error that names the first line that is no record, nil if there is none.
func (c *File) Damage() error {
	if c.bad == 0 {
		return nil
	}
	return fmt.Errorf("%s:%s", filepath.Join(c.dir, MetricsFile), c.firstBad)
}

// Size returns the bytes of memory that the columns take, about.
func (c *File) Size() (bytes int) {
	bytes = 17*cap(c.steps) + 150*len(c.names)
	for i, column := range c.values {
		if bytes += 2 * len(c.names[i]); column != nil {
			bytes += 4*cap(column.Records) + 8*cap(column.Values)
		}
	}
	return bytes
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// hashAt returns a hash of what is before an offset.
func hashAt(f io.ReaderAt, offset int64) uint64 {
	kept := buffers.Get().(*[]byte)
	defer buffers.Put(kept)
	size := min(max(offset, 0), hashSize)
	n, _ := f.ReadAt((*kept)[:size], offset-size) // what cannot be read has another hash
	text := (*kept)[:n]
	return uint64(crc32.ChecksumIEEE(text))<<32 | uint64(crc32.Checksum(text, castagnoli))
}
