package cachedir

import (
	"encoding/binary"
	"encoding/json"
	"testing"
)

// What is saved comes back, and what is not as it was written is damage.
func TestSaved(t *testing.T) {
	d := New(t.TempDir(), 1000)
	begin, err := d.Save("a", map[string]int{"n": 5}, []byte("body"))
	if err != nil {
		t.Fatal(err)
	}
	var h struct{ N int }
	file, from, end, err := d.Load("a", &h)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	body := make([]byte, end-from)
	if _, err := file.ReadAt(body, from); err != nil || from != begin || h.N != 5 || string(body) != "body" {
		t.Errorf("%+v and %q from %d, %v; want 5 and body from %d", h, body, from, err, begin)
	}
	whole := make([]byte, end)
	if _, err := file.ReadAt(whole, 0); err != nil {
		t.Fatal(err)
	}
	for i := range begin {
		flipped := append([]byte(nil), whole...)
		flipped[i] ^= 4
		for _, damaged := range [][]byte{flipped, whole[:i]} {
			if err := d.Write("a", damaged); err != nil {
				t.Fatal(err)
			}
			if _, _, _, err := d.Load("a", &h); err == nil {
				t.Errorf("%q is read", damaged)
			}
		}
	}
	if _, err := d.Save("b", func() {}, nil); err == nil {
		t.Error("a function is no header")
	}
}

// No file breaks the reader of headers.
func FuzzSaved(f *testing.F) {
	d := New(f.TempDir(), 1<<20)
	f.Add([]byte(`{"n":1}`), []byte("body"), 7)
	f.Fuzz(func(t *testing.T, header, body []byte, size int) {
		text := binary.LittleEndian.AppendUint32(nil, uint32(size))
		text = append(append(binary.LittleEndian.AppendUint32(text, Sum(header)), header...), body...)
		if err := d.Write("a", text); err != nil {
			t.Fatal(err)
		}
		var h json.RawMessage
		file, begin, end, err := d.Load("a", &h)
		if err != nil {
			return
		}
		defer file.Close()
		if begin > end || !json.Valid(h) {
			t.Errorf("%q from %d to %d", h, begin, end)
		}
	})
}
