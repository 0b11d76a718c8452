package record

import (
	"cmp"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/safetext"
)

// scrub replaces the secrets that a run knows by stars in what programs and services of others say: a
// service that refuses a request may repeat its headers, and a program its environment.
type scrub func(text string) string

// minSecret is the least length of a secret that scrub looks for, in bytes: a shorter one may be a part of
// any word.
const minSecret = 8

// secretName matches the names of environment variables, headers and keys that hold secrets.
var secretName = regexp.MustCompile(`(?i)(TOKEN|[_-]KEY|APIKEY|SECRET|PASSWORD|PASSWD|AUTHORIZATION|COOKIE)$`)

// isLikeToken reports whether a value has letters and digits and is no path: env has many values that are
// no secrets, such as folders, and which lines for people need.
func isLikeToken(value string) bool {
	isDigit := func(r rune) bool { return r >= '0' && r <= '9' }
	return !strings.ContainsAny(value, "/\\ ,") && strings.ContainsFunc(value, isDigit) && strings.ContainsFunc(value, unicode.IsLetter)
}

// ScrubOf returns the scrub of a configuration: it knows the configuration's secrets, and those of the
// environment.
func ScrubOf(cfg *config.Config) scrub {
	var secrets []string
	cfg.Secrets(func(key, value string) {
		if secretName.MatchString(key) || isLikeToken(value) {
			secrets = append(secrets, value)
			secrets = append(secrets, strings.Fields(value)...) // Bearer …
		}
	})
	for _, variable := range os.Environ() {
		if name, value, _ := strings.Cut(variable, "="); secretName.MatchString(name) {
			secrets = append(secrets, value)
		}
	}
	secrets = slices.DeleteFunc(secrets, func(s string) bool { return len(s) < minSecret })
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }) // the longest wins
	var pairs []string
	for _, s := range slices.Compact(secrets) {
		pairs = append(pairs, s, "***")
	}
	known := strings.NewReplacer(pairs...)
	return func(text string) string { return safetext.Hidden(known.Replace(text)) }
}

// lines passes lines on to say.
func (s scrub) lines(say func(string)) func(string) { return func(line string) { say(s(line)) } }

// scrubbedError is an error whose text is scrubbed.
type scrubbedError struct {
	error
	text string
}

func (e *scrubbedError) Error() string { return e.text }
func (e *scrubbedError) Unwrap() error { return e.error }

// Err returns an error with a scrubbed text.
func (s scrub) Err(err error) error {
	if err == nil {
		return nil
	}
	if text := s(err.Error()); text != err.Error() {
		return &scrubbedError{err, text}
	}
	return err
}

// Writer passes texts on to a writer.
func (s scrub) Writer(to io.Writer) io.Writer { return scrubbedWriter{to, s} }

// scrubbedWriter writes scrubbed texts. A secret that comes in two writes passes.
type scrubbedWriter struct {
	to io.Writer
	scrub
}

// Write implements io.Writer.
func (w scrubbedWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, w.scrub(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
