package dburl

import (
	"fmt"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for url, want := range map[string]string{
		"sqlite:///gsm8k.db":                                 "gsm8k.db",
		"sqlite:////data/a b.db":                             "/data/a b.db",
		"sqlite+aiosqlite:///x.db":                           "x.db",
		"postgresql://ann:s3cret@db.example:5433/rft":        "postgresql://ann@db.example:5433/rft",
		"postgresql+psycopg2://ann:s3%40cret@db.example/rft": "postgresql://ann@db.example/rft",
		"postgres:///rft?host=/run/postgresql":               "postgres:///rft",
		"mysql+pymysql://ann:s3cret@db.example/rft":          "mysql://ann@db.example/rft",
		"mysql+pymysql://ann@db.example/rft?charset=utf8mb4": "mysql://ann@db.example/rft",
		"mariadb://ann@/rft?unix_socket=/run/my.sock":        "mariadb://ann@/rft",
	} {
		a, err := Parse(url)
		if err != nil || a.String() != want {
			t.Errorf("%s: %s, %v; want %s", url, a, err, want)
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%q"} {
			if text := fmt.Sprintf(verb, struct{ Address }{a}); strings.Contains(text, "s3") {
				t.Errorf("%s prints %s", verb, text)
			}
		}
		if !IsURL(url) {
			t.Errorf("%s is a database's URL", url)
		}
	}
	for url, words := range map[string]string{
		"train.jsonl":                             "no database",
		"https://ann:s3cret@db.example/rft":       "no database",
		"sqlite://gsm8k.db":                       "names no file",
		"sqlite:///":                              "names no file",
		"sqlite:///:memory:":                      "names no file",
		"postgresql://ann:s3cret@db.example":      "no database",
		"postgresql://ann:s3c#ret@db.example/rft": "%23",
		"postgresql://ann:s3cret@db.example:x/d":  "port",
		"mysql://ann:s3cret@db.example/d?tsl=1":   "option tsl is not known",
		"mysql://a:s3cret@h/d?charset=latin1":     "charset latin1",
	} {
		_, err := Parse(url)
		if err == nil || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "s3c") {
			t.Errorf("%s: %v; want an error with %q, and without the password", url, err, words)
		}
	}
}
