package python

import (
	"bytes"
	"compress/flate"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
)

// deflated compresses data and checks that the standard library reads it.
func deflated(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := newDeflater(&out)
	for part := range slices.Chunk(data, 50_000) { // which is no multiple of a block
		if _, err := w.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if back, err := io.ReadAll(flate.NewReader(bytes.NewReader(out.Bytes()))); err != nil || !bytes.Equal(back, data) {
		t.Fatalf("%d bytes come back as %d, %v", len(data), len(back), err)
	}
	return out.Bytes()
}

// The standard library reads what is compressed, and makes more bytes of text.
func TestDeflate(t *testing.T) {
	_, modules, err := Plugins()
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(modules["trinity_go/_front.py"] + modules["trinity_go/rollouts.py"])
	random := make([]byte, 2*window+window/2)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(random)
	for name, c := range map[string]struct {
		data  []byte
		ratio float64 // of the bytes that the standard library makes
	}{
		"text": {text, 0.98}, "text that repeats": {bytes.Repeat(text, 5), 0.98}, "bytes that repeat": {slices.Repeat(random[:window], 3), 1},
		"random bytes": {random, 1}, "zeros": {make([]byte, 3*window+1), 1.3}, "nothing": {nil, 1}, "a byte": {[]byte{0}, 1},
		"a block": {random[:window], 1}, "three letters": {bytes.Repeat([]byte("abc"), 5000), 1},
	} {
		var standard bytes.Buffer
		w, _ := flate.NewWriter(&standard, flate.BestCompression)
		_, _ = w.Write(c.data)
		_ = w.Close()
		if got, most := len(deflated(t, c.data)), int(c.ratio*float64(standard.Len())); got > most {
			t.Errorf("%s: %d bytes become %d, want at most %d", name, len(c.data), got, most)
		}
	}
}

func FuzzDeflate(f *testing.F) {
	f.Add([]byte("abcabcabcabcabd"), uint8(1))
	f.Add([]byte{0}, uint8(255))
	f.Fuzz(func(t *testing.T, data []byte, times uint8) { deflated(t, bytes.Repeat(data, 1+int(times))) })
}
