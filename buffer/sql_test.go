package buffer

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// openTest opens a buffer of a database until the test ends.
func openTest(t *testing.T, url string, s trinity.BufferSpec) *Queue {
	t.Helper()
	return openUntil(t, t.Context(), url, s)
}

// openUntil opens a buffer of a run that ctx stops.
func openUntil(t *testing.T, ctx context.Context, url string, s trinity.BufferSpec) *Queue {
	t.Helper()
	s.Path = url
	if s.Name == "" {
		s.Name = "test/experience_buffer"
	}
	b, err := (&sqlOpener{}).OpenBuffer(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b.(*Queue)
}

// tables returns the log of a buffer in a database.
func tables(q *Queue) *sqlLog { return q.log.(*sqlLog) }

func fileURL(dir string) string {
	return "sqlite:///" + filepath.ToSlash(filepath.Join(dir, "buffer.db"))
}

func TestSQLiteIsABuffer(t *testing.T) {
	o := trinitytest.BufferOptions{Capacity: 10}
	for name, memory := range map[string]int64{"all in memory": 1 << 30, "none in memory": 0} {
		for _, byRollout := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", by rollout ", byRollout), func(t *testing.T) {
				trinitytest.Buffer(t, o, func(t *testing.T, dir string) trinitytest.Store {
					s := trinitytest.StoreOf(openTest(t, fileURL(dir), trinity.BufferSpec{Capacity: o.Capacity, Memory: memory}))
					s.Rollouts = byRollout
					return s
				})
			})
		}
	}
}
