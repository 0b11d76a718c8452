package studio

import (
	"bytes"
	"errors"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/trinity-go/trinity/monitor"
)

// columns is what is in memory of a metrics.jsonl: a head of every record, the names of all metrics,
// and the values of those that somebody has asked for. It reads what has come since the last time, and
// everything anew once the file is not the one that it was.
type columns struct {
	dir  string // of the file
	info os.FileInfo
	at   mark // what has been read

	// Of each record: its step, its time, and the number of its role.
	steps, times []int64
	roles        []uint8
	roleNames    []string

	names  []string
	ids    map[string]int32 // the numbers of the names
	after  []int32          // by a name's number + 1, the name that came next when it last did; 0 is the begin of a line
	values []*column        // by a name's number; nil if nobody has asked for it

	bad   int    // lines that are no records
	pairs []pair // of the line that is read
}

// column is the values of a metric.
type column struct {
	records []uint32
	values  []float64
}

// mark is an offset in a file, and tells whether the bytes before it are still the same.
type mark struct {
	Offset  int64  `json:"o"`
	Hash    uint64 `json:"h"` // of the bytes before it
	Records int    `json:"n"` // before it
}

// Limits of what is read of a file.
const (
	maxNames = 100_000  // metrics; those beyond have no curve
	maxLine  = 64 << 20 // bytes of a line; a longer one is damage
	maxRoles = 255
	readSize = 1 << 20
	hashSize = 64 << 10 // bytes before a mark that must be the same
	sample   = 64       // records by which the number of all is guessed
	maxGrow  = 1 << 20  // records for which there is room before they come
)

func newColumns(dir string) *columns {
	return &columns{dir: dir, ids: map[string]int32{}, after: []int32{-1}}
}

// update reads what is new, and the values of the metrics wanted. It reports whether the file still has
// all that was before a mark. Without a file there are no records.
func (c *columns) update(wanted []string, since mark) (has bool, err error) {
	f, size, err := openWithin(c.dir, monitor.File)
	if errors.Is(err, fs.ErrNotExist) {
		*c = *newColumns(c.dir)
		return since.Offset == 0, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if c.info == nil || !os.SameFile(c.info, info) || size < c.at.Offset || hashAt(f, c.at.Offset) != c.at.Hash {
		*c = *newColumns(c.dir)
	}
	c.info = info
	missing, some := make([]*column, len(c.names)), false
	isWanted := map[string]bool{}
	for _, name := range wanted {
		isWanted[name] = true
		if id, ok := c.ids[name]; ok && c.values[id] == nil {
			missing[id], some = &column{}, true
		}
	}
	if some {
		if err := c.fill(f, missing); err != nil {
			return false, err
		}
	}
	if err := c.extend(f, size, isWanted); err != nil {
		return false, err
	}
	return since.Offset <= c.at.Offset && hashAt(f, since.Offset) == since.Hash, nil
}

// fill reads the values of metrics of the records that are known.
func (c *columns) fill(f io.ReaderAt, missing []*column) error {
	record := 0
	err := eachLine(f, 0, c.at.Offset, func(line []byte, _ int64) {
		_, pairs, wrong := scan(line, c.pairs)
		if c.pairs = pairs; wrong == nil && record < len(c.steps) {
			c.take(uint32(record), missing, nil)
			record++
		}
	})
	for id, column := range missing {
		if column != nil && err == nil {
			c.values[id] = column
		}
	}
	return err
}

// extend reads the lines behind those that are known, up to size.
func (c *columns) extend(f io.ReaderAt, size int64, wanted map[string]bool) error {
	before := c.at.Offset
	err := eachLine(f, before, size, func(line []byte, end int64) {
		c.at.Offset = end
		h, pairs, err := scan(line, c.pairs)
		if c.pairs = pairs; err != nil {
			if len(bytes.TrimSpace(line)) > 0 || line == nil {
				c.bad++
			}
			return
		}
		if n := len(c.steps); n == sample { // the others are about as long
			n = int(min(size/(end/sample), maxGrow)) + sample
			c.steps, c.times, c.roles = slices.Grow(c.steps, n), slices.Grow(c.times, n), slices.Grow(c.roles, n)
		}
		c.take(uint32(len(c.steps)), nil, wanted)
		c.steps, c.times, c.roles = append(c.steps, h.step), append(c.times, h.time), append(c.roles, c.roleOf(h.role))
	})
	c.at.Records = len(c.steps)
	if c.at.Offset != before {
		c.at.Hash = hashAt(f, c.at.Offset)
	}
	return err
}

// take appends the values of a record to the columns; if there are none, to those of the file. It then
// also learns names, and those that are wanted get a column.
func (c *columns) take(record uint32, to []*column, wanted map[string]bool) {
	learns, before := to == nil, int32(-1)
	for _, p := range c.pairs {
		id := c.after[before+1]
		if id < 0 || c.names[id] != string(p.name) { // metrics mostly come in the same order
			var ok bool
			if id, ok = c.ids[string(p.name)]; !ok {
				if !learns || len(c.names) == maxNames {
					continue
				}
				id = c.learn(string(p.name), wanted)
			}
			c.after[before+1] = id
		}
		before = id
		column := c.values[id]
		if !learns {
			column = to[id]
		}
		if column == nil {
			continue
		}
		if v, ok := valueOf(p.value); ok {
			column.records, column.values = append(column.records, record), append(column.values, v)
		}
	}
}

// learn gives a name its number.
func (c *columns) learn(name string, wanted map[string]bool) int32 {
	id := int32(len(c.names))
	var values *column
	if wanted[name] {
		values = &column{}
	}
	c.ids[name] = id
	c.names, c.after, c.values = append(c.names, name), append(c.after, -1), append(c.values, values)
	return id
}

func (c *columns) roleOf(name []byte) uint8 {
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

// size returns the bytes of memory that the columns take, about.
func (c *columns) size() (bytes int) {
	bytes = 17*cap(c.steps) + 100*len(c.names)
	for i, column := range c.values {
		if bytes += len(c.names[i]); column != nil {
			bytes += 4*cap(column.records) + 8*cap(column.values)
		}
	}
	return bytes
}

// hashAt returns a hash of what is before an offset.
func hashAt(f io.ReaderAt, offset int64) uint64 {
	h := fnv.New64a()
	n := min(max(offset, 0), hashSize)
	_, _ = io.Copy(h, io.NewSectionReader(f, offset-n, n)) // what cannot be read has another hash
	return h.Sum64()
}

// buffers are what files are read into.
var buffers = sync.Pool{New: func() any { b := make([]byte, readSize); return &b }}

// eachLine calls visit with every whole line between two offsets, and the offset behind it; with nil for
// a line that is too long.
func eachLine(f io.ReaderAt, from, to int64, visit func(line []byte, end int64)) error {
	kept := buffers.Get().(*[]byte)
	defer buffers.Put(kept)
	held, long := (*kept)[:0], false
	for at := from; at < to; {
		if len(held) == cap(held) {
			if long = long || len(held) >= maxLine; long {
				held = held[:0]
			} else {
				held = append(make([]byte, 0, 2*cap(held)), held...)
			}
		}
		n, err := f.ReadAt(held[len(held):min(int64(cap(held)), int64(len(held))+to-at)], at)
		if n == 0 && err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		at += int64(n)
		rest := held[:len(held)+n]
		for {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				break
			}
			line := rest[:i+1]
			if rest = rest[i+1:]; long {
				line = nil
			}
			long = false
			visit(line, at-int64(len(rest)))
		}
		held = held[:copy(held[:cap(held)], rest)]
	}
	return nil
}
