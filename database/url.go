package database

import (
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Address is a database's URL: sqlite:///relative.db, sqlite:////absolute.db, postgresql://user:password@host:port/name or mysql://…, each also with the driver
// that SQLAlchemy is to use behind its scheme (postgresql+psycopg2).
type Address struct {
	kind *dialect
	file string // of SQLite
	url  *url.URL
}

// String is the address without its password.
func (a Address) String() string {
	if a.kind == sqlite {
		return a.file
	}
	shown := url.URL{Scheme: a.url.Scheme, Host: a.url.Host, Path: a.url.Path}
	if name := a.url.User.Username(); name != "" {
		shown.User = url.User(name)
	}
	return shown.String()
}

// IsURL reports whether a path is a database's.
func IsURL(path string) bool {
	scheme, _, ok := strings.Cut(path, "://")
	return ok && schemes[driverless(scheme)] != nil
}

var schemes = map[string]*dialect{
	"sqlite": sqlite, "postgresql": postgres, "postgres": postgres, "mysql": mySQL, "mariadb": mySQL,
}

// driverless is a scheme without the driver that it names.
func driverless(scheme string) string {
	scheme, _, _ = strings.Cut(scheme, "+")
	return scheme
}

// Parse reads a URL. Errors do not have its password.
func Parse(text string) (Address, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	kind := schemes[driverless(scheme)]
	if !ok || kind == nil {
		return Address{}, fmt.Errorf("%s is no database: want sqlite:///file.db, postgresql://user@host/name or mysql://user@host/name", Hidden(text))
	}
	if kind == sqlite {
		return sqliteAddress(rest)
	}
	u, err := url.Parse(driverless(scheme) + "://" + rest)
	if err != nil { // which may have parts of the password
		return Address{}, fmt.Errorf("%s is no URL: look at its port; in a password %% : / ? # @ are written %%25 %%3A %%2F %%3F %%23 %%40", Hidden(text))
	}
	if u.Hostname() == "" && u.Query().Get("host") == "" && u.Query().Get("unix_socket") == "" || strings.Trim(u.Path, "/") == "" {
		return Address{}, fmt.Errorf("%s names no host, or no database: want %s://user@host/name", Hidden(text), u.Scheme)
	}
	if kind == mySQL {
		for key := range u.Query() {
			if !slices.Contains(mySQLOptions, key) {
				return Address{}, fmt.Errorf("%s: option %s is not known: there is %s", Hidden(text), key, strings.Join(mySQLOptions, ", "))
			}
		}
	}
	return Address{kind: kind, url: u}, nil
}

func sqliteAddress(rest string) (Address, error) {
	file, ok := strings.CutPrefix(rest, "/")
	if !ok || file == "" || strings.ContainsAny(file, "?") || strings.HasPrefix(file, ":memory:") {
		return Address{}, fmt.Errorf("sqlite://%s names no file: want sqlite:///relative.db or sqlite:////absolute.db", rest)
	}
	return Address{kind: sqlite, file: filepath.FromSlash(file)}, nil
}

var password = regexp.MustCompile(`(\w://[^:/@\s]*):\S*@`)

// option is a password as libpq's URLs may have it: an option, or that of a key's file.
var option = regexp.MustCompile(`([?&](?:ssl)?password=)[^&\s]*`)

// Hidden is text with stars in place of the passwords of URLs.
func Hidden(text string) string {
	return option.ReplaceAllString(password.ReplaceAllString(text, "$1:***@"), "$1***")
}
