package gguf

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/model/half"
)

func TestWrittenBlocksEqualTheReference(t *testing.T) {
	written := 0
	for _, c := range readRecorded(t, "quantize.json.gz") {
		values := make([]float32, len(c.Values)/4)
		half.Widen(values, c.Values, "F32")
		var got bytes.Buffer
		if err := Encode(&got, c.Number, values); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), c.Blocks) {
			size := layouts[c.Number].bytes
			for i := 0; i < min(got.Len(), len(c.Blocks)); i += size {
				if block := got.Bytes()[i : i+size]; !bytes.Equal(block, c.Blocks[i:i+size]) {
					t.Fatalf("%s: block %d is %x, want %x", c.Type, i/size, block, c.Blocks[i:i+size])
				}
			}
			t.Fatalf("%s: %d bytes, want %d", c.Type, got.Len(), len(c.Blocks))
		}
		written++
	}
	if written != 5 {
		t.Errorf("%d types recorded, want 5", written)
	}
}

// A file that is written from the reference file has the same metadata and tensors, in the same
// order.
func TestWrittenFileEqualsTheReference(t *testing.T) {
	f, err := Open("testdata/small.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var tensors []Entry
	for _, name := range f.Names() {
		tensor, _ := f.Tensor(name)
		tensors = append(tensors, Entry{name, tensor.Type, tensor.Shape, func(w io.Writer) error {
			_, err := w.Write(tensor.Data)
			return err
		}})
	}
	path := filepath.Join(t.TempDir(), "copy.gguf")
	if err := Write(path, f.Metadata(), tensors); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/small.gguf")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("the copy differs from the file that the gguf package wrote")
	}
}

func TestWriteKeepsEveryValue(t *testing.T) {
	metadata := []Pair{{"b", []any{[]int32{1, 2}, []string{"x"}, []any{}}}, {"a", []uint16{7}}, {"c", []float64{0.5}}}
	path := filepath.Join(t.TempDir(), "x.gguf")
	if err := Write(path, metadata, nil); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := f.Metadata(); !reflect.DeepEqual(got, metadata) {
		t.Errorf("%v, want %v", got, metadata)
	}
}

func TestWriteRefusesWhatItCannotWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.gguf")
	one := func(n int, kind Type, numbers ...float32) error {
		return Write(path, nil, []Entry{{"t", kind, []int{n}, func(w io.Writer) error { return Encode(w, kind, numbers) }}})
	}
	for want, err := range map[string]error{
		"metadata k: the format has no complex128": Write(path, []Pair{{"k", 1i}}, nil),
		"rows of shape [33] are not whole Q8_0":    one(33, Q8_0),
		"wrote 4 bytes":                            one(33, F32, 1),
		"cannot write Q4_K":                        one(256, Q4_K),
		"70000 does not fit into F16":              one(1, F16, 70000),
		"+Inf does not fit into F16":               one(1, F16, float32(math.Inf(1))),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %q", err, want)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file was written in spite of the error")
	}
}
