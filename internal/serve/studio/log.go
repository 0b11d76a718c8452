package studio

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
)

// Bytes of a run's log that go into a reply: the first one has the log's end.
const (
	firstLog = 64 << 10
	maxLog   = 256 << 10
)

// log answers with what a run printed after a cursor, or with the end of all.
func (s *runs) log(r *http.Request) (any, error) {
	root, err := s.root()
	if err != nil {
		return nil, err
	}
	id := r.PathValue("run")
	_, started, err := startedAs(root, id)
	if err != nil {
		return nil, err
	}
	dir, name := startDir(root, started), logFile
	if started == "" { // a run keeps lines for people, and not all that it prints
		run, err := s.open(id)
		if err != nil {
			return nil, err
		}
		dir, name = filepath.Join(run.dir, rundir.Monitor), rundir.MessagesFile
	}
	f, size, err := durable.OpenWithin(dir, name)
	if started == "" && errors.Is(err, fs.ErrNotExist) {
		return map[string]any{"started": false, "text": "", "cursor": 0, "reset": true}, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	at, err := number(r, "since", -1)
	if err != nil {
		return nil, err
	}
	reset := at < 0 || at > size
	if reset {
		at = max(0, size-firstLog)
	}
	text, err := io.ReadAll(io.NewSectionReader(f, at, min(maxLog, size-at)))
	if err != nil {
		return nil, err
	}
	text = wholeRunes(text)
	valid := strings.ToValidUTF8(string(text), "\uFFFD")
	return map[string]any{"started": started != "", "text": valid, "cursor": at + int64(len(text)), "reset": reset}, nil
}

// wholeRunes returns a text without the half of a character at its end.
func wholeRunes(text []byte) []byte {
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if tail := text[len(text)-back:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return text[:len(text)-back]
			}
			break
		}
	}
	return text
}
