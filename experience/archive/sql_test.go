package archive

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/database"
)

// patient outlives a server's restart.
var patient = database.Options{Retries: 300, Interval: 50 * time.Millisecond}

// sqliteArchive is an archive in a file that is not there yet; these tests write the name behind the URL, after a #.
func sqliteArchive(t *testing.T) string {
	return "sqlite:///" + filepath.ToSlash(filepath.Join(t.TempDir(), "new", "kept.db")) + "#project/run/output-WORD"
}

func addressOf(t *testing.T, path string) (a database.Address, name string) {
	t.Helper()
	url, name, _ := strings.Cut(path, "#")
	a, err := database.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	return a, name
}

// writer is one of a file or of a database, until the test ends.
func writer(t *testing.T, path string) *Writer {
	t.Helper()
	if !database.IsURL(path) {
		return New(path, theRun)
	}
	a, name := addressOf(t, path)
	w, err := InDatabase(t.Context(), a, name, patient)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// readRows reads an archive by the query that people are told to write.
func readRows(t *testing.T, path string) (exps []*trinity.Experience) {
	t.Helper()
	a, name := addressOf(t, path)
	db, err := database.Open(t.Context(), a, database.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Stream(t.Context(), "SELECT * FROM trinity_archive WHERE archive = '"+name+"' ORDER BY id", func(columns []database.Column) error {
		row := map[string]any{}
		for _, c := range columns {
			row[c.Name] = c.Value
		}
		e, err := Experience(row)
		if err != nil {
			return err
		}
		if row["step"] != e.ID.Step || row["response"] != e.Response || row["model_version"] != e.Versions[1] || row["reward"] != e.Reward.Value || row["response_tokens"] != int64(1) {
			t.Errorf("the columns %v are not those of %+v", row, e)
		}
		exps = append(exps, e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return exps
}

func TestRowsAreGoneOnWith(t *testing.T) { goneOnWith(t, sqliteArchive(t)) }

// goneOnWith has a run thrown back to steps behind its end, before it, and to its second; another run's rows in the table stay what they are.
func goneOnWith(t *testing.T, path string) {
	other := path + "x"
	write(t, other, ofStep(1, 2), ofStep(9, 1))
	for from, want := range map[int64]string{4: "1.0 2.0 2.1 3.0 4.0", 3: "1.0 2.0 2.1 3.0", 2: "1.0 2.0", 9: "1.0 2.0 2.1 3.0 9.0"} {
		name := path + string(rune('a'+from))
		write(t, name, ofStep(1, 1), ofStep(2, 2))
		write(t, name, ofStep(3, 1))
		write(t, name, ofStep(from, 1))
		if got := written(t, name); got != want {
			t.Errorf("from step %d: %s, want %s", from, got, want)
		}
	}
	if got := written(t, other); got != "1.0 1.1 9.0" {
		t.Errorf("the other archive has %s", got)
	}
}

// A step whose commit was answered by a broken connection is not there twice.
func TestAStepIsThereOnce(t *testing.T) {
	path := sqliteArchive(t)
	w := writer(t, path)
	before := w.to.(*sqlRows).last
	for _, groups := range [][]trinity.Group{ofStep(1, 2), ofStep(1, 2), ofStep(2, 1)} {
		w.to.(*sqlRows).last, w.to.(*sqlRows).sure = before, false // as though nobody had said that the first is there
		if err := w.Write(t.Context(), groups[0][0].ID.Step, groups); err != nil {
			t.Fatal(err)
		}
	}
	if got := written(t, path); got != "2.0" {
		t.Errorf("it has %s, want only what was written last", got)
	}
}

// What servers do not take in text, and numbers that are not finite, are in the experience.
func TestWhatServersDoNotTake(t *testing.T) {
	path := sqliteArchive(t)
	groups := ofStep(1, 1)
	groups[0][0].Prompt = "a\x00\xff"
	write(t, path, groups)
	if got := readAll(t, path)[0].Prompt; got != "a\x00\xff" {
		t.Errorf("the prompt came back as %q", got)
	}
}

func TestANameThatIsTooLong(t *testing.T) {
	a, _ := addressOf(t, sqliteArchive(t))
	_, err := InDatabase(t.Context(), a, strings.Repeat("x", 251), database.Options{})
	if err == nil || !strings.Contains(err.Error(), "has 251 characters") || !strings.Contains(err.Error(), "project, group, name or explorer.name") {
		t.Errorf("%v, want an error that names the keys", err)
	}
}

func TestADatabaseThatIsNotThere(t *testing.T) {
	a, _ := addressOf(t, "postgresql://ann:s3cret@127.0.0.1:1/rft")
	_, err := InDatabase(t.Context(), a, "x", database.Options{Retries: 1, Interval: 1})
	if err == nil || !strings.Contains(err.Error(), "ann@127.0.0.1:1/rft: tried 2 times") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%v, want an error that names the server, without its password", err)
	}
}
