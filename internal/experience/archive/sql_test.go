package archive

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/database"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/experience"
)

// patient retries until a killed server has restarted.
var patient = database.Options{Retries: 300, Interval: 50 * time.Millisecond}

// sqliteArchive returns the URL of a file that does not exist yet, a # and the name of an archive
// in it.
func sqliteArchive(t *testing.T) string {
	return "sqlite:///" + filepath.ToSlash(filepath.Join(t.TempDir(), "new", "kept.db")) + "#project/run/output-WORD"
}

func addressOf(t *testing.T, path string) (a dburl.Address, name string) {
	t.Helper()
	url, name, _ := strings.Cut(path, "#")
	a, err := dburl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	return a, name
}

// writer opens an archive in files or in a database until the test ends.
func writer(t *testing.T, path string) *Writer {
	t.Helper()
	if !dburl.IsURL(path) {
		w, err := New(path, "")
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	url, name, _ := strings.Cut(path, "#")
	w, err := InDatabase(t.Context(), url, name, patient.Retries, patient.Interval, nil)
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

// readRows reads an archive with the query of the documentation.
func readRows(t *testing.T, path string) (exps []*trinity.Experience) {
	t.Helper()
	a, name := addressOf(t, path)
	db, err := database.Open(t.Context(), a, database.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Stream(t.Context(), "SELECT * FROM trinity_archive WHERE archive = '"+name+"' ORDER BY step, id",
		func(columns []database.Column) error {
			row := map[string]any{}
			for _, c := range columns {
				row[c.Name] = c.Value
			}
			e, err := experience.FromRow(row)
			if err != nil {
				return err
			}
			if row["step"] != e.ID.Step || row["response"] != e.Response || row["model_version"] != e.Versions[1] ||
				row["reward"] != e.Reward.Value || row["response_tokens"] != int64(1) {
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

// Steps of other archives in the table are not touched.
func TestOtherArchivesStay(t *testing.T) { otherArchivesStay(t, sqliteArchive(t)) }

func otherArchivesStay(t *testing.T, path string) {
	other := path + "x"
	write(t, other, ofStep(1, 2), ofStep(9, 1))
	write(t, path, ofStep(1, 1), ofStep(9, 2))
	write(t, path, ofStep(9, 1))
	if got, want := written(t, path), "1.0 9.0"; got != want {
		t.Errorf("it has %s, want %s", got, want)
	}
	if got, want := written(t, other), "1.0 1.1 9.0"; got != want {
		t.Errorf("the other archive has %s, want %s", got, want)
	}
}

// The column experience keeps text exactly, including characters that servers refuse.
func TestTextThatServersRefuse(t *testing.T) {
	path := sqliteArchive(t)
	groups := ofStep(1, 1)
	groups[0][0].Prompt = "a\x00\xff"
	write(t, path, groups)
	if got := readAll(t, path)[0].Prompt; got != "a\x00\xff" {
		t.Errorf("the prompt came back as %q", got)
	}
}

func TestLongNameIsRefused(t *testing.T) {
	url, _, _ := strings.Cut(sqliteArchive(t), "#")
	_, err := InDatabase(t.Context(), url, strings.Repeat("x", 251), 0, 0, nil)
	if err == nil || !strings.Contains(err.Error(), "has 251 characters") ||
		!strings.Contains(err.Error(), "project, group, name or explorer.name") {
		t.Errorf("%v, want an error that names the keys", err)
	}
}

func TestUnreachableDatabase(t *testing.T) {
	_, err := InDatabase(t.Context(), "postgresql://ann:s3cret@127.0.0.1:1/rft", "x", 1, 1, nil)
	if err == nil || !strings.Contains(err.Error(), "ann@127.0.0.1:1/rft: tried 2 times") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%v, want an error that names the server, without its password", err)
	}
}
