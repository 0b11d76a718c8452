// Package dburl reads the URLs of databases, as SQLAlchemy writes them. It links no driver.
package dburl

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/safetext"
)

// Address is the URL of a database: sqlite:///relative.db, sqlite:////absolute.db,
// postgresql://user:password@host:port/name or mysql://…. The scheme may name a driver of
// SQLAlchemy (postgresql+psycopg2).
type Address struct {
	kind string
	file string // of SQLite
	url  *url.URL
}

// Kinds of databases.
const (
	SQLite   = "sqlite"
	Postgres = "postgresql"
	MySQL    = "mysql" // and MariaDB
)

// Kind returns the kind of the database.
func (a Address) Kind() string { return a.kind }

// File returns the file of SQLite, "" for a server.
func (a Address) File() string { return a.file }

// URL returns the URL of a server, with its password; nil for SQLite. It is read only.
func (a Address) URL() *url.URL { return a.url }

// String returns the address without its password.
func (a Address) String() string {
	if a.kind == SQLite {
		return a.file
	}
	shown := url.URL{Scheme: a.url.Scheme, Host: a.url.Host, Path: a.url.Path}
	if name := a.url.User.Username(); name != "" {
		shown.User = url.User(name)
	}
	return shown.String()
}

// IsURL reports whether a path is the URL of a database.
func IsURL(path string) bool {
	scheme, _, ok := strings.Cut(path, "://")
	return ok && schemes[driverless(scheme)] != ""
}

var schemes = map[string]string{SQLite: SQLite, Postgres: Postgres, "postgres": Postgres, MySQL: MySQL, "mariadb": MySQL}

// driverless returns a scheme without a driver.
func driverless(scheme string) string {
	scheme, _, _ = strings.Cut(scheme, "+")
	return scheme
}

// Parse reads a URL. Its errors do not contain the password.
func Parse(text string) (Address, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	kind := schemes[driverless(scheme)]
	if !ok || kind == "" {
		return Address{}, fmt.Errorf("%s is no database: want sqlite:///file.db, postgresql://user@host/name or mysql://user@host/name",
			safetext.Hidden(text))
	}
	if kind == SQLite {
		return sqliteAddress(rest)
	}
	u, err := url.Parse(driverless(scheme) + "://" + rest)
	if err != nil { // it may contain parts of the password
		return Address{}, fmt.Errorf("%s is no URL: check its port; in a password, write %% : / ? # @ as %%25 %%3A %%2F %%3F %%23 %%40",
			safetext.Hidden(text))
	}
	if u.Hostname() == "" && u.Query().Get("host") == "" && u.Query().Get("unix_socket") == "" || strings.Trim(u.Path, "/") == "" {
		return Address{}, fmt.Errorf("%s names no host, or no database: want %s://user@host/name", safetext.Hidden(text), u.Scheme)
	}
	if kind == MySQL {
		if err := checkMySQL(u.Query()); err != nil {
			return Address{}, fmt.Errorf("%s: %w", safetext.Hidden(text), err)
		}
	}
	return Address{kind: kind, url: u}, nil
}

// mysqlOptions lists the options that the URL of MySQL may have after its ?.
var mysqlOptions = []string{"charset", "tls", "unix_socket"}

func checkMySQL(options url.Values) error {
	for key := range options {
		if !slices.Contains(mysqlOptions, key) {
			return fmt.Errorf("option %s is not known: there is %s", key, strings.Join(mysqlOptions, ", "))
		}
	}
	if set := options.Get("charset"); set != "" && !slices.Contains([]string{"utf8", "utf8mb4"}, strings.ToLower(set)) {
		return fmt.Errorf("charset %s: connections use utf8mb4, whatever the tables have: leave charset out", set)
	}
	return nil
}

func sqliteAddress(rest string) (Address, error) {
	file, ok := strings.CutPrefix(rest, "/")
	if !ok || file == "" || strings.ContainsAny(file, "?") || strings.HasPrefix(file, ":memory:") {
		return Address{}, fmt.Errorf("sqlite://%s names no file: want sqlite:///relative.db or sqlite:////absolute.db", rest)
	}
	return Address{kind: SQLite, file: filepath.FromSlash(file)}, nil
}
