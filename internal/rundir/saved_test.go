package rundir

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/cachedir"
)

func isB(name string) bool { return name == "b" }

// long returns records that are worth keeping.
func long(from, to int) string {
	var text strings.Builder
	for step := from; step <= to; step++ {
		pad := strings.Repeat(`"pad":1.234567890123,`, 100)
		text.WriteString(line(step, "explorer", fmt.Sprintf(`"a":%d,"b":"NaN","c":%d,%s"z":1`, step, -step, pad)))
		text.WriteString(line(step, "trainer", fmt.Sprintf(`"a":%d.5,"d":1e300`, step)))
	}
	return text.String()
}

const longSteps = 3000 // of saveAfter bytes and more

// opened returns a file below a new directory, and a cache.
func opened(t *testing.T, text string) (dir, path string, cache *cachedir.Dir) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "run", "monitor")
	path = filepath.Join(dir, MetricsFile)
	write(t, path, text)
	return dir, path, cachedir.New(filepath.Join(t.TempDir(), "cache"), 1<<30)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// update reads a file, and checks its columns against a reader without a cache.
func update(t *testing.T, dir string, cache *cachedir.Dir, wanted func(string) bool) *File {
	t.Helper()
	f, plain := NewFile(dir, cache), NewFile(dir, nil)
	for _, c := range []*File{plain, f} {
		if _, err := c.Update(wanted, Mark{}); err != nil {
			t.Fatal(err)
		}
	}
	got, want := f.Table(), plain.Table()
	if !slices.Equal(got.Steps, want.Steps) || !slices.Equal(got.Times, want.Times) || !slices.Equal(got.Names, want.Names) ||
		!slices.Equal(got.roles, want.roles) || got.At != want.At || got.Bad != want.Bad || f.firstBad != plain.firstBad {
		t.Fatalf("with a cache %+v, without %+v", got.At, want.At)
	}
	for _, name := range want.Names {
		if !same(got.Column(name), want.Column(name)) {
			t.Fatalf("%s: with a cache %d values, without %d", name, len(got.Column(name).Values), len(want.Column(name).Values))
		}
	}
	return f
}

// What was read of a large file is there after a start, also when the file has grown meanwhile, and with
// metrics that nobody had asked for.
func TestColumnsOutliveTheirReader(t *testing.T) {
	text := long(1, longSteps)
	dir, path, cache := opened(t, text+"damage\n")
	update(t, dir, cache, isA)
	f := NewFile(dir, cache)
	if f.load(strings.NewReader(text+"damage\n"), int64(len(text)+7)); f.pos.At.Records != 2*longSteps || f.bad != 1 {
		t.Fatalf("the cache has %d records", f.pos.At.Records)
	}
	if err := f.fill(strings.NewReader(""), isA); err != nil || len(f.Table().columns["a"].Values) != 2*longSteps {
		t.Fatalf("without the file there are %d values, %v", len(f.Table().columns["a"].Values), err)
	}
	write(t, path, text+"damage\n"+long(longSteps+1, longSteps+3))
	update(t, dir, cache, isA)
	write(t, path, text+"damage\n"+long(longSteps+1, 2*longSteps)+"{half")
	update(t, dir, cache, isB) // keeps a of an earlier time
	update(t, dir, cache, isA)
	update(t, dir, cache, func(string) bool { return true })
}

// A file that is not the one that was kept is read anew.
func TestColumnsOfAnotherFile(t *testing.T) {
	text := long(1, longSteps)
	dir, path, cache := opened(t, text)
	update(t, dir, cache, isA)
	for _, other := range []string{long(1, longSteps/2), long(2, longSteps+1), strings.Replace(text, `"a":2998,`, `"a":1998,`, 1), ""} {
		write(t, path, other)
		update(t, dir, cache, isA)
	}
}

// Whatever is in the cache, the columns are those of the file.
func TestDamagedCache(t *testing.T) {
	dir, _, cache := opened(t, long(1, longSteps))
	f := update(t, dir, cache, isA)
	kept, size, err := cache.Open(f.keptName())
	if err != nil {
		t.Fatal(err)
	}
	whole := make([]byte, size)
	if _, err := kept.ReadAt(whole, 0); err != nil {
		t.Fatal(err)
	}
	kept.Close()
	for _, n := range []int{0, 3, 8, 58, len(whole) / 2, len(whole) - 1} {
		flipped := slices.Clone(whole)
		flipped[min(n, len(whole)-1)] ^= 4
		for _, damaged := range [][]byte{whole[:n], flipped} {
			if err := cache.Write(f.keptName(), damaged); err != nil {
				t.Fatal(err)
			}
			update(t, dir, cache, isA)
		}
	}
}

// Nothing is written into a run's directory, and small files are not worth keeping.
func TestWhatIsNotKept(t *testing.T) {
	dir, _, _ := opened(t, long(1, longSteps))
	update(t, dir, cachedir.New(filepath.Join(filepath.Dir(dir), "cache"), 1<<30), isA)
	if _, err := os.Stat(filepath.Join(filepath.Dir(dir), "cache")); err == nil {
		t.Error("there is a cache in the run's directory")
	}
	dir, _, cache := opened(t, long(1, 3))
	f := update(t, dir, cache, isA)
	if _, _, err := cache.Open(f.keptName()); err == nil {
		t.Error("a small file is kept")
	}
}

// A cache that cannot be written harms nobody.
func TestCacheWithoutADirectory(t *testing.T) {
	dir, path, _ := opened(t, long(1, longSteps))
	update(t, dir, cachedir.New(filepath.Join(path, "cache"), 1<<30), isA)
}

// A name with escapes is not the name that looks like it in a line.
func TestNamesWithEscapes(t *testing.T) {
	dir, _, _ := opened(t, line(1, "trainer", `"a\\b":1`)+line(2, "trainer", `"a\b":2`)+line(3, "trainer", `"a\\b":3`))
	f := update(t, dir, nil, func(string) bool { return true })
	table := f.Table()
	backslash, backspace := table.Column(`a\b`), table.Column("a\b")
	if !slices.Equal(backslash.Values, []float64{1, 3}) || !slices.Equal(backspace.Values, []float64{2}) {
		t.Errorf("%v and %v", backslash, backspace)
	}
}

// A damaged line has its number in the error.
func TestDamageNamesTheLine(t *testing.T) {
	dir, _, _ := opened(t, line(1, "trainer", `"a":1`)+"\n{half\n"+line(2, "trainer", `"a":2`)+"more\n")
	f := update(t, dir, nil, isA)
	if err := os.RemoveAll(dir); err != nil { // it is known without reading the file again
		t.Fatal(err)
	}
	if err := f.Damage(); err == nil || !strings.Contains(err.Error(), MetricsFile+":3: ") || f.bad != 2 {
		t.Errorf("%d damaged lines, %v", f.bad, err)
	}
}

// No kept file breaks the reader.
func FuzzKept(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "monitor")
	text := long(1, 3)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, MetricsFile), []byte(text), 0o644); err != nil {
		f.Fatal(err)
	}
	cache := cachedir.New(f.TempDir(), 1<<30)
	c := NewFile(dir, cache)
	if _, err := c.Update(isA, Mark{}); err != nil {
		f.Fatal(err)
	}
	c.save()
	var h json.RawMessage
	file, begin, end, err := cache.Load(c.keptName(), &h)
	if err != nil {
		f.Fatal(err)
	}
	body := make([]byte, end-begin)
	if _, err := file.ReadAt(body, begin); err != nil {
		f.Fatal(err)
	}
	file.Close()
	f.Add([]byte(h), body)
	f.Fuzz(func(t *testing.T, header, body []byte) {
		if !json.Valid(header) {
			return
		}
		c := NewFile(dir, cache)
		if _, err := cache.Save(c.keptName(), json.RawMessage(header), body); err != nil {
			t.Fatal(err)
		}
		c.load(strings.NewReader(text), int64(len(text)))
		for id := range c.names {
			c.loadColumn(id)
		}
	})
}
