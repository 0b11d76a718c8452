package buffer

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/database"
	"github.com/trinity-go/trinity/trinitytest"
)

// openTest opens a buffer of a database until the test ends.
func openTest(t *testing.T, url string, s trinity.BufferSpec) *SQL {
	t.Helper()
	address, err := database.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	if s.Name == "" {
		s.Name = "test/experience_buffer"
	}
	b, err := OpenSQL(t.Context(), address, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func fileURL(dir string) string {
	return "sqlite:///" + filepath.ToSlash(filepath.Join(dir, "buffer.db"))
}

func TestSQLiteIsABuffer(t *testing.T) {
	o := trinitytest.BufferOptions{Capacity: 10}
	for name, byRollout := range map[string]bool{"by experience": false, "by rollout": true} {
		t.Run(name, func(t *testing.T) {
			trinitytest.Buffer(t, o, func(t *testing.T, dir string) trinitytest.Store {
				return trinitytest.StoreOf(openTest(t, fileURL(dir), trinity.BufferSpec{Capacity: o.Capacity, ByRollout: byRollout}))
			})
		})
	}
	t.Run("each side in a process of its own", func(t *testing.T) {
		trinitytest.Buffer(t, o, func(t *testing.T, dir string) trinitytest.Store { return apart(t, fileURL(dir), o.Capacity) })
	})
}

// apart opens a buffer once for each side, as separate processes do.
func apart(t *testing.T, url string, capacity int) trinitytest.Store {
	open := func() *SQL {
		return openTest(t, url, trinity.BufferSpec{Capacity: capacity, Retries: 100, RetryInterval: 50 * time.Millisecond})
	}
	return trinitytest.Store{Explorer: open().Sink("explorer"), Second: open().Sink("second"), Trainer: open()}
}
