package monitor

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"github.com/trinity-go/trinity/internal/database"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/rundir"
)

// newTrackio reads the database that the sink writes.
func newTrackio(t *testing.T, dir string, _ *faults) service {
	dir = filepath.Join(dir, "trackio")
	return service{
		args: map[string]any{"dir": dir}, local: true,
		points: func() points {
			got := points{}
			address, err := dburl.Parse("sqlite:///" + filepath.Join(dir, "p.db"))
			if err != nil {
				t.Fatal(err)
			}
			db, err := database.Open(t.Context(), address, database.Options{ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			err = db.Each(t.Context(), "SELECT step, metrics FROM metrics", nil, func() {}, func(rows *sql.Rows) error {
				var step int64
				var text string
				var m map[string]rundir.Number
				if err := rows.Scan(&step, &text); err != nil {
					return err
				}
				err := json.Unmarshal([]byte(text), &m)
				for name, v := range m {
					got.add(name, step, float64(v))
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return got
		},
	}
}

// newTrackioServer takes rows as Trackio's server does: it knows them by their ID.
func newTrackioServer(t *testing.T, _ string, f *faults) service {
	t.Setenv("TRACKIO_WRITE_TOKEN", "secret")
	var mu sync.Mutex
	got, seen := points{}, map[string]bool{}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var in struct{ Logs []trackioRow }
		err := json.NewDecoder(r.Body).Decode(&in)
		if err != nil || r.URL.Path != "/api/bulk_log" || r.Header.Get("X-Trackio-Write-Token") != "secret" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		for _, row := range in.Logs {
			if row.Project != "p" || row.Run != "n" || row.RunID == "" {
				t.Errorf("a row of %+v", row)
			}
			for name, v := range row.Metrics {
				if !seen[row.LogID] {
					got.add(name, row.Step, float64(v))
				}
			}
			seen[row.LogID] = true
		}
		fmt.Fprint(w, `{"data": null}`)
	})
	return service{
		args: map[string]any{"server_url": f.serve(t, h)}, points: func() points { mu.Lock(); defer mu.Unlock(); return maps.Clone(got) },
	}
}

func TestTrackioFile(t *testing.T) {
	for project, want := range map[string]string{
		"my.model": "mymodel.db", "../a b": "ab.db", "größe_1-x": "größe_1-x.db", "..": "default.db",
	} {
		if got := trackioFile(project); got != want {
			t.Errorf("%q is in %q, want %q", project, got, want)
		}
	}
}
