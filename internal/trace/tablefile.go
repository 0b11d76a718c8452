package trace

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
)

// The form of a kept table: the magic, the length of a header and the checksum of all behind it, the
// header in JSON, the words, and the spans of each process as variable-length numbers.
const (
	tableMagic = "trspans2"
	tableStart = len(tableMagic) + 8
	spanFields = 9
)

type tableHeader struct {
	Files     map[string]*tableFile `json:"files"`
	Words     int                   `json:"words"`
	Processes []keptProcess         `json:"processes"`
}

type keptProcess struct {
	Number int
	Spans  int
	life[int32]
}

var errTable = errors.New("the kept spans are damaged")

// Size returns the bytes of the trace's files that were read.
func (t *Table) Size() (n int64) {
	for _, file := range t.files {
		n += file.Offset
	}
	return n
}

// Encode returns the table as [DecodeTable] reads it.
func (t *Table) Encode() ([]byte, error) {
	h, n := tableHeader{Files: t.files, Words: len(t.Words)}, 0
	for _, p := range t.processes {
		h.Processes = append(h.Processes, keptProcess{p.Number, len(p.Spans), p.life})
		n += len(p.Spans)
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, tableStart+len(text)+20*n), tableMagic...)
	out = append(binary.LittleEndian.AppendUint64(out, 0), text...)
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
	binary.LittleEndian.PutUint32(out[len(tableMagic):], uint32(len(text)))
	binary.LittleEndian.PutUint32(out[len(tableMagic)+4:], crc32.Checksum(out[tableStart:], crc32.MakeTable(crc32.Castagnoli)))
	return out, nil
}

// DecodeTable returns the table in data.
func DecodeTable(data []byte) (*Table, error) {
	if len(data) < tableStart || string(data[:len(tableMagic)]) != tableMagic {
		return nil, errTable
	}
	n := binary.LittleEndian.Uint32(data[len(tableMagic):])
	sum := binary.LittleEndian.Uint32(data[len(tableMagic)+4:])
	data = data[tableStart:]
	if int64(n) > int64(len(data)) || crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) != sum {
		return nil, errTable
	}
	var h tableHeader
	if err := json.Unmarshal(data[:n], &h); err != nil {
		return nil, err
	}
	in := varints{rest: data[n:], ok: h.Words >= 0 && h.Words <= len(data)}
	t := &Table{files: h.Files}
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
	if !in.ok || len(in.rest) > 0 {
		return nil, errTable
	}
	return t, nil
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
