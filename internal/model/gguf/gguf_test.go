package gguf

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/trinitytest"
)

// recordedBlocks is a case of testdata/record.py.
type recordedBlocks struct {
	Type           string
	Number         Type
	Blocks, Values []byte
}

func readRecorded(t *testing.T, name string) (cases []recordedBlocks) {
	t.Helper()
	trinitytest.ReadRecorded(t, filepath.Join("testdata", name), &cases)
	return cases
}

func TestDequantizedValuesEqualTheReference(t *testing.T) {
	cases := readRecorded(t, "dequantize.json.gz")
	if len(cases) != len(layouts) {
		t.Errorf("%d types recorded, %d supported", len(cases), len(layouts))
	}
	for _, c := range cases {
		t.Run(c.Type, func(t *testing.T) {
			if c.Number.String() != c.Type {
				t.Errorf("type %d is called %s", c.Number, c.Number)
			}
			tensor := Tensor{Name: "t", Type: c.Number, Data: c.Blocks}
			if tensor.Len() != len(c.Values)/4 {
				t.Fatalf("%d elements, want %d", tensor.Len(), len(c.Values)/4)
			}
			got := make([]float32, tensor.Len())
			block := layouts[c.Number].elements
			for from := 0; from < len(got); from += block { // block by block also tests offsets
				if err := tensor.Range(got[from:from+block], from); err != nil {
					t.Fatal(err)
				}
			}
			for i, v := range got {
				if want := binary.LittleEndian.Uint32(c.Values[4*i:]); math.Float32bits(v) != want && v != math.Float32frombits(want) {
					t.Fatalf("element %d is %v, want %v", i, v, math.Float32frombits(want))
				}
			}
		})
	}
}

func TestReferenceFileIsRead(t *testing.T) {
	f, err := Open("testdata/small.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for key, want := range map[string]any{
		"general.architecture": "llama", "test.uint8": uint8(250), "test.int8": int8(-3), "test.uint16": uint16(65000),
		"test.int16": int16(-300), "test.uint32": uint32(4000000000), "test.int32": int32(-70000), "test.float32": float32(0.5),
		"test.uint64": uint64(1) << 60, "test.int64": -int64(1) << 60, "test.float64": 0.1, "test.bool": true, "test.string": "größe",
		"test.strings": []string{"a", "", "ß"}, "test.ints": []int32{1, -2, 3}, "test.floats": []float32{0.25, -1.5},
		"test.bools": []bool{true, false},
	} {
		if got, _ := f.Value(key); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %#v, want %#v", key, got, want)
		}
	}
	matrix, _ := f.Tensor("matrix")
	got := make([]float32, 3)
	if err := matrix.Range(got, 3); err != nil || !reflect.DeepEqual(got, []float32{3, 4, 5}) ||
		!reflect.DeepEqual(matrix.Shape, []int{2, 3}) {
		t.Errorf("matrix %v: second row %v, %v", matrix.Shape, got, err)
	}
	if err := matrix.Range(got, 4); err == nil {
		t.Error("reading past the end succeeds")
	}
	q8, _ := f.Tensor("q8")
	if err := q8.Range(make([]float32, 32), 16); err == nil || !strings.Contains(err.Error(), "whole Q8_0 blocks") {
		t.Errorf("reading half a block: %v", err)
	}
}

// builder writes the format by hand, for files that no sane writer makes.
type builder struct{ bytes.Buffer }

func header(version uint32, tensors, pairs uint64) *builder {
	b := &builder{}
	return b.put(uint32(magic), version, tensors, pairs)
}

func (b *builder) put(values ...any) *builder {
	for _, v := range values {
		if s, ok := v.(string); ok {
			b.put(uint64(len(s)))
			b.WriteString(s)
			continue
		}
		_ = binary.Write(b, binary.LittleEndian, v)
	}
	return b
}

func TestDamagedFilesAreErrors(t *testing.T) {
	f32 := uint32(F32)
	for name, c := range map[string]struct {
		file *builder
		want string
	}{
		"empty":            {&builder{}, "not a GGUF file"},
		"version 1":        {header(1, 0, 0), "version 1"},
		"big-endian":       {header(3<<24, 0, 0), "big-endian"},
		"too many pairs":   {header(3, 0, 1<<60), "metadata entries"},
		"too many tensors": {header(3, 1<<60, 0), "tensors"},
		"long string":      {header(3, 0, 1).put(uint64(1 << 50)).put(make([]byte, 20)), "more bytes"},
		"long array":       {header(3, 0, 1).put("k", uint32(typeArray), uint32(typeU8), uint64(1<<50)), "metadata k"},
		"deep arrays":      {header(3, 0, 1).put("k", uint32(typeArray)).put(deep(9)), "nested"},
		"unreadable key":   {header(3, 0, 1).put("k\n\x01", uint32(typeU8), uint8(1)), `"k\n\x01"… is not text`},
		"unreadable name":  {header(3, 1, 0).put("t\xff", uint32(1), uint64(1), f32, uint64(0)).put(make([]byte, 64)), "tensor name"},
		"unknown value":    {header(3, 0, 1).put("k", uint32(77), uint64(0)), "value type 77"},
		"repeated key":     {header(3, 0, 2).put("k", uint32(typeU8), uint8(1), "k", uint32(typeU8), uint8(1)), "twice"},
		"alignment 0":      {header(3, 0, 1).put("general.alignment", uint32(typeU32), uint32(0)), "power of two"},
		"five dimensions":  {header(3, 1, 0).put("t", uint32(5)).put(make([]byte, 100)), "5 dimensions"},
		"overflowing shape": {header(3, 1, 0).put("t", uint32(4), uint64(1<<30), uint64(1<<30), uint64(1<<30), uint64(1<<30), f32,
			uint64(0)).put(make([]byte, 64)), "larger than any file"},
		"huge dimension":   {header(3, 1, 0).put("t", uint32(1), uint64(1<<40), f32, uint64(0)).put(make([]byte, 64)), "a dimension of"},
		"unknown type":     {header(3, 1, 0).put("t", uint32(1), uint64(1), uint32(23), uint64(0)).put(make([]byte, 64)), "IQ4_XS"},
		"broken blocks":    {header(3, 1, 0).put("t", uint32(1), uint64(33), uint32(Q4_1), uint64(0)).put(make([]byte, 64)), "blocks of 32"},
		"unaligned offset": {header(3, 1, 0).put("t", uint32(1), uint64(1), f32, uint64(4)).put(make([]byte, 64)), "alignment"},
		"cut data":         {header(3, 1, 0).put("t", uint32(1), uint64(999), f32, uint64(0)).put(make([]byte, 64)), "truncated"},
		"no data":          {header(3, 1, 0).put("t", uint32(1), uint64(999), f32, uint64(0)), "ends before"},
		"repeated tensor": {header(3, 2, 0).put("t", uint32(1), uint64(1), f32, uint64(0), "t", uint32(1), uint64(1), f32,
			uint64(0)).put(make([]byte, 64)), "twice"},
	} {
		path := filepath.Join(t.TempDir(), "x.gguf")
		if err := os.WriteFile(path, c.file.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one about %q", name, err, c.want)
		}
	}
}

func deep(levels int) []byte {
	b := &builder{}
	for range levels {
		b.put(uint32(typeArray), uint64(1))
	}
	return b.put(uint32(typeU8), uint64(0), uint64(0)).Bytes()
}

func FuzzGGUF(f *testing.F) {
	small, err := os.ReadFile("testdata/small.gguf")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(small)
	f.Add(header(3, 0, 1).put("k", uint32(typeArray)).put(deep(3)).Bytes())
	q, _ := base64.StdEncoding.DecodeString("R0dVRgMAAAA=")
	f.Add(q)
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := parse("x", data)
		if err != nil {
			return
		}
		for _, name := range file.Names() {
			tensor, _ := file.Tensor(name)
			if err := tensor.Range(make([]float32, tensor.Len()), 0); err != nil {
				t.Fatal(err)
			}
		}
	})
}
