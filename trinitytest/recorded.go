package trinitytest

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"testing"
)

// ReadRecorded decodes a recorded reference: JSON, compressed with gzip.
func ReadRecorded(t testing.TB, path string, into any) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
