package monitor

import (
	"bytes"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// newSwanLab reads the offline run that the sink writes.
func newSwanLab(t *testing.T, dir string, _ *faults) service {
	read := func() (got points, status Status) {
		got = points{}
		each(t, filepath.Join(dir, "swanlab", "run-*.swanlab"), func(m fieldsOf) {
			if m.has(swanlabFinish) {
				status = map[uint64]Status{1: Finished, 2: Failed, 3: Stopped}[m.sub(swanlabFinish).number(1)]
			}
			if m.has(swanlabScalar) {
				s := m.sub(swanlabScalar)
				got.add(string(s.bytes[1]), int64(s.number(2)), math.Float64frombits(s.sub(5).number(1)))
			}
		})
		return got, status
	}
	return service{
		args: map[string]any{}, local: true,
		points: func() points { got, _ := read(); return got }, status: func() Status { _, s := read(); return s },
	}
}

// fieldsOf are the fields of a protobuf message; of repeated ones the last.
type fieldsOf struct {
	t       *testing.T
	numbers map[protowire.Number]uint64
	bytes   map[protowire.Number][]byte
	every   map[protowire.Number][][]byte
}

func parseFields(t *testing.T, data []byte) fieldsOf {
	f := fieldsOf{t, map[protowire.Number]uint64{}, map[protowire.Number][]byte{}, map[protowire.Number][][]byte{}}
	for len(data) > 0 {
		field, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			t.Fatalf("no message: %x", data)
		}
		value := data[n:]
		switch kind {
		case protowire.VarintType:
			f.numbers[field], _ = protowire.ConsumeVarint(value)
		case protowire.Fixed64Type:
			f.numbers[field], _ = protowire.ConsumeFixed64(value)
		case protowire.BytesType:
			f.bytes[field], _ = protowire.ConsumeBytes(value)
			f.every[field] = append(f.every[field], f.bytes[field])
		}
		data = value[protowire.ConsumeFieldValue(field, kind, value):]
	}
	return f
}

func (f fieldsOf) has(field protowire.Number) bool      { _, ok := f.bytes[field]; return ok }
func (f fieldsOf) sub(field protowire.Number) fieldsOf  { return parseFields(f.t, f.bytes[field]) }
func (f fieldsOf) all(field protowire.Number) [][]byte  { return f.every[field] }
func (f fieldsOf) number(field protowire.Number) uint64 { return f.numbers[field] }

// each calls do with each message of the one file that a pattern matches.
func each(t *testing.T, pattern string, do func(fieldsOf)) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) != 1 {
		t.Fatalf("%s: %v, %v", pattern, paths, err)
	}
	data, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	at := int64(fileHeader)
	for at < int64(len(data)) {
		m, end, ok := readFrames(data, at)
		if !ok {
			t.Fatalf("%s is damaged at byte %d of %d", paths[0], at, len(data))
		}
		do(parseFields(t, m))
		at = end
	}
}

// numbered is a message of a row.
func numbered(n int64, size int) []byte {
	return message(varint(nil, 1, n), 2, bytes.Repeat([]byte{byte(n)}, size))
}

// A file has the rows that were written last, whatever a killed process left.
func TestRecordFileKeepsRows(t *testing.T) {
	for _, size := range []int{1, 100, blockSize - fileHeader - frameHeader - 40, blockSize - 7, 3 * blockSize} {
		path := filepath.Join(t.TempDir(), "dir", "x")
		begin := func() *recordFile {
			f, err := openRecordFile(path, "header!", 0, numbered(0, 20), numbered(0, 3))
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		put := func(f *recordFile, first int64, rows ...int64) {
			var out [][]byte
			for _, n := range rows {
				out = append(out, numbered(n, size), numbered(n, 2))
			}
			if err := f.write(first, out); err != nil {
				t.Fatal(err)
			}
		}
		want := func(what string, rows ...int64) {
			t.Helper()
			var got []int64
			each(t, path, func(m fieldsOf) { got = append(got, int64(m.number(1))) })
			if got = slices.Compact(got); !slices.Equal(got, rows) {
				t.Errorf("%d bytes, %s: rows %v, want %v", size, what, got, rows)
			}
		}
		f := begin()
		put(f, 0, 1, 2, 3)
		want("three", 0, 1, 2, 3)
		put(begin(), 3, 4, 5)
		want("more", 0, 1, 2, 3, 4, 5)
		put(begin(), 3, 4)
		want("again", 0, 1, 2, 3, 4)
		if err := begin().write(math.MaxInt64, [][]byte{numbered(-2, 9)}); err != nil {
			t.Fatal(err)
		}
		want("ended", 0, 1, 2, 3, 4, -2)
		put(begin(), 4, 5)
		want("resumed", 0, 1, 2, 3, 4, 5)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, info.Size()-1); err != nil { // in the second message of row 5
			t.Fatal(err)
		}
		put(begin(), 4, 5, 6)
		want("killed", 0, 1, 2, 3, 4, 5, 6)
	}
}

// FuzzRecordFile reads any file. Rows that are written after it can be read again.
func FuzzRecordFile(f *testing.F) {
	f.Add([]byte{})
	f.Add(frames([]byte("header!"), numbered(0, 3), numbered(1, 40000), numbered(2, 1), numbered(-2, 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		f := recordFile{}
		f.findEnds(data, 1)
		ends := f.ends
		if !slices.IsSorted(ends) || ends[len(ends)-1] > int64(len(data)) {
			t.Errorf("%d bytes have rows that end at %v", len(data), ends)
		}
	})
}

func TestNumbersAsPythonWritesThem(t *testing.T) {
	got := map[float64]string{}
	for _, v := range []float64{1, -0.5, 1e300, math.Inf(1), math.Inf(-1)} {
		got[v] = pythonNumber(v)
	}
	want := map[float64]string{1: "1", -0.5: "-0.5", 1e300: "1e+300", math.Inf(1): "Infinity", math.Inf(-1): "-Infinity"}
	if !maps.Equal(got, want) || pythonNumber(math.NaN()) != "NaN" {
		t.Errorf("got %v", got)
	}
}
