package studio

import (
	"crypto/rand"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/cachedir"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// The spans of a large trace stay on the disk for the next start, but never in the run's directory.
func TestSpansOutliveTheStudio(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	dir := filepath.Join(run, rundir.Traces)
	w, err := trace.New(trace.Options{Dir: dir, Spans: true, Say: func(line string) { t.Error(line) }})
	if err != nil {
		t.Fatal(err)
	}
	const n = 14_000
	for i := range int64(n) {
		at := time.UnixMicro(i * 1000)
		w.Span(trinity.Span{
			Role: trinity.RoleTrainer, Kind: trinity.SpanForward, Name: rand.Text(), Step: i, Begin: at, End: at.Add(time.Millisecond),
		})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, disk := range []*cachedir.Dir{cachedir.New(filepath.Join(run, "cache"), 1<<30), cachedir.New(t.TempDir(), 1<<30)} {
		first, second := spanCache{disk: disk}, spanCache{disk: disk}
		read := func(c *spanCache) *spans {
			s, err := c.read(dir)
			if err != nil {
				t.Fatal(err)
			}
			c.keeping.Wait()
			return s
		}
		s := read(&first)
		if kept := trace.LoadTable(disk, dir).Size(); (kept > 0) == disk.IsBelow(run) {
			t.Errorf("the cache has %d bytes of the trace", kept)
		}
		if after := read(&second); len(s.all) != n || !slices.Equal(s.all, after.all) || !slices.Equal(s.words, after.words) {
			t.Errorf("%d spans, and after a start %d", len(s.all), len(after.all))
		}
	}
	disk := cachedir.New(t.TempDir(), 1<<30)
	if err := disk.Write(cachedir.Name(dir, "spans2"), []byte("damage")); err != nil {
		t.Fatal(err)
	}
	c := spanCache{disk: disk}
	if s, err := c.read(dir); err != nil || len(s.all) != n {
		t.Errorf("a damaged cache leaves %v, %v", s, err)
	}
	c.keeping.Wait()
}
