package database

import (
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Address is the URL of a database: sqlite:///relative.db, sqlite:////absolute.db,
// postgresql://user:password@host:port/name or mysql://…. The scheme may name a driver of
// SQLAlchemy (postgresql+psycopg2).
type Address struct {
	kind *dialect
	file string // of SQLite
	url  *url.URL
}

// Denied says what to do if a server rejects user or password.
const Denied = "check user and password in the URL at path; they may come from the environment: user:${oc.env:DB_PASSWORD}@host"

// String returns the address without its password.
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

// IsURL reports whether a path is the URL of a database.
func IsURL(path string) bool {
	scheme, _, ok := strings.Cut(path, "://")
	return ok && schemes[driverless(scheme)] != nil
}

var schemes = map[string]*dialect{
	"sqlite": sqlite, "postgresql": postgres, "postgres": postgres, "mysql": mySQL, "mariadb": mySQL,
}

// driverless returns a scheme without a driver.
func driverless(scheme string) string {
	scheme, _, _ = strings.Cut(scheme, "+")
	return scheme
}

// Parse reads a URL. Its errors do not contain the password.
func Parse(text string) (Address, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	kind := schemes[driverless(scheme)]
	if !ok || kind == nil {
		return Address{}, fmt.Errorf("%s is no database: want sqlite:///file.db, postgresql://user@host/name or mysql://user@host/name",
			Hidden(text))
	}
	if kind == sqlite {
		return sqliteAddress(rest)
	}
	u, err := url.Parse(driverless(scheme) + "://" + rest)
	if err != nil { // it may contain parts of the password
		return Address{}, fmt.Errorf("%s is no URL: check its port; in a password, write %% : / ? # @ as %%25 %%3A %%2F %%3F %%23 %%40",
			Hidden(text))
	}
	if u.Hostname() == "" && u.Query().Get("host") == "" && u.Query().Get("unix_socket") == "" || strings.Trim(u.Path, "/") == "" {
		return Address{}, fmt.Errorf("%s names no host, or no database: want %s://user@host/name", Hidden(text), u.Scheme)
	}
	if kind == mySQL {
		if err := checkMySQL(u.Query()); err != nil {
			return Address{}, fmt.Errorf("%s: %w", Hidden(text), err)
		}
	}
	return Address{kind: kind, url: u}, nil
}

func checkMySQL(options url.Values) error {
	for key := range options {
		if !slices.Contains(mySQLOptions, key) {
			return fmt.Errorf("option %s is not known: there is %s", key, strings.Join(mySQLOptions, ", "))
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
	return Address{kind: sqlite, file: filepath.FromSlash(file)}, nil
}

var password = regexp.MustCompile(`(\w://[^:/@\s]*):\S*@`)

// option matches a secret among the options of a URL, such as libpq's passwords and services'
// tokens.
var option = regexp.MustCompile(`([?&](?:(?:ssl)?password|(?:access_)?token|api_?key|key|secret)=)[^&\s"]*`)

// argument matches a secret among the arguments of a command, such as --api-key=… and --hf-token ….
var argument = regexp.MustCompile(`(?i)((?:^|[\s"'])--?(?:\w+[-_])*` +
	`(?:(?:api|access|secret)[-_]?key|(?:(?:hf|api|auth|access|bearer|session|bot)[-_])token|-token|password|passwd|secret)(?:=|\s+))` +
	`("[^"]*"|'[^']*'|[^\s"'-][^\s"']*)`)

// Hidden returns text with stars in place of the passwords, tokens and keys of URLs and commands.
func Hidden(text string) string {
	text = option.ReplaceAllString(password.ReplaceAllString(text, "$1:***@"), "$1***")
	return argument.ReplaceAllString(text, "$1***")
}

// HidesAfter reports whether an argument of a command is a secret because of the one before it.
func HidesAfter(before, value string) bool {
	text := before + " " + value
	return Hidden(before) == before && Hidden(value) == value && Hidden(text) != text
}
