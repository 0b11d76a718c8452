package safetensors

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestReferenceFileIsRead(t *testing.T) {
	f, err := Open("testdata/reference.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Metadata["format"] != "pt" {
		t.Errorf("metadata %v", f.Metadata)
	}
	for name, want := range map[string][]float32{
		"a.f32": {2.5}, "b.f32": {0.5, -1.25, 3, 1e-30, 0, 65504}, "z.f16": {1.5, -2, 5.9604645e-08}, "m.bf16": {1, 3.140625}, `quote"<é>`: {},
	} {
		tensor, ok := f.Tensor(name)
		if !ok {
			t.Fatalf("no tensor %s in %v", name, f.Names())
		}
		got := make([]float32, tensor.Len())
		if err := tensor.Range(got, 0); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v, want %v (%v)", name, got, want, err)
		}
	}
	ids, _ := f.Tensor("ids")
	if err := ids.Range(make([]float32, 3), 0); err == nil || !strings.Contains(err.Error(), "tensor ids: cannot read dtype I64") {
		t.Errorf("integers as numbers: %v", err)
	}
	b, _ := f.Tensor("b.f32")
	if err := b.Range(make([]float32, 4), 3); err == nil {
		t.Error("reading past the end succeeds")
	}
}

// The package writes the bytes of the reference implementation.
func TestWrittenBytesEqualTheReference(t *testing.T) {
	f, err := Open("testdata/reference.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var entries []Entry
	for _, name := range []string{"mask", "z.f16", "b.f32", "ids", "m.bf16", "a.f32", "bytes", `quote"<é>`} {
		tensor, _ := f.Tensor(name)
		entries = append(entries, Entry{Name: name, DType: tensor.DType, Shape: tensor.Shape, Write: func(w io.Writer) error {
			_, err := w.Write(tensor.Data)
			return err
		}})
	}
	path := filepath.Join(t.TempDir(), "copy.safetensors")
	if err := Write(path, entries, nil); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(path)
	want, _ := os.ReadFile("testdata/reference.safetensors")
	if !bytes.Equal(got, want) {
		t.Errorf("written %q\nwant    %q", got, want)
	}
}

func TestWrittenFilesReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	data := make([]float32, 40_000) // more than one chunk
	for i := range data {
		data[i] = float32(i) / 3
	}
	narrowed := Entry{Name: "b", DType: BF16, Shape: []int{40_000}, Write: func(w io.Writer) error { return Encode(w, BF16, data) }}
	if err := Write(path, []Entry{Float32s("f", []int{200, 200}, data), narrowed}, map[string]string{"step": "7"}); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	wide, _ := f.Tensor("f")
	got := make([]float32, 40_000)
	if err := wide.Range(got, 0); err != nil || !reflect.DeepEqual(got, data) || f.Metadata["step"] != "7" {
		t.Errorf("f32 differs (%v), metadata %v", err, f.Metadata)
	}
	narrow, _ := f.Tensor("b")
	if err := narrow.Range(got, 0); err != nil || got[3] != 1 || got[1] != 0.333984375 {
		t.Errorf("bf16: %v %v %v", got[3], got[1], err)
	}
}

func TestWriteLeavesNothingBehindOnError(t *testing.T) {
	for name, entries := range map[string][]Entry{
		"short":     {Float32s("x", []int{3}, []float32{1})},
		"twice":     {Float32s("x", nil, []float32{1}), Float32s("x", nil, []float32{1})},
		"dtype":     {{Name: "x", DType: "F3", Shape: []int{1}}},
		"reserved":  {Float32s("__metadata__", nil, []float32{1})},
		"not float": {{Name: "x", DType: "I32", Shape: []int{1}, Write: func(w io.Writer) error { return Encode(w, "I32", []float32{1}) }}},
	} {
		dir := t.TempDir()
		if err := Write(filepath.Join(dir, "x.safetensors"), entries, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
}

func file(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func TestDamagedFilesAreErrors(t *testing.T) {
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty":         {nil, "too short"},
		"huge header":   {binary.LittleEndian.AppendUint64(nil, 1<<60), "at most"},
		"cut header":    {file(`{"a":1}`, 0)[:12], "truncated"},
		"no object":     {file(`[]`, 0), "not a JSON object"},
		"broken JSON":   {file(`{"a":`, 0), "tensor \"a\""},
		"trailing text": {file(`{} x`, 0), "text after"},
		"repeated name": {file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],`+
			`"data_offsets":[0,4]}}`, 4), "appears twice"},
		"repeated meta": {file(`{"__metadata__":{},"__metadata__":{}}`, 0), "appears twice"},
		"unknown dtype": {file(`{"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}}`, 4), `dtype "F33" is unknown`},
		"size":          {file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4), "needs 8"},
		"overflow": {file(`{"a":{"dtype":"F32","shape":[1073741824,1073741824,1073741824],"data_offsets":[0,4]}}`, 4),
			"larger than any file"},
		"negative":        {file(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, 4), "negative"},
		"negative offset": {file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, 4), "tensor"},
		"beyond the end":  {file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 4), "within 4 bytes"},
		"overlap": {file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],`+
			`"data_offsets":[4,8]}}`, 8), "overlap"},
		"gap":              {file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8), "gaps"},
		"more than needed": {file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 9), "tensors use 4"},
		"one offset":       {file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4]}}`, 4), "[begin, end]"},
	} {
		path := filepath.Join(t.TempDir(), "x.safetensors")
		if err := os.WriteFile(path, c.file, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want one about %q that names the file", name, err, c.want)
		}
	}
}

func TestShardsFormOneDirectory(t *testing.T) {
	write := func(t *testing.T, index string) string {
		dir := t.TempDir()
		for name, tensor := range map[string]string{"one.safetensors": "a", "two.safetensors": "b"} {
			if err := Write(filepath.Join(dir, name), []Entry{Float32s(tensor, []int{1}, []float32{1})}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, IndexName), []byte(index), 0o666); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	d, err := OpenDir(write(t, `{"metadata":{},"weight_map":{"a":"one.safetensors","b":"two.safetensors"}}`))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if got := d.Names(); !reflect.DeepEqual(got, []string{"a", "b"}) {
		t.Errorf("tensors %v", got)
	}
	if b, _ := d.Tensor("b"); filepath.Base(b.Path()) != "two.safetensors" {
		t.Errorf("b is in %s", b.Path())
	}
	for index, want := range map[string]string{
		`{"weight_map":{"a":"../one.safetensors"}}`:                    "beside the index",
		`{"weight_map":{"a":"/etc/one.safetensors"}}`:                  "beside the index",
		`{"weight_map":{"a":"..\\one.safetensors"}}`:                   "beside the index",
		`{"weight_map":{"a":"one.bin"}}`:                               "beside the index",
		`{"weight_map":{"b":"one.safetensors"}}`:                       "not in one.safetensors",
		`{"weight_map":{"b":"one.safetensors","a":"two.safetensors"}}`: "not in",
		`{"weight_map":{"a":"three.safetensors"}}`:                     "three.safetensors",
		`{}`:                "missing or empty",
		`{"weight_map":[]}`: "json",
	} {
		if _, err := OpenDir(write(t, index)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one about %q", index, err, want)
		}
	}
	if _, err := OpenDir(t.TempDir()); err == nil || !strings.Contains(err.Error(), "neither") {
		t.Errorf("empty directory: %v", err)
	}
}

func FuzzSafetensors(f *testing.F) {
	reference, err := os.ReadFile("testdata/reference.safetensors")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(reference)
	f.Add(file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := parse("x", data)
		if err != nil {
			return
		}
		for _, name := range file.Names() {
			tensor, _ := file.Tensor(name)
			switch tensor.DType {
			case F32, F16, BF16:
				if err := tensor.Range(make([]float32, tensor.Len()), 0); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// FuzzIndex opens a model of one shard with any index. What it accepts, it can read.
func FuzzIndex(f *testing.F) {
	dir := f.TempDir()
	shard := file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4)
	if err := os.WriteFile(filepath.Join(dir, "x.safetensors"), shard, 0o600); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"weight_map": {"a": "x.safetensors"}}`))
	f.Add([]byte(`{"metadata": {"total_size": 1e400}, "weight_map": {"a": "../x.safetensors"}}`))
	f.Fuzz(func(t *testing.T, index []byte) {
		if err := os.WriteFile(filepath.Join(dir, IndexName), index, 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := OpenDir(dir)
		if err != nil {
			return
		}
		defer d.Close()
		if a, ok := d.Tensor("a"); !ok || len(d.Names()) != 1 || a.Range(make([]float32, 1), 0) != nil {
			t.Errorf("%v: %v", d.Names(), ok)
		}
	})
}

// A file that is written into memory is read from there.
func TestFileInMemory(t *testing.T) {
	var b bytes.Buffer
	entries := []Entry{Bytes("mask", []byte{1, 0, 1}), Int32s("tokens", []int32{7, -1}), Float32s("x", []int{1, 2}, []float32{0.5, -2})}
	if err := WriteTo(&b, entries, map[string]string{"verb": "step"}); err != nil {
		t.Fatal(err)
	}
	f, err := Parse("a request", b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{"mask": {1, 0, 1}, "tokens": {7, 0, 0, 0, 255, 255, 255, 255}} {
		if got, ok := f.Tensor(name); !ok || !bytes.Equal(got.Data, want) {
			t.Errorf("%s is %v, want %v", name, got.Data, want)
		}
	}
	if f.Metadata["verb"] != "step" {
		t.Errorf("metadata %v", f.Metadata)
	}
	if _, err := Parse("a request", b.Bytes()[:20]); err == nil || !strings.Contains(err.Error(), "a request: ") {
		t.Errorf("half a file: %v", err)
	}
}
