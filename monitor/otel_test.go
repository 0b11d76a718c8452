package monitor

import (
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// newOtel is a collector. It keeps a point of a time and role once, as stores of time series do, and
// keeps each request in dir.
func newOtel(t *testing.T, dir string, f *faults) service {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-token=a%20secret, x-other=1")
	var mu sync.Mutex
	got, seen := points{}, map[string]bool{}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/metrics" || r.Header.Get("X-Token") != "a secret" || r.Header.Get("X-Other") != "1" ||
			r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s %v: %v", r.URL.Path, r.Header, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "request"), body, 0o644); err != nil {
			t.Error(err)
		}
		for _, metric := range parseFields(t, body).sub(1).sub(2).all(2) {
			m := parseFields(t, metric)
			for _, text := range m.sub(5).all(1) {
				point := parseFields(t, text)
				step := parseFields(t, parseFields(t, point.every[7][1]).bytes[2]).number(3)
				key := fmt.Sprintf("%s %d %q", m.bytes[1], point.number(3), point.every[7])
				if !seen[key] {
					got.add(string(m.bytes[1]), int64(step), math.Float64frombits(point.number(4)))
				}
				seen[key] = true
			}
		}
	})
	return service{
		args: map[string]any{"endpoint": f.serve(t, h)}, points: func() points { mu.Lock(); defer mu.Unlock(); return maps.Clone(got) },
	}
}
