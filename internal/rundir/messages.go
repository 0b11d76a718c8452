package rundir

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Message is a line for people.
type Message struct {
	Time time.Time
	Text string
}

// ReadMessages reads lines for people in a monitor directory, at most so many bytes from an offset on, and returns
// where to go on. A line without a time has the time of the one before it.
func ReadMessages(dir string, from int64, most int) (all []Message, end int64, err error) {
	file, err := os.Open(filepath.Join(dir, MessagesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, from, nil
	}
	if err != nil {
		return nil, from, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.NewSectionReader(file, from, int64(most)))
	if err != nil {
		return nil, from, err
	}
	whole := bytes.LastIndexByte(data, '\n') + 1
	if whole == 0 && len(data) == most {
		whole = len(data) // a line that is too long comes in pieces
	}
	at := time.Now()
	for line := range strings.Lines(string(data[:whole])) {
		line = strings.TrimSuffix(line, "\n")
		stamp, text, _ := strings.Cut(line, " ")
		if t, err := time.Parse(time.RFC3339Nano, stamp); err == nil {
			at = t
		} else {
			text = line
		}
		all = append(all, Message{at, text})
	}
	return all, from + int64(whole), nil
}
