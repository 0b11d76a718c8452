package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/durable"
	"github.com/trinity-go/trinity/failpoint"
)

var (
	failWrite = failpoint.New("archive.write")
	failSync  = failpoint.New("archive.sync")
)

// lines is a file of JSON Lines.
type lines struct {
	steps steps
	file  *os.File
}

// steps is how the lines of a step stand in the file.
type steps interface {
	// pack makes lines what is appended to the file.
	pack(step int64, lines []byte) ([]byte, error)
	// before is where the first step begins that is the given one, a later one or not whole. What was never an archive is an error.
	before(r io.ReaderAt, size, step int64) (int64, error)
}

func (l *lines) open(path string, step int64) error {
	end, size, err := l.keep(path, step)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if end == 0 && size > 0 {
		if err := moveAside(path); err != nil {
			return err
		}
		size = 0
	}
	if size == 0 {
		if err := durable.WriteFile(path, nil); err != nil { // its name is on the disk then
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = f.Seek(end, io.SeekStart)
	if err := errors.Join(err, f.Truncate(end)); err != nil {
		return errors.Join(err, f.Close())
	}
	l.file = f
	return nil
}

// keep is how much of what is there stays, of how many bytes.
func (l *lines) keep(path string, step int64) (end, size int64, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	end, err = l.steps.before(f, info.Size(), step)
	return end, info.Size(), err
}

func (l *lines) write(step int64, exps []*trinity.Experience) error {
	text, err := jsonLines(exps)
	if err != nil {
		return err
	}
	data, err := l.steps.pack(step, text)
	if err != nil {
		return err
	}
	if _, err := failWrite.Write(l.file, l.file.Name(), data); err != nil {
		return err
	}
	if err := failSync.Hit(l.file.Name()); err != nil {
		return err
	}
	return l.file.Sync()
}

func (l *lines) close() error { return l.file.Close() }

func jsonLines(exps []*trinity.Experience) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	for _, e := range exps {
		if err := enc.Encode(sayable(e)); err != nil {
			return nil, fmt.Errorf("experience %s as JSON: %w", e.ID, err)
		}
	}
	return text.Bytes(), nil
}

// sayable is the experience with nothing in its numbers that JSON has no word for; a reward that it has none for is an invalid one.
func sayable(e *trinity.Experience) *trinity.Experience {
	out := *e
	if !finite(e.Reward.Value) {
		out.Reward = trinity.InvalidReward(fmt.Sprintf("the reward is %v", e.Reward.Value))
	}
	out.Reward.Parts, out.Metrics = finiteOf(out.Reward.Parts), finiteOf(e.Metrics)
	return &out
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func finiteOf(m map[string]float64) map[string]float64 {
	var out map[string]float64
	for k, v := range m {
		if !finite(v) {
			continue
		}
		if out == nil {
			out = map[string]float64{}
		}
		out[k] = v
	}
	return out
}
