package trace

import (
	"encoding/binary"

	"github.com/trinity-go/trinity/internal/cachedir"
)

// spanFields is how many numbers a kept span has.
const spanFields = 9

// tableHeader is the header of a kept table. Its body has the words, and the spans of each process as variable-length
// numbers.
type tableHeader struct {
	Files     map[string]*tableFile `json:"files"`
	Words     int                   `json:"words"`
	Processes []keptProcess         `json:"processes"`
	Sum       uint32                `json:"sum"` // of the body
}

type keptProcess struct {
	Number int
	Spans  int
	life[int32]
}

// Size returns the bytes of the trace's files that were read.
func (t *Table) Size() (n int64) {
	for _, file := range t.files {
		n += file.Offset
	}
	return n
}

func tableName(dir string) string { return cachedir.Name(dir, "spans2") }

// Keep returns a function that writes the table of the trace in a directory, as it is now, for [LoadTable].
func (t *Table) Keep(disk *cachedir.Dir, dir string) (write func() error) {
	h, n := tableHeader{Files: t.files, Words: len(t.Words)}, 0
	for _, p := range t.processes {
		h.Processes = append(h.Processes, keptProcess{p.Number, len(p.Spans), p.life})
		n += len(p.Spans)
	}
	out := make([]byte, 0, 20*n)
	for _, word := range t.Words {
		out = append(binary.AppendUvarint(out, uint64(len(word))), word...)
	}
	for _, p := range t.processes {
		var last Compact
		for _, s := range p.Spans {
			out = binary.AppendVarint(out, s.Begin-last.Begin)
			out = binary.AppendVarint(out, s.End-s.Begin)
			out = binary.AppendVarint(out, s.Step-last.Step)
			out = binary.AppendVarint(out, s.Version-last.Version)
			for _, word := range [...]int32{s.Role, s.Kind, s.Name, s.For} {
				out = binary.AppendUvarint(out, uint64(word))
			}
			out = binary.AppendVarint(out, int64(s.ID)-int64(last.ID))
			last = s
		}
	}
	h.Sum = cachedir.Sum(out)
	return func() error {
		_, err := disk.Save(tableName(dir), h, out)
		return err
	}
}

// LoadTable returns what a disk has of the trace in a directory: an empty table if that is nothing, or damaged.
func LoadTable(disk *cachedir.Dir, dir string) *Table {
	var h tableHeader
	file, begin, end, err := disk.Load(tableName(dir), &h)
	if err != nil {
		return &Table{}
	}
	defer file.Close()
	body := make([]byte, end-begin)
	if _, err := file.ReadAt(body, begin); err != nil || cachedir.Sum(body) != h.Sum {
		return &Table{}
	}
	t, ok := h.table(body)
	if !ok {
		return &Table{}
	}
	return t
}

// table returns the table in a body; ok is false if it is damaged.
func (h *tableHeader) table(body []byte) (t *Table, ok bool) {
	in := varints{rest: body, ok: h.Words >= 0 && h.Words <= len(body)}
	t = &Table{files: h.Files}
	for name, file := range h.Files {
		in.ok = in.ok && file != nil && file.Offset >= 0 && name != ""
	}
	if in.ok {
		t.Words = make([]string, h.Words)
	}
	for i := range t.Words {
		t.Words[i] = in.word()
	}
	for _, kept := range h.Processes {
		p := &spanProcess{Number: kept.Number, life: kept.life}
		if in.ok = in.ok && kept.Spans >= 0 && kept.Spans <= len(in.rest)/spanFields; !in.ok {
			break
		}
		p.Spans = in.spans(kept.Spans, len(t.Words))
		t.processes = append(t.processes, p)
	}
	return t, in.ok && len(in.rest) == 0
}

// varints reads variable-length numbers.
type varints struct {
	rest []byte
	ok   bool
}

func (v *varints) unsigned() uint64 {
	if len(v.rest) > 0 && v.rest[0] < 0x80 {
		n := v.rest[0]
		v.rest = v.rest[1:]
		return uint64(n)
	}
	n, size := binary.Uvarint(v.rest)
	if size <= 0 {
		v.ok, v.rest = false, nil
		return 0
	}
	v.rest = v.rest[size:]
	return n
}

func (v *varints) signed() int64 {
	n := v.unsigned()
	return int64(n>>1) ^ -int64(n&1)
}

func (v *varints) word() string {
	n := v.unsigned()
	if n > uint64(len(v.rest)) {
		v.ok = false
		return ""
	}
	word := string(v.rest[:n])
	v.rest = v.rest[n:]
	return word
}

// spans reads spans whose words have numbers below a bound.
func (v *varints) spans(n, words int) []Compact {
	all := make([]Compact, n, n+n/8) // some come soon
	var last Compact
	for i := range all {
		s := &all[i]
		s.Begin = last.Begin + v.signed()
		s.End = s.Begin + v.signed()
		s.Step = last.Step + v.signed()
		s.Version = last.Version + v.signed()
		for _, word := range [...]*int32{&s.Role, &s.Kind, &s.Name, &s.For} {
			number := v.unsigned()
			v.ok = v.ok && number < uint64(words)
			*word = int32(number)
		}
		id := int64(last.ID) + v.signed()
		v.ok = v.ok && 0 <= id && id < int64(words)
		if s.ID = int32(id); !v.ok {
			return nil
		}
		last = *s
	}
	return all
}
