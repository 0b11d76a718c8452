//go:build unix

package database

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/trinitytest/server"
)

// A wrong password is an error at once. The error says what to do, and does not contain the
// password.
func TestDenied(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *server.Server{"PostgreSQL": server.Postgres, "MariaDB": server.MariaDB} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t).URL
			for _, user := range []string{"trinity:s3cret@", "trinity@", "nobody:s3cret@"} {
				a, err := dburl.Parse(strings.Replace(url, "trinity:secret@", user, 1))
				if err != nil {
					t.Fatal(err)
				}
				_, err = Open(t.Context(), a, Options{Retries: 1000, Interval: 1e7}) // a server may be starting
				if err == nil || !strings.HasSuffix(err.Error(), Denied) || strings.Contains(err.Error(), "s3cret") ||
					strings.Contains(err.Error(), "\n") {
					t.Errorf("%s: %v, want what to do", user, err)
				}
			}
		})
	}
}
